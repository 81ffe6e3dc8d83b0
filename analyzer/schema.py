"""Every value that crosses a boundary: static half, worker, merge, reports, JSON.

Stdlib only: the worker carries this file into the target interpreter. Every value is frozen; sequences
are tuples; lines and columns are 1-based; columns count characters, the end column is one past the last.
`as_json` and `from_json` are the only way in and out of JSON.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Union

SCHEMA_VERSION = 1
"""1: first version."""

Effect = Literal[
    "graph_break",
    "frame_skip",
    "recompile",
    "compile_error",
    "wrong_result",
    "sync",
    "cudagraph_skip",
    "slow",
    "intent",
]
Level = Literal["error", "warning", "note"]
Confidence = Literal["high", "medium", "low"]
Origin = Literal["own", "third_party"]
Status = Literal["confirmed", "not_observed", "not_traced", "not_reached", "runtime_only", "predicted"]
Verdict = Literal["ready", "ready_by_region", "not_ready", "unknown"]
StageName = Literal["parse", "import", "build", "eager", "capture", "fullgraph", "backend", "parity", "speed"]
StageState = Literal["pass", "fail", "not_run"]
TrainingPhase = Literal["loss", "gradients", "forward", "backward", "optimizer", "step"]
Mode = Literal["infer", "train"]
ModeAsked = Literal["infer", "train", "both"]
Fate = Literal["split", "whole_frame", "not_compiled"]
Action = Literal["resume", "skip_frame", "skip_rest", "skip_frame_unlogged"]
RegionState = Literal["predicted", "proved", "refuted"]

FindingKind = Literal["new", "moved", "unchanged", "fixed", "not_compared"]
"""`not_compared`: the later report cannot tell: it did not read that file or run that target, read it otherwise, or
hides the finding."""

SYNTHESISED = "synthesised: "
"""How an Observation's `convention` begins where nobody gave the inputs; what they are follows."""
ShapeSetting = Literal["default", "dynamic=True", "dynamic=False", "mark_dynamic"]
ShapeCure = Literal["none", "keep", "mark_dynamic", "dynamic=True", "pad", "mend", "unknown"]

LEVELS: tuple[Level, ...] = ("note", "warning", "error")
"""In rising order of weight."""
FATES: tuple[Fate, ...] = ("not_compiled", "split", "whole_frame")
"""In rising order of what is lost: of several fates of one function the last of these is told."""
STAGES: tuple[StageName, ...] = (
    "parse",
    "import",
    "build",
    "eager",
    "capture",
    "fullgraph",
    "backend",
    "parity",
    "speed",
)
"""In the order in which a target climbs them."""
BREAKING: frozenset[Effect] = frozenset({"graph_break", "frame_skip", "compile_error"})
"""Effects that split or end a compiled region."""


INTENDED = frozenset({"GB0025", "GB0098", "GB0099"})
"""Ids of breaks that the author asked for: `torch._dynamo.graph_break()`, `torch.compiler.disable`."""


class TcreadyError(Exception):
    """What the user can mend: told in one line, exit 2, never a traceback."""


def display_path(path: str, root: str) -> str:
    """How a file is named in every output, with forward slashes.

    Below a site-packages (or dist-packages): the path below it. Else relative to `root` where it lies
    inside. Else absolute. Both are compared as real paths.
    """
    real, base = os.path.realpath(path), os.path.realpath(root)
    parts = real.replace(os.sep, "/").split("/")
    for index in range(len(parts) - 2, -1, -1):
        if parts[index] in ("site-packages", "dist-packages"):
            return "/".join(parts[index + 1 :])
    if real == base or real.startswith(base.rstrip(os.sep) + os.sep):
        return os.path.relpath(real, base).replace(os.sep, "/")
    return "/".join(parts)


def is_installed(path: str) -> bool:
    """Whether the file `path` lies below a site-packages (or dist-packages)."""
    real = os.path.realpath(path).replace(os.sep, "/")
    return "/site-packages/" in real or "/dist-packages/" in real


def origin_of(path: str, root: str, packages: tuple[str, ...] = ()) -> Origin:
    """Whose code the file `path` is.

    `own` below `root` and not below a site-packages; below a site-packages only where the first segment
    there is one of `packages` (the distribution a target `pkg.mod::X` asked for).
    """
    shown = display_path(path, root)
    if is_installed(path):
        return "own" if shown.split("/")[0].removesuffix(".py") in packages else "third_party"
    return "own" if not os.path.isabs(shown) else "third_party"


@dataclass(frozen=True)
class Fix:
    title: str
    """One sentence."""
    safe: bool
    """Whether it may be applied unread; no suggestion of this version may."""
    diff: str | None
    """A unified diff against the file as it stands, or None where only the rule's example speaks."""
    verified: bool | None
    """True or False once a run has shown it; None while nobody ran it."""


@dataclass(frozen=True)
class FindingTarget:
    target: str
    case: str | None
    """The named case in which it was confirmed; None where the inputs name none."""
    status: Status
    mode: Mode | None = None
    """The mode of the run, where the target was run in several."""


@dataclass(frozen=True)
class FrameFate:
    """What a break does to one function. `line` is the first of its code, decorators included.

    `split`: it is compiled up to the break, or up to the call that leads there, and again from there on.
    `whole_frame`: Dynamo gives all of it up, or all that is left; what it calls may still be compiled.
    `not_compiled`: Dynamo never compiles it by itself, break or no break.
    """

    path: str
    line: int
    symbol: str
    fate: Fate
    because: str | None = None
    """What decides that it is no split: the statement around the break or the call (`for`, `while`, `try`,
    `with`), `iterator`, `generator`, `property`, `checkpoint`, `no tensor`, or `construct`: the break itself."""


@dataclass(frozen=True)
class BreakShape:
    """What a break does to the functions around it, as the source predicts it and as runs showed it."""

    frame: FrameFate
    """The function that the break stands in."""
    above: tuple[FrameFate, ...] = ()
    """Every function on a way from a compiled entry down to it, outermost first."""
    levels: int = 1
    """Compiled functions on the shortest way, this one included: the break is met once in each of them."""
    chains: int = 1
    """Distinct ways, told by the functions on them."""
    seen: tuple[FrameFate, ...] = ()
    """What runs showed for this break; empty where none did."""


@dataclass(frozen=True)
class Finding:
    """One hazard at one place. `path` is spelled as `display_path` spells it."""

    rule: str | None
    """`TCR101`; None where a run showed what no rule speaks of."""
    name: str
    """The rule's name, or the kind of what the run showed."""
    effect: Effect
    """What Dynamo is said to do."""
    level: Level
    confidence: Confidence
    message: str
    """One line."""
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    """One past the last; the span is one expression or the header of one statement."""
    symbol: str
    """The function it stands in: `Model.forward`."""
    origin: Origin
    """Whose code it is: the user's, or an installed package's."""
    status: Status
    gb_ids: tuple[str, ...]
    """Ids of PyTorch's graph break registry: of the breaks that were seen, else of those that the rule predicts."""
    targets: tuple[FindingTarget, ...]
    """The status in each target, and in each named case of it."""
    fingerprint: str
    """The same for the same rule, file, function and code, on whatever line."""
    fix: Fix | None = None
    cost: Mapping[str, float] | None = None
    """`operations` that ran outside of graphs on its account, and their `seconds`, in one warm call of each case."""
    evidence: tuple[str, ...] = ()
    """Why the static pass says so, in plain words, and what the run said: one line each, static first."""
    reached_by: tuple[str, ...] = ()
    """Symbols from the compiled entry down to the function this stands in: how it is reached."""
    shape: BreakShape | None = None
    """What the break does to the functions around it; None for what is no break."""
    modes: tuple[Mode, ...] = ()
    """The modes in which the static pass finds it, where it was asked about both; empty where about one."""
    also: tuple[str, ...] = ()
    """Fingerprints of what else is found of the same kind on this line: this finding is told for them too."""
    also_until: int | None = None
    """The last line of their spans; None where it is told for itself alone."""


@dataclass(frozen=True)
class Stage:
    stage: StageName
    state: StageState
    detail: str
    """Why it failed or did not run; what it came to."""
    seconds: float | None = None


@dataclass(frozen=True)
class Frame:
    path: str
    line: int
    symbol: str


@dataclass(frozen=True)
class Cost:
    """What ran outside of graphs on account of one break, in the warm call whose operations are counted."""

    ops: int
    seconds: float
    """Of those operations, each measured by itself: on the device's clock on CUDA, on the host's elsewhere."""


@dataclass(frozen=True)
class Intent:
    """Code whose author decided about compiling it: compiled already, or kept out. It is left as it is."""

    path: str
    line: int
    symbol: str
    kind: Literal["compiled", "disabled"]
    how: str
    """`torch.compile`, `module.compile()`, `torch.compiler.disable`."""
    modules: tuple[str, ...] = ()
    """Dotted names of the modules that are compiled by a call of their own."""


@dataclass(frozen=True)
class BreakSite:
    """A distinct source line at which Dynamo broke; `hits` counts events, `stack` is outermost first."""

    path: str
    line: int
    symbol: str
    reason: str
    """As Dynamo words it."""
    gb_id: str | None
    hits: int
    origin: Origin
    stack: tuple[Frame, ...]
    action: Action = "resume"
    """What Dynamo did then: resume behind the break, or give up the function, or what is left of it."""
    case: str | None = None
    gb_ids: tuple[str, ...] = ()
    """Every id seen at this line, root cause first; `gb_id` is the first of them."""
    hints: tuple[str, ...] = ()
    frames: tuple[FrameFate, ...] = ()
    """The functions in whose compilation this break was met, and what became of each."""
    cost: Cost | None = None
    """None where no warm call was counted."""


@dataclass(frozen=True)
class SkippedFrame:
    """A user frame Dynamo gave up on; `benign` when it held no tensor work. `end_line` closes its code."""

    path: str
    line: int
    symbol: str
    reason: str
    """As Dynamo words it."""
    benign: bool
    end_line: int | None = None
    origin: Origin = "own"
    case: str | None = None


@dataclass(frozen=True)
class Graph:
    compile_id: str
    """As torch's logs name it."""
    path: str
    line: int
    """The first line of the function that it was captured from."""
    ops: int
    """As Dynamo counts them."""
    guards: int | None = None
    phase: Literal["forward", "backward", "inference"] = "inference"
    case: str | None = None
    """The named case; None where the inputs name none."""
    symbol: str = ""
    modules: tuple[str, ...] = ()
    """Dotted names of the modules whose operations it held in the warm call, in order; the root is ""."""


@dataclass(frozen=True)
class Recompile:
    path: str
    line: int
    """The first line of the function that was compiled again."""
    symbol: str
    reasons: tuple[str, ...]
    """The guards that failed."""
    case: str | None = None
    identical_call: bool = False
    """Whether it was the third of three calls with the same inputs."""
    origin: Origin = "own"
    lines: tuple[Frame, ...] = ()
    """The source lines that the failed guards name, where they name any."""


@dataclass(frozen=True)
class CaseCoverage:
    """What one named case's warm call dispatched, and how much it weighs in the share of all cases."""

    case: str
    weight: float
    ops_total: int
    ops_captured: int
    share: float
    """`ops_captured` over `ops_total`."""


@dataclass(frozen=True)
class Coverage:
    """ATen dispatches of one warm call per case: in graphs over all. `ops_total` and `ops_captured` are plain sums."""

    ops_total: int
    ops_captured: int
    share: float
    """Each case's dispatches count as often as its weight says."""
    time_share: float | None = None
    """The same share by the time of the operations, each measured by itself."""
    seconds: float | None = None
    """Of all the operations together."""
    clock: str | None = None
    """`cuda` where the device's events measured the time, `host` where `time.perf_counter` did."""
    cases: tuple[CaseCoverage, ...] = ()
    """Where the inputs name cases."""


@dataclass(frozen=True)
class DdpSplit:
    """One graph below DistributedDataParallel, as Dynamo's DDPOptimizer parted it along gradient buckets."""

    buckets: tuple[int, ...]
    """Bytes of the parameters of each part, in the order of the forward; one entry: it was not parted."""
    case: str | None = None

    @property
    def subgraphs(self) -> int:
        return len(self.buckets)


@dataclass(frozen=True)
class Ddp:
    """A run over several processes."""

    processes: int
    backend: str
    """Of torch.distributed: gloo, nccl."""
    wrapped: Literal["target", "here", "no"]
    """Who put the module into DistributedDataParallel: the target itself, the run, or nobody."""
    reason: str = ""
    """Why it is in none."""
    optimize: str | None = None
    """`torch._dynamo.config.optimize_ddp` in words; DDPOptimizer parts graphs only under `ddp_optimizer` or True."""
    splits: tuple[DdpSplit, ...] = ()


@dataclass(frozen=True)
class Explain:
    """What `torch._dynamo.explain` itself said, to be read beside the complete record."""

    graph_count: int
    graph_break_count: int
    reasons: tuple[str, ...]
    op_count: int | None = None


@dataclass(frozen=True)
class InputDimension:
    """Dimension `dimension` (from 0) of the tensor that the call passes as `argument`: `x`, `batch['ids']`."""

    argument: str
    dimension: int


@dataclass(frozen=True)
class RefusedSize:
    """A size with which the eager model raised, and the first line of what it raised."""

    size: int
    reason: str


@dataclass(frozen=True)
class ShapeAxis:
    """Dimensions of the inputs that have one size and are varied together, from the size that was given."""

    name: str
    """`batch`, `sequence`, `height and width`, or which dimension of which argument."""
    size: int
    dimensions: tuple[InputDimension, ...]
    sizes: tuple[int, ...] = ()
    """Other sizes that the eager model takes, in the order in which they are called."""
    refused: tuple[RefusedSize, ...] = ()
    fixed: str | None = None
    """Why no other size was tried under Dynamo: what the eager model said to the first; None where some were."""


@dataclass(frozen=True)
class InputShape:
    argument: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ShapeCall:
    """One call of a compiled callable that has seen the calls before it."""

    label: str
    """`given`, `again`, `batch 5`, or the name of a case."""
    inputs: tuple[InputShape, ...]
    compiled: int
    """Frames compiled in this call; `recompiled` of them had been compiled before."""
    recompiled: int
    recompiles: tuple[Recompile, ...] = ()
    """With every guard that failed, of each compiled entry of the frame."""
    limit: tuple[Frame, ...] = ()
    """Functions that run eagerly from here on: the recompile limit was reached."""
    error: str | None = None
    """What the compiled call raised; no call after it was made."""
    size: int | None = None
    """Of the axis, where it is not the given one."""
    identical: bool = False
    """Whether the call before had the same inputs."""


@dataclass(frozen=True)
class ShapeTrial:
    """One compiled callable under one setting, from a reset: all its calls in order."""

    varied: str
    """The axis by name, or `cases`: the target's named cases one after the other."""
    setting: ShapeSetting
    calls: tuple[ShapeCall, ...]
    recompiled: int
    """Over all calls."""
    limit: bool = False
    """Whether a function ran into the recompile limit."""
    error: str | None = None


@dataclass(frozen=True)
class ShapeAdvice:
    """What follows from the trials of one axis; `code` is the line to write, None where there is none."""

    varied: str
    cure: ShapeCure
    text: str
    code: str | None = None


@dataclass(frozen=True)
class ShapeStudy:
    """What other sizes of the inputs recompile."""

    axes: tuple[ShapeAxis, ...] = ()
    trials: tuple[ShapeTrial, ...] = ()
    advice: tuple[ShapeAdvice, ...] = ()
    case: str | None = None
    """The named case whose inputs were varied."""
    cut: tuple[str, ...] = ()
    """What was left out, and why; the study is whole where this is empty."""


@dataclass(frozen=True)
class ModuleShare:
    """One node of the module hierarchy; `name` is dotted, the root is "". Ops include the subtree's."""

    name: str
    type: str
    """The class."""
    ops: int | None = None
    """ATen operations of the warm compiled call; of an eager one where nothing was compiled."""
    ops_captured: int | None = None
    """Those of them that ran in compiled graphs."""
    seconds: float | None = None
    """Of its operations, each measured by itself."""
    path: str | None = None
    """File and first line of the code of its forward; None where that is not user code."""
    line: int | None = None
    ops_self: int | None = None
    """Ops dispatched while this module was the innermost one."""
    seconds_captured: float | None = None


@dataclass(frozen=True)
class Region:
    name: str
    """Dotted; `*` and `{0,2}` stand for list positions, the whole model is ""."""
    instances: int
    """Modules alike, which one line of code compiles."""
    state: RegionState
    reason: str
    """Why it can be compiled whole."""
    code: str
    """The line that compiles it; empty where its author does already."""
    ops_share: float | None = None
    """Of the whole call's operations."""
    time_share: float | None = None
    """Of their time."""
    ops_captured_share: float | None = None
    """Measured: share of the region's own ops that ran inside graphs."""


@dataclass(frozen=True)
class Fallback:
    """An operator for which Inductor has no code of its own: it calls the eager kernel."""

    operator: str
    count: int


@dataclass(frozen=True)
class CudaGraphSkip:
    """Why Inductor keeps a graph, or an operation, out of CUDA graphs."""

    reason: str
    count: int = 1
    path: str | None = None
    """The user's line behind it, where one is named."""
    line: int | None = None


@dataclass(frozen=True)
class Backend:
    """What Inductor made of one case of a target under one mode of torch.compile (training: backward included)."""

    mode: str
    """`default` or `reduce-overhead`."""
    case: str | None = None
    cold_seconds: float | None = None
    """First compiled call beyond a later one, with an empty cache; what the toolchain needs once is not in it.
    `reduce-overhead` comes after `default` and finds the binaries of its kernels."""
    warm_seconds: float | None = None
    """The same in the same process, where only the files of the cache were kept."""
    cache_hits: int | None = None
    """Of the FX graph cache, in the warm compilation."""
    cache_misses: int | None = None
    kernels: int = 0
    extern_calls: int = 0
    """Calls of kernels that Inductor did not write: matrix products, convolutions, fallbacks."""
    fallbacks: tuple[Fallback, ...] = ()
    difference: float | None = None
    """From eager: the largest over the largest value of that tensor; None where nothing was compared."""
    tolerance: float | None = None
    """What `difference` was held against, by the coarsest dtype that was compared."""
    cudagraphs: int | None = None
    """CUDA graphs recorded; None where none were asked for."""
    cudagraph_skips: tuple[CudaGraphSkip, ...] = ()
    error: str = ""
    """Why this mode failed, in one line; the stage fails for `default` alone."""


@dataclass(frozen=True)
class OpCheck:
    """One test of `torch.library.opcheck`."""

    name: str
    state: StageState
    detail: str = ""


@dataclass(frozen=True)
class CustomOp:
    """An operator, or a function, whose code is neither Python nor torch's own, at the place that calls it."""

    name: str
    """`mylib::gate`, `my_extension.gate`, `libm.abs`."""
    kind: Literal["operator", "extension", "ctypes"]
    path: str
    line: int
    symbol: str
    origin: Origin = "own"
    lacks: tuple[str, ...] = ()
    """What torch.compile asks for and is not there: `fake kernel`, `autograd formula`, `registration`."""
    schema: str = ""
    """As it is registered, or as the observed call suggests."""
    skeleton: str = ""
    """Code that would register what is lacking; empty where nothing is."""
    checks: tuple[OpCheck, ...] = ()
    in_graph: bool = False
    """Whether a compiled graph called it."""
    around: str | None = None
    """The autograd.Function that calls it, where one does."""
    case: str | None = None


@dataclass(frozen=True)
class LineSet:
    """Lines of one file as inclusive (first, last) ranges, ascending."""

    path: str
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class TrainingPart:
    """One part of a training step, observed by itself."""

    phase: TrainingPhase
    state: StageState
    detail: str
    seconds: float | None = None


@dataclass(frozen=True)
class Training:
    """What a run in training mode showed beyond its forward.

    Gradients and buffers are part of the stage `parity`; nothing else that is met here counts for the verdict.
    """

    loss: str | None = None
    """Where it came from (`output.loss`), or `synthesised: ...`; None where there was nothing to train."""
    parts: tuple[TrainingPart, ...] = ()
    """`forward` and `backward` are what AOTAutograd makes of the captured graphs."""
    graphs: tuple[Graph, ...] = ()
    """AOTAutograd's, with ATen operations: `forward`, `backward`, or `inference` where nothing requires grad."""
    backward: Coverage | None = None
    """ATen dispatches of a warm backward from what the loss is made of to the leaves: in compiled graphs over all."""
    gradients: int = 0
    """Compared, eager against compiled."""
    buffers: int = 0
    differences: tuple[str, ...] = ()
    """The first few that were found, each named by parameter, input or buffer."""
    aot_sites: tuple[BreakSite, ...] = ()
    """Breaks that only AOTAutograd provokes: it cannot trace what Dynamo had captured there."""
    optimizer_sites: tuple[BreakSite, ...] = ()
    """Breaks of the optimiser's step compiled alone."""
    optimizer_recompiles: tuple[Recompile, ...] = ()
    step_sites: tuple[BreakSite, ...] = ()
    """Breaks of a whole step compiled as one function, those of the model itself left out."""


@dataclass(frozen=True)
class Observation:
    """What one run of one target showed. A run that failed is an Observation too.

    `executed` are the user lines that ran in the eager forward; `traced` those that Dynamo traced.
    """

    target: str
    convention: str | None
    """What gave the inputs: `get_inputs()`, `--inputs ...`, `synthesised: ...`; None where nothing did."""
    mode: Mode
    stages: tuple[Stage, ...]
    environment: Mapping[str, Any] | None
    """Versions, device and interpreter of the run."""
    break_sites: tuple[BreakSite, ...] = ()
    skipped_frames: tuple[SkippedFrame, ...] = ()
    graphs: tuple[Graph, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    coverage: Coverage | None = None
    explain: Explain | None = None
    modules: tuple[ModuleShare, ...] = ()
    executed: tuple[LineSet, ...] = ()
    traced: tuple[LineSet, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    """(display path, file name on the observed machine) of every user file named above."""
    warnings: tuple[str, ...] = ()
    ddp: Ddp | None = None
    digests: tuple[tuple[str, str], ...] = ()
    """(display path, SHA-256 of the bytes) of the files in `sources`."""
    intents: tuple[Intent, ...] = ()
    training: Training | None = None
    """None in inference mode, and where the run ended before."""
    shapes: ShapeStudy | None = None
    """None where it was not asked for, or nothing was compiled."""
    backend: tuple[Backend, ...] = ()
    custom_ops: tuple[CustomOp, ...] = ()
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True)
class StaticModule:
    """A node of the module hierarchy as the source tells it; `*` stands for the members of a list."""

    name: str
    type: str
    path: str | None
    line: int | None
    """Where the code of its forward stands; None for a module of torch or one not found."""
    breaks: tuple[str, ...]
    """Fingerprints of the breaking findings that stand in the code this very module runs."""
    known: bool = True
    """False where the source does not tell what this module is."""


@dataclass(frozen=True)
class StaticTarget:
    target: str
    modules: tuple[StaticModule, ...]
    modes: tuple[Mode, ...] = ("infer",)
    """What it was read in; over several, `breaks` are those of any."""


@dataclass(frozen=True)
class RuleText:
    code: str
    name: str
    summary: str
    why: str
    """Why it hurts torch.compile."""
    instead: str
    """What to write instead."""
    before: str | None
    """Example code with the hazard."""
    after: str | None
    """The same without it."""


@dataclass(frozen=True)
class SourceText:
    path: str
    sha256: str
    """Of the file's bytes."""
    text: str
    """In an HTML page, lines of installed files that no finding stands near are empty."""


@dataclass(frozen=True)
class Skipped:
    path: str
    reason: str
    """Why nothing is said of this file."""


@dataclass(frozen=True)
class Noqa:
    """One code that a `# noqa` names."""

    path: str
    line: int
    code: str
    """As written, upper-case; it may be a prefix."""


@dataclass(frozen=True)
class StaticResult:
    """What the static half hands to merge."""

    findings: tuple[Finding, ...]
    targets: tuple[StaticTarget, ...]
    sources: tuple[SourceText, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    statistics: Mapping[str, Any]
    unused: tuple[Noqa, ...] = ()
    """What hides nothing, as far as the source tells."""
    hidden: tuple[Finding, ...] = ()
    """What a comment or the choice of rules hides: a run that shows one of these shows nothing new."""


@dataclass(frozen=True)
class TargetReport:
    target: str
    convention: str | None
    """What gave the inputs; None where nothing was run."""
    mode: Mode
    verdict: Verdict
    stages: tuple[Stage, ...]
    environment: Mapping[str, Any] | None
    """Versions, device and interpreter of the run; None where there was none."""
    break_sites: tuple[BreakSite, ...]
    skipped_frames: tuple[SkippedFrame, ...]
    graphs: tuple[Graph, ...]
    recompiles: tuple[Recompile, ...]
    coverage: Coverage | None
    explain: Explain | None
    regions: tuple[Region, ...]
    """Parts that no break stands in."""
    modules: tuple[ModuleShare, ...]
    """The module hierarchy, parents first."""
    verdict_reason: str = ""
    """The verdict in one sentence, naming the stages that did not run."""
    waist: Frame | None = None
    """The innermost function through which every way to a break led, where it is not the outermost one."""
    executed: tuple[LineSet, ...] = ()
    intents: tuple[Intent, ...] = ()
    training: Training | None = None
    parity: Mapping[str, Any] | None = None
    bench: Mapping[str, Any] | None = None
    shapes: ShapeStudy | None = None
    ddp: Ddp | None = None
    backend: tuple[Backend, ...] = ()
    custom_ops: tuple[CustomOp, ...] = ()
    traced: tuple[LineSet, ...] = ()
    digests: tuple[tuple[str, str], ...] = ()
    """(display path, SHA-256 of the bytes) of the files that were run, as the run saw them."""


@dataclass(frozen=True)
class Tool:
    name: str
    version: str


@dataclass(frozen=True)
class Checkout:
    """The git checkout that the sources were read in."""

    commit: str
    link: str | None = None
    """The page of a line at that commit, with `{path}` (relative to the working folder, percent-encoded) and
    `{line}` to be put in; None where the remote is none that has such pages."""
    files: tuple[str, ...] = ()
    """The report's files that are as committed: only to their lines a link leads."""


@dataclass(frozen=True)
class Narrowed:
    """Why a report tells fewer findings than were found. Verdicts, break sites and regions are those of all."""

    baseline: str | None = None
    """The baseline's file as it was named; None where none was."""
    known: int = 0
    """Findings that the baseline holds, and that are not told."""
    gone: int = 0
    """Entries of the baseline, of what was read or run here, that nothing was found for any more."""
    diff_base: str | None = None
    """The revision as it was named; None where none was."""
    commit: str | None = None
    """The commit that the lines were compared with: where the checkout and the revision parted."""
    unchanged: int = 0
    """Findings on lines that are as they were there, and that are not told."""


@dataclass(frozen=True)
class Reading:
    """How the sources were read: two readings may find different things in the same code."""

    mode: ModeAsked
    low: bool = False
    """Whether what is found with low confidence is kept."""
    plain_call: bool = False
    """Whether a model that takes its targets was read as called without them."""
    torch: str = ""
    """The version whose Dynamo is predicted: `2.13`."""

    def differs(self, then: Reading, modes: tuple[Mode, ...] = ()) -> str | None:
        """Why something that the reading `then` found may be missed by this one, in a few words; None where not.

        `modes` are those in which it was found, where `then` was in both.
        """
        asked = set(modes) or ({"infer", "train"} if then.mode == "both" else {then.mode})
        if self.mode != "both" and not asked <= {self.mode}:
            return f"read with --mode {then.mode} before and {self.mode} now"
        if then.low and not self.low:
            return "read with --low before and without now"
        if then.plain_call != self.plain_call:
            return "read with --plain-call " + ("before and without now" if then.plain_call else "now alone")
        if then.torch != self.torch:
            return f"read for torch {then.torch} before and {self.torch} now"
        return None


@dataclass(frozen=True)
class Report:
    """The whole report; every format is rendered from this value alone."""

    tool: Tool
    findings: tuple[Finding, ...]
    targets: tuple[TargetReport, ...]
    rules: tuple[RuleText, ...]
    """Those that a finding names."""
    sources: tuple[SourceText, ...]
    """The text of each file that something is told of."""
    skipped: tuple[Skipped, ...]
    """Files that could not be read or parsed."""
    warnings: tuple[str, ...]
    statistics: Mapping[str, Any]
    """How much was read: `files`, `functions`, `calls`, how many of these were resolved."""
    checkout: Checkout | None = None
    """None outside of a git checkout."""
    narrowed: Narrowed | None = None
    """None where all that was found is told."""
    predicted: tuple[StaticTarget, ...] = ()
    """What the source alone says of each target: what a run that is merged later is held against."""
    readings: tuple[Reading, ...] = ()
    """How the sources were read; several where reports were put together, none where it is not known."""
    hidden: tuple[str, ...] = ()
    """Fingerprints of what was found and is not told, on account of a comment or of the choice of rules."""
    schema_version: int = SCHEMA_VERSION


# Two reports held against each other


@dataclass(frozen=True)
class FindingChange:
    """One finding in two reports; it is the same one where the fingerprint is."""

    kind: FindingKind
    finding: Finding
    """As the later report tells it; as the earlier one does where the later does not."""
    before_line: int | None = None
    """None where the earlier report does not tell it."""
    before_status: Status | None = None
    because: tuple[str, ...] = ()
    """What differs between the reports and may be why it is new; why it was not compared."""


@dataclass(frozen=True)
class SiteChange:
    """A break site that only one of two runs of a target showed. It is the same one where file, function and reason
    are, the n-th such in both."""

    kind: Literal["fixed", "new"]
    site: BreakSite
    because: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """What a run says of where it was made, in two reports: `torch`, `packages.transformers`, `device`."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class TargetChange:
    """One target in two reports; verdict and share of operations in graphs are None where it is in one alone."""

    target: str
    mode: Mode
    before: Verdict | None
    after: Verdict | None
    coverage_before: float | None = None
    coverage_after: float | None = None
    ran: bool = False
    """Whether it was run in both: its break sites were compared."""
    failed: tuple[StageName, ...] = ()
    """Stages that fail now and did not before."""
    sites: tuple[SiteChange, ...] = ()
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class Comparison:
    before: str
    """How the two reports are called."""
    after: str
    findings: tuple[FindingChange, ...]
    targets: tuple[TargetChange, ...]
    own_files: tuple[str, ...] = ()
    """The user's files that both reports hold and whose text differs."""
    other_files: tuple[str, ...] = ()
    """The same of installed packages."""
    differences: tuple[Difference, ...] = ()
    """Of tcready itself, and of how the sources were read."""
    schema_version: int = SCHEMA_VERSION


def as_json(value: Any) -> Any:
    """The plain JSON value (dicts, lists, scalars) of any value of this file."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: as_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, (tuple, list)):
        return [as_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    return value


T = TypeVar("T")


def from_json(kind: type[T], data: Any) -> T:
    """The value of dataclass `kind` that `as_json` turned into `data`; fields it does not know are dropped.

    Raises TcreadyError naming the field where `data` does not fit.
    """
    return typing.cast(T, _read(kind, data, kind.__name__))


@functools.cache
def _fields(kind: type) -> tuple[tuple[str, Any, bool], ...]:
    hints = typing.get_type_hints(kind, vars(sys.modules[__name__]) | vars(sys.modules[kind.__module__]))
    missing = dataclasses.MISSING
    return tuple(
        (f.name, hints[f.name], f.default is missing and f.default_factory is missing)
        for f in dataclasses.fields(kind)
    )


def _read(hint: Any, data: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if dataclasses.is_dataclass(hint):
        if not isinstance(data, Mapping):
            raise TcreadyError(f"{where}: expected an object, found {type(data).__name__}")
        values = {}
        for name, field_hint, required in _fields(typing.cast(type, hint)):
            if name in data:
                values[name] = _read(field_hint, data[name], f"{where}.{name}")
            elif required:
                raise TcreadyError(f"{where}.{name} is missing")
        return typing.cast(Any, hint)(**values)
    if hint is Any:
        return data
    if origin in (Union, types.UnionType):
        if data is None:
            return None
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        return _read(options[0], data, where)
    if origin is Literal:
        if data not in typing.get_args(hint):
            raise TcreadyError(
                f"{where}: {data!r} is not one of {', '.join(map(str, typing.get_args(hint)))}"
            )
        return data
    if origin is tuple:
        if not isinstance(data, (list, tuple)):
            raise TcreadyError(f"{where}: expected a list, found {type(data).__name__}")
        args = typing.get_args(hint)
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_read(args[0], item, where) for item in data)
        if len(args) != len(data):
            raise TcreadyError(f"{where}: expected {len(args)} items, found {len(data)}")
        return tuple(_read(arg, item, where) for arg, item in zip(args, data, strict=True))
    if origin is Mapping or hint is Mapping:
        if not isinstance(data, Mapping):
            raise TcreadyError(f"{where}: expected an object, found {type(data).__name__}")
        inner = (*typing.get_args(hint), Any, Any)[1]
        return {key: _read(inner, value, f"{where}.{key}") for key, value in data.items()}
    if hint is float:
        if isinstance(data, bool) or not isinstance(data, (int, float)):
            raise TcreadyError(f"{where}: expected a number, found {type(data).__name__}")
        return float(data)
    if isinstance(hint, type):
        if not isinstance(data, hint) or (hint is int and isinstance(data, bool)):
            raise TcreadyError(f"{where}: expected {hint.__name__}, found {type(data).__name__}")
        return data
    raise TypeError(f"{where}: no reader for {hint!r}")
