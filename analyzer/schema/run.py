"""The results of one run of one target: stages, break sites, graphs, coverage, and measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcready.schema.break_effect import FrameFate
from tcready.schema.frame import Frame
from tcready.schema.words import (
    Action,
    Origin,
    PlacementName,
    PlanChoice,
    RegionState,
    ShapeCure,
    ShapeSetting,
    StageState,
    TrainingPhase,
)


@dataclass(frozen=True)
class Cost:
    """The operations that one break forced to run outside of graphs, in the warm call that counts operations."""

    ops: int
    seconds: float | None
    """Of those operations, each measured by itself: on the device's clock on CUDA, on the host's elsewhere; None if no
    time was measured, as on the device `meta`."""


@dataclass(frozen=True)
class Intent:
    """Code that its author already compiles, or excludes from compiling. It is left unchanged."""

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
    """What Dynamo did: resume after the break, or give up the function or the rest of it."""
    case: str | None = None
    gb_ids: tuple[str, ...] = ()
    """Every id seen at this line, root cause first; `gb_id` is the first of them."""
    hints: tuple[str, ...] = ()
    frames: tuple[FrameFate, ...] = ()
    """The functions during the compilation of which this break occurred, and the effect on each."""
    cost: Cost | None = None
    """None if no warm call was counted."""


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
    """One graph that Dynamo captured."""

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
    """The named case; None if the inputs name none."""
    symbol: str = ""
    modules: tuple[str, ...] = ()
    """Dotted names of the modules with operations in this graph in the warm call, in order; the root is ""."""
    compile_seconds: float | None = None
    """The seconds of compiling it, including the backend, as torch counts them."""


@dataclass(frozen=True)
class Recompile:
    """A function that was compiled again, and why."""

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
    """The source lines that the failed guards name, if they name any."""
    on_other_numbers: bool = False
    """Whether it was compiled until the limit in calls in which only random numbers differ."""

    @property
    def on_every_call(self) -> bool:
        """Whether calls with the same inputs compile it again."""
        return self.identical_call or self.on_other_numbers


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
    """`cuda` if the device's events measured the time, `host` if `time.perf_counter` did."""
    cases: tuple[CaseCoverage, ...] = ()
    """Where the inputs name cases."""
    timed_calls: int | None = None
    """The number of timed calls after the counted one, for the case with the fewest; `seconds` are their median. 0: the
    times are those of the counted call. None if that is not known."""


@dataclass(frozen=True)
class Explain:
    """The output of `torch._dynamo.explain`, beside the complete record."""

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
    """Why no other size was tried under Dynamo: what the eager model said to the first; None if some were."""


@dataclass(frozen=True)
class InputShape:
    """The shape of one tensor among the inputs."""

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
    """Of the axis, if it is not the given one."""
    identical: bool = False
    """Whether the call before had the same inputs."""
    place: Frame | None = None
    """The user's line behind `error`; the first line of the target's forward if none is named, or if outputs differ."""
    origin: Origin = "own"
    """Of `place`."""
    parity: bool | None = None
    """Whether the outputs are those of eager; None if it raised, or if eager differs from itself or gives nothing that
    could be compared."""
    difference: str | None = None
    """How they differ."""
    ops_total: int | None = None
    """ATen dispatches of a repeated call with the same inputs; None if that call was not made."""
    ops_captured: int | None = None
    """Those of them that ran in graphs."""
    break_sites: tuple[BreakSite, ...] = ()
    """Those that the calls with the given inputs did not meet, without what the recompile limit gave up."""
    compile_seconds: float | None = None
    """What the call took longer than the repeated one."""


CASES = "cases"
"""What a trial varies that calls the target's named cases one after the other."""


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
    difference: str | None = None
    """How the outputs of a call differ from those of eager, if those of one do."""
    share: float | None = None
    """Operations in graphs over all, over the repeated calls of every size."""
    break_sites: int = 0
    """Distinct lines at which Dynamo broke, in all calls together."""
    compile_seconds: float | None = None
    """Of all calls together, with a backend that runs the graphs as they are."""
    code: str = ""
    """What was executed: on the model before the first call (it names `model`), or on the arguments before each call."""

    def at(self, call: ShapeCall) -> str:
        """`batch 5`, `case large`."""
        return f"case {call.label}" if self.varied == CASES else call.label

    @property
    def sound(self) -> bool:
        """Whether no call raised and no output differs from eager."""
        return self.error is None and self.difference is None


@dataclass(frozen=True)
class ShapeAdvice:
    """The conclusion from the trials of one axis. `code` was executed exactly as printed; None if there is nothing to
    write."""

    varied: str
    cure: ShapeCure
    text: str
    code: str | None = None
    ranking: tuple[ShapeSetting, ...] = ()
    """The best first: by captured share (0.01 apart counts as equal), break sites, recompiles, time of compiling. One
    that raised or gave other outputs than eager is not among them."""


@dataclass(frozen=True)
class ShapeStudy:
    """What other sizes of the inputs do under Dynamo, with a backend that runs the graphs as they are."""

    axes: tuple[ShapeAxis, ...] = ()
    trials: tuple[ShapeTrial, ...] = ()
    advice: tuple[ShapeAdvice, ...] = ()
    case: str | None = None
    """The named case that provided the varied inputs."""
    cut: tuple[str, ...] = ()
    """What was left out, and why; the study is whole if this is empty."""


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
    """The user's line behind it, if one is named."""
    line: int | None = None


@dataclass(frozen=True)
class Compared:
    """The tensor of a comparison that differs most, and how far it is from what a wider dtype gives. Each figure is a
    root mean square over that of the tensor."""

    name: str
    """`output 0`, `gradient of parameter head.weight`."""
    dtype: str
    difference: float
    """Between compiled and eager code."""
    reference: str = ""
    """The wider dtype; empty if the model could not be run in one."""
    eager_error: float | None = None
    """From the result of eager code in `reference`; without one, how far inputs and weights moved by one rounding move
    eager code."""
    compiled_error: float | None = None
    remaining: float | None = None
    """Between compiled and eager code in `reference`: rounding becomes smaller there, a mistake does not."""
    why: str = ""
    """Why there is no reference."""
    case: str | None = None


@dataclass(frozen=True)
class Backend:
    """The result of Inductor for one case of a target in one mode of torch.compile (in training, with the backward)."""

    mode: str
    """`default` or `reduce-overhead`."""
    case: str | None = None
    cold_seconds: float | None = None
    """How much longer the first compiled call took than a later one, with an empty cache, without one-time costs of the
    toolchain. `reduce-overhead` comes after `default` and finds the binaries of its kernels."""
    warm_seconds: float | None = None
    """The same in the same process, if only the files of the cache were kept."""
    cache_hits: int | None = None
    """Of the FX graph cache, in the warm compilation."""
    cache_misses: int | None = None
    kernels: int = 0
    extern_calls: int = 0
    """Calls of kernels that Inductor did not write: matrix products, convolutions, fallbacks."""
    fallbacks: tuple[Fallback, ...] = ()
    difference: float | None = None
    """From eager, of the tensor that differs most: the root mean square over that of the tensor; None if nothing was
    compared."""
    tolerance: float | None = None
    """Of reports of older versions: the largest difference that was allowed."""
    cudagraphs: int | None = None
    """CUDA graphs recorded; None if none were asked for."""
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
class ObservedArgument:
    """A tensor that an operator was given, by the name of the parameter."""

    name: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class ObservedNumber:
    """An integer that an operator was given, or has by default, by the name of the parameter."""

    name: str
    value: int


@dataclass(frozen=True)
class ObservedResult:
    """A tensor that an operator gave back, by the tensors that it was given."""

    sizes: tuple[int, ...]
    like: str | None = None
    """The argument that has its sizes and is on its device; None if none is."""
    dtype: str | None = None
    """`int64`, if the type is not that of `like`, or of the first argument if `like` is None."""
    other_strides: bool = False
    """Whether its strides are not those of `like`."""

    def empty(self, torch: str = "torch") -> str:
        """The code of an empty tensor like it; `torch` is the name that the code has for it. For `like` alone."""
        dtype = f", dtype={torch}.{self.dtype}" if self.dtype else ""
        strides = f", memory_format={torch}.contiguous_format" if self.other_strides else ""
        return f"{torch}.empty_like({self.like}{dtype}{strides})"


@dataclass(frozen=True)
class ObservedCall:
    """A call of an operator, and the tensors that it returned."""

    signature: str
    """The parameters as a function of the operator's schema has them: `x, k=1`."""
    arguments: tuple[ObservedArgument, ...]
    results: tuple[ObservedResult, ...]
    """Empty if it gave None."""
    several: bool = False
    """Whether they came in a tuple or list."""
    numbers: tuple[ObservedNumber, ...] = ()


@dataclass(frozen=True)
class CustomOp:
    """An operator or a function that is implemented neither in Python nor by torch, at the place that calls it."""

    name: str
    """`mylib::gate`, `my_extension.gate`, `libm.abs`."""
    kind: Literal["operator", "extension", "ctypes"]
    path: str
    line: int
    symbol: str
    origin: Origin = "own"
    lacks: tuple[str, ...] = ()
    """What torch.compile needs and is missing: `fake kernel`, `autograd formula`, `registration`."""
    schema: str = ""
    """As it is registered, or as the observed call suggests."""
    skeleton: str = ""
    """Code that registers what is missing; empty if nothing is."""
    checks: tuple[OpCheck, ...] = ()
    in_graph: bool = False
    """Whether a compiled graph called it."""
    around: str | None = None
    """The autograd.Function that calls it, if one does."""
    case: str | None = None
    observed: ObservedCall | None = None
    """The call that `skeleton` was written from; of an operator that gave tensors or None, without a fake kernel."""


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

    Gradients and buffers are part of the stage `parity`. Of the rest, only `failed` counts for the verdict.
    """

    loss: str | None = None
    """Where it came from (`output.loss`), or `synthesised: ...`; None if there was nothing to train."""
    parts: tuple[TrainingPart, ...] = ()
    """`forward` and `backward` are what AOTAutograd makes of the captured graphs."""
    graphs: tuple[Graph, ...] = ()
    """AOTAutograd's, with ATen operations: `forward`, `backward`, or `inference` if nothing requires grad."""
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

    @property
    def failed(self) -> tuple[TrainingPart, ...]:
        """What fails of the model compiled by AOTAutograd, as every compiler trains it: its forward or its backward."""
        return tuple(
            part for part in self.parts if part.state == "fail" and part.phase in ("forward", "backward")
        )


@dataclass(frozen=True)
class Placement:
    """One way to apply `torch.compile` to a model, and the measurements of exactly that code.

    In a fresh copy of the model, over all cases, with the same inputs and seeds as every other call.
    """

    name: PlacementName
    code: str
    """Can be executed with `model` and `torch` bound; what is called then is `model`."""
    share: float | None
    """Operations inside graphs over all, of a warm call; None if it raised."""
    graphs: int | None
    """Compiled for the first call of each case."""
    recompiles: int | None
    """Functions compiled again in the first call: other instances of a class, other sizes."""
    parity: bool | None
    """Whether outputs (in training gradients and buffers too) are those of eager; None if nothing could be compared."""
    reason: str
    """Why it is out, or a remark on it; empty if there is none."""
    sound: bool = True
    """Whether it neither raised nor differed nor recompiled on an identical call."""
    time_share: float | None = None
    """The same share by the time of the operations, the median of several calls."""
    break_sites: int | None = None
    compile_seconds: float | None = None
    """How much longer the first call took than a later one, with `backend`."""
    steady_seconds: float | None = None
    """A warm call with `backend`, the median of several."""
    backend: str | None = None
    """With which the seconds were measured: `eager`, or `inductor` if it was asked for."""
    state_dict_changes: tuple[str, ...] = ()
    """Keys of `state_dict()` that the code changes, as `old -> new`."""
    in_turn_seconds: float | None = None
    """A warm call (in training a training step) with Inductor, timed in turn with other placements: the median of several
    rounds, over cases as frequent as their weights say. None if that was not measured."""


@dataclass(frozen=True)
class RegionTrial:
    """A part of the model, compiled alone on the inputs it got in a real forward, with the very code that is printed."""

    name: str
    """As a Region's; of a function `Class.method` or its own name."""
    modules: tuple[str, ...]
    """Dotted names of the instances; empty for a function."""
    state: RegionState
    reason: str
    """`proved`: how; `refuted`: what Dynamo said; `predicted`: why it was not tried."""
    code: str
    kind: Literal["modules", "function"] = "modules"
    ops_share: float | None = None
    """Of the operations of the whole call: those that were in graphs with this code alone."""
    time_share: float | None = None
    parameter_share: float | None = None
    """Of the model's parameters, by their number."""
    compilations: int | None = None
    """For all instances together; one is enough if nothing differs."""
    guards: tuple[str, ...] = ()
    """The guards that made instances compile again."""
    cure: str = ""
    """A line that was tried and makes one compilation serve more instances."""
    site: BreakSite | None = None
    """The break that refuted it."""


@dataclass(frozen=True)
class Plan:
    """Which parts to compile: what was pasted, run and measured on this target."""

    recommended: PlanChoice
    code: str
    """The code of the recommended placement; empty if nothing helped."""
    share: float | None
    reason: str
    """Why this one."""
    alternatives: tuple[Placement, ...]
    """Every placement that was tried, the recommended one among them."""
    rollback: str = ""
    """Lines that return to eager code. They were tried."""
    production: str = ""
    """Lines that log breaks, recompilations and compile times, and prevent recompilations once warm. They were tried."""
    time_share: float | None = None
    graphs: int | None = None
    recompiles: int | None = None
    compile_seconds: float | None = None
    parity: bool | None = None
    state_dict_changes: tuple[str, ...] = ()
    checkpoint: str = ""
    """The result of saving and loading between eager and the recommended code, in one line; empty if it was not
    tried."""
    smallest: Placement | None = None
    """With the fewest operations that hold 80 % of the time."""
    quickest: Placement | None = None
    """The quickest to compile within 0.05 of the best share of time."""
    regions: tuple[RegionTrial, ...] = ()
    cut: tuple[str, ...] = ()
    """What was left out, and why."""
    chosen_by: str = ""
    """How the recommended placement was chosen among those that capture as much: `by measured steady time: ...`, `by
    simplicity: ...`, or `by what it captures` if there is no other."""


@dataclass(frozen=True)
class CompileTime:
    """The time of compiling one function, over all its compilations in a trace."""

    path: str
    line: int
    """Its first line."""
    symbol: str
    compiled: int
    """The number of compilations in all processes, including those without a result."""
    seconds: float
    """Of all of them together, backward included."""
    phases: tuple[tuple[str, float], ...] = ()
    """Seconds of what torch names: `dynamo`, `aot_autograd`, `inductor`, `kernels` (waiting for their compilers, and
    autotuning), `cudagraphs` if any were recorded; each without the ones it contains."""


@dataclass(frozen=True)
class TracedProcess:
    """One process of a job, which wrote one file of its trace."""

    file: str
    """Its name, without the folder."""
    rank: int | None
    """None if the trace names none: then it was one of no group."""
    compilations: int
    """Of this target's code."""
    seconds: float
    """Of compiling it."""
    lacks: str = ""
    """What is wrong with the file: cut short, lines that are none of a trace; empty if nothing is."""


@dataclass(frozen=True)
class RecompileAdvice:
    """What might stop recompilations of a function of a job, according to the guards that failed."""

    path: str
    line: int
    """The first line of the function."""
    symbol: str
    text: str
    """What differs from call to call, and what to do."""
    code: str | None = None
    """The line to write, if one follows."""


@dataclass(frozen=True)
class Trace:
    """The contents of torch's structured trace of a job, for an observation that was made from a trace instead of a
    run."""

    processes: tuple[TracedProcess, ...]
    seconds: float
    """Of compiling, in all processes together."""
    phases: tuple[tuple[str, float], ...] = ()
    compile_times: tuple[CompileTime, ...] = ()
    """By function, the longest first."""
    lacks: tuple[str, ...] = ()
    """What a run shows and this trace does not, each in a few words."""
    mode_known: bool = True
    """Whether a graph shows if gradients were computed; if not, the sources are read in the observation's `mode`."""
    advice: tuple[RecompileAdvice, ...] = ()
    """What might stop recompilations with a repeated cause. None of it was run."""
