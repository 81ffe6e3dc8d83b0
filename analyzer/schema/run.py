"""The results of one run of one target: stages, break sites, graphs, coverage, and the measurements of each study."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tcready.schema.break_effect import FrameFate
from tcready.schema.code_line import Frame
from tcready.schema.enums import (
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
from tcready.schema.parallel import RankSide


@dataclass(frozen=True)
class Cost:
    """Operations outside of graphs caused by one break, in the warm call in which operations are counted."""

    ops: int
    seconds: float | None
    """Time of these operations, each measured alone: on the device's clock on CUDA, on the host's elsewhere; None if
    no time was measured, as on the device `meta`."""


@dataclass(frozen=True)
class Intent:
    """Code with an explicit decision about compilation by its author: compiled already, or excluded. It is left
    unchanged."""

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
    """Dynamo's text."""
    gb_id: str | None
    hits: int
    origin: Origin
    stack: tuple[Frame, ...]
    action: Action = "resume"
    """What Dynamo did then: resume after the break, or give up the function, or what is left of it."""
    case: str | None = None
    gb_ids: tuple[str, ...] = ()
    """Every ID seen at this line, root cause first; `gb_id` is the first of them."""
    hints: tuple[str, ...] = ()
    frames: tuple[FrameFate, ...] = ()
    """The functions that were being compiled at this break, and its effect on each."""
    cost: Cost | None = None
    """None if no warm call was counted."""
    by_torch: bool = False
    """Torch's own code asks for every break at this line, and continues to compile what it calls from there: the step
    of an optimizer."""


@dataclass(frozen=True)
class SkippedFrame:
    """A user frame that Dynamo gave up; `benign` if it had no tensor work. `end_line` is the last line of its code."""

    path: str
    line: int
    symbol: str
    reason: str
    """Dynamo's text."""
    benign: bool
    end_line: int | None = None
    origin: Origin = "own"
    case: str | None = None


@dataclass(frozen=True)
class Graph:
    """One graph that Dynamo captured."""

    compile_id: str
    """The ID in torch's logs."""
    path: str
    line: int
    """The first line of the function that it was captured from."""
    ops: int
    """Number of operations as Dynamo counts them."""
    guards: int | None = None
    phase: Literal["forward", "backward", "inference"] = "inference"
    case: str | None = None
    """The named case; None if the inputs name none."""
    symbol: str = ""
    modules: tuple[str, ...] = ()
    """Dotted names of the modules with operations in it in the warm call, in order; the root is ""."""
    compile_seconds: float | None = None
    """Time to compile it, including the backend, by torch's own count."""


@dataclass(frozen=True)
class Recompile:
    """A function that was recompiled, and why."""

    path: str
    line: int
    """The first line of the recompiled function."""
    symbol: str
    reasons: tuple[str, ...]
    """The guards that failed."""
    case: str | None = None
    identical_call: bool = False
    """It happened in the third of three calls with the same inputs."""
    origin: Origin = "own"
    lines: tuple[Frame, ...] = ()
    """The source lines that the failed guards name, if they name any."""
    on_other_numbers: bool = False
    """It recompiled up to the limit in calls in which only random numbers differ."""
    caller: Frame | None = None
    """The user's line that led to a function of torch's own; None for other functions, and if it is unknown."""

    @property
    def on_every_call(self) -> bool:
        """Return True if calls with the same inputs recompile it."""
        return self.identical_call or self.on_other_numbers


@dataclass(frozen=True)
class CaseCoverage:
    """The dispatches of the warm call of one named case, and its weight in the share of all cases."""

    case: str
    weight: float
    ops_total: int
    ops_captured: int
    share: float
    """`ops_captured` divided by `ops_total`."""


FEWEST_CALLS = 3
AGREEING, SAME, STEP = 0.1, 0.02, 0.05
"""Shares of the time that differ by no more than this rank findings by time, are shown as one number, are rounded."""


@dataclass(frozen=True)
class Coverage:
    """ATen dispatches of one warm call per case, in graphs and in total. `ops_total` and `ops_captured` are plain
    sums."""

    ops_total: int
    ops_captured: int
    share: float
    """Each case's dispatches count as often as its weight says."""
    time_share: float | None = None
    """The same share by the time of the operations, each measured alone."""
    seconds: float | None = None
    """Time of all the operations together."""
    clock: str | None = None
    """`cuda` if the device's events measured the time, `host` if `time.perf_counter` did."""
    cases: tuple[CaseCoverage, ...] = ()
    """Empty unless the inputs have named cases."""
    timed_calls: int | None = None
    """Calls after the counted one with measured times, of which `seconds` are the median, for the case with the
    fewest; 0: the times are those of the counted call. None if unknown."""
    time_shares: tuple[float, ...] = ()
    """`time_share` of each of these calls by itself."""
    busy: str = ""
    """How others used the machine meanwhile (`others used 1.5 of 2 CPUs`); empty if they did not, or if unknown."""

    @property
    def time_range(self) -> tuple[float, float] | None:
        """The lowest and the highest share of these calls, without the extremes if there are five calls or more; None
        if there are fewer than three."""
        shares = sorted(self.time_shares)
        if len(shares) < FEWEST_CALLS:
            return None
        inner = shares[1:-1] if len(shares) >= FEWEST_CALLS + 2 else shares
        return inner[0], inner[-1]

    @property
    def times_agree(self) -> bool:
        """Return False if the calls differ so much that their times rank nothing."""
        return self.time_range is None or self.time_range[1] - self.time_range[0] <= AGREEING

    @property
    def known_range(self) -> tuple[float, float] | None:
        """The range of the share in steps of 5 %, outwards; None if it is known to about one percent."""
        if self.time_range is None or self.time_range[1] - self.time_range[0] < SAME:
            return None
        low, high = self.time_range
        return math.floor(low / STEP) * STEP, math.ceil(high / STEP) * STEP


@dataclass(frozen=True)
class Explain:
    """The output of `torch._dynamo.explain` itself, in addition to the complete record."""

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
    """Dimensions of the inputs that have one size and are varied together, from the given size."""

    name: str
    """`batch`, `sequence`, `height and width`, or the dimension of an argument."""
    size: int
    dimensions: tuple[InputDimension, ...]
    sizes: tuple[int, ...] = ()
    """Other sizes that the eager model accepts, in the order of the calls."""
    refused: tuple[RefusedSize, ...] = ()
    fixed: str | None = None
    """Why no other size was tried under Dynamo: the error of the eager model for the first; None if some were."""


@dataclass(frozen=True)
class InputShape:
    """The shape of one tensor among the inputs."""

    argument: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ShapeCall:
    """One call of a compiled callable, after the calls before it."""

    label: str
    """`given`, `again`, `batch 5`, or the name of a case."""
    inputs: tuple[InputShape, ...]
    compiled: int
    """Frames compiled in this call; `recompiled` of them had been compiled before."""
    recompiled: int
    recompiles: tuple[Recompile, ...] = ()
    """With every failed guard, for each compiled entry of the frame."""
    limit: tuple[Frame, ...] = ()
    """Functions that run eagerly from here on: the recompile limit was reached."""
    error: str | None = None
    """The exception of the compiled call; no call was made after it."""
    size: int | None = None
    """Size of the axis, if it is not the given one."""
    identical: bool = False
    """The previous call had the same inputs."""
    place: Frame | None = None
    """The user's line that caused `error`; the first line of the target's forward if it is unknown, or if outputs
    differ."""
    origin: Origin = "own"
    """Origin of `place`."""
    parity: bool | None = None
    """The outputs equal those of eager; None if it raised, or if eager differs from itself or returns nothing that
    could be compared."""
    difference: str | None = None
    """How the outputs differ."""
    ops_total: int | None = None
    """ATen dispatches of a repeated call with the same inputs; None if that call was not made."""
    ops_captured: int | None = None
    """Those of them that ran in graphs."""
    break_sites: tuple[BreakSite, ...] = ()
    """Break sites that the calls with the given inputs did not reach, without those due to the recompile limit."""
    compile_seconds: float | None = None
    """How much longer the call took than the repeated one."""


@dataclass(frozen=True)
class OwnCompile:
    """A line of the model's own code that compiles parts of it, in calls with a backend that runs the graphs
    unchanged."""

    place: Frame
    """The line that calls `torch.compile` or `module.compile()`."""
    how: Literal["torch.compile", "module.compile()"]
    parts: tuple[str, ...]
    """Dotted names of the modules, or names of the functions, in the order of the calls; only those that ran."""
    eager: tuple[str, ...] = ()
    """Parts of which no graph ran in the third of three calls with the same inputs."""
    recompiles: tuple[Recompile, ...] = ()
    compiled_again: int = 0
    """Total number of recompiles."""
    limit: tuple[Frame, ...] = ()
    """Functions that reached the recompile limit."""
    isolated: bool | None = None
    """Whether all parts are compiled with `isolate_recompiles=True`; None if that was not tried."""


CASES = "cases"
"""Value of `varied` for a trial that calls the target's named cases one after the other."""


@dataclass(frozen=True)
class ShapeTrial:
    """One compiled callable with one setting, after a reset: all its calls in order."""

    varied: str
    """The name of the axis, or `cases`: the target's named cases one after the other."""
    setting: ShapeSetting
    calls: tuple[ShapeCall, ...]
    recompiled: int
    """Total number of recompiles."""
    limit: bool = False
    """A function reached the recompile limit."""
    error: str | None = None
    difference: str | None = None
    """How the outputs of a call differ from those of eager, if they do."""
    share: float | None = None
    """Share of operations in graphs, over the repeated calls of every size."""
    break_sites: int = 0
    """Distinct lines at which Dynamo broke, in all calls together."""
    compile_seconds: float | None = None
    """Time of all calls together, with a backend that runs the graphs unchanged."""
    code: str = ""
    """The executed code: on the model before the first call (it names `model`), or on the arguments before each
    call."""

    def at(self, call: ShapeCall) -> str:
        """Format `batch 5`, `case large`."""
        return f"case {call.label}" if self.varied == CASES else call.label

    @property
    def sound(self) -> bool:
        """Return True if no call raised and no output differs from eager."""
        return self.error is None and self.difference is None


@dataclass(frozen=True)
class ShapeAdvice:
    """Conclusion from the trials of one axis; exactly this `code` was executed, None if there is nothing to write."""

    varied: str
    cure: ShapeCure
    text: str
    code: str | None = None
    ranking: tuple[ShapeSetting, ...] = ()
    """The best first: by captured share (0.01 apart counts as equal), break sites, recompiles, compile time.
    Settings that raised or gave other outputs than eager are left out."""


@dataclass(frozen=True)
class ShapeStudy:
    """The effect of other sizes of the inputs under Dynamo, with a backend that runs the graphs unchanged."""

    axes: tuple[ShapeAxis, ...] = ()
    trials: tuple[ShapeTrial, ...] = ()
    advice: tuple[ShapeAdvice, ...] = ()
    case: str | None = None
    """The named case with the inputs that were varied."""
    cut: tuple[str, ...] = ()
    """What was left out, and why; the study is complete if this is empty."""


@dataclass(frozen=True)
class Fallback:
    """An operator without code in Inductor: it calls the eager kernel."""

    operator: str
    count: int


@dataclass(frozen=True)
class CudaGraphSkip:
    """Why Inductor excludes a graph, or an operation, from CUDA graphs."""

    reason: str
    count: int = 1
    path: str | None = None
    """The user's line that causes it, if known."""
    line: int | None = None


@dataclass(frozen=True)
class Compared:
    """The tensor with the largest difference in a comparison, and its error relative to a wider dtype. Each figure
    is a root mean square relative to that of the tensor."""

    name: str
    """`output 0`, `gradient of parameter head.weight`."""
    dtype: str
    difference: float
    """Between compiled and eager code."""
    reference: str = ""
    """The wider dtype; empty if the model could not be run in one."""
    eager_error: float | None = None
    """Error of eager code relative to `reference`; without one, how far inputs and weights moved by one rounding
    move eager code."""
    compiled_error: float | None = None
    remaining: float | None = None
    """Difference of compiled and eager code in `reference`: rounding becomes smaller there, a bug does not."""
    why: str = ""
    """Why there is no reference."""
    case: str | None = None


@dataclass(frozen=True)
class ParityCause:
    """What a different result of compiled code was narrowed down to, by further calls.

    `compiling_check`: eager code gives another result, too, if the check at `place` says that it is compiled.
    `hook`: without the hook of `module` at `place`, compiled and eager code agree. `module`: compiling `module` alone
    changes the result, and compiling none of its children alone does; `place` is its forward. `backend`: the result is
    that of eager code up to the backend before `backend`; `module` is the smallest that is enough to show it.
    """

    kind: Literal["compiling_check", "hook", "module", "backend"]
    place: Frame | None
    """None if the code is not written in Python or belongs to torch, and if only several checks, or hooks, together
    change the result."""
    module: str | None = None
    """The name of the module in the model; empty for the model itself."""
    caller: Frame | None = None
    """The line in another file that calls the function with the check."""
    backend: str = ""
    """`aot_eager` (AOTAutograd), `aot_eager_decomp_partition` (its decompositions too) or `inductor`."""
    part: str = ""
    """The part of the backend by the name in torch's bisector, `lowerings`; empty if it found none."""
    detail: str = ""
    """What torch notes of that part: a node of the graph, or the name of a pass."""
    reproducer: str = ""
    """A script of torch alone with a graph that gives another result; empty if no graph does so by itself."""


@dataclass(frozen=True)
class Backend:
    """The result of Inductor for one case of a target in one mode of torch.compile (training: backward included)."""

    mode: str
    """`default` or `reduce-overhead`."""
    case: str | None = None
    cold_seconds: float | None = None
    """First compiled call beyond a later one, with an empty cache; one-time costs of the toolchain are not included.
    `reduce-overhead` runs after `default` and finds the binaries of its kernels."""
    warm_seconds: float | None = None
    """The same in the same process, if only the files of the cache were kept."""
    cache_hits: int | None = None
    """Hits of the FX graph cache, in the warm compilation."""
    cache_misses: int | None = None
    kernels: int = 0
    extern_calls: int = 0
    """Calls of kernels that Inductor did not generate: matrix products, convolutions, fallbacks."""
    fallbacks: tuple[Fallback, ...] = ()
    difference: float | None = None
    """Difference from eager of the tensor that differs most: the root mean square relative to that of the tensor;
    None if nothing was compared."""
    tolerance: float | None = None
    """In reports of older versions: the largest allowed difference."""
    cudagraphs: int | None = None
    """CUDA graphs recorded; None if none were requested."""
    cudagraph_skips: tuple[CudaGraphSkip, ...] = ()
    error: str = ""
    """Why this mode failed, in one line; the stage fails only for `default`."""


@dataclass(frozen=True)
class OpCheck:
    """One test of `torch.library.opcheck`."""

    name: str
    state: StageState
    detail: str = ""


@dataclass(frozen=True)
class ObservedArgument:
    """A tensor argument of an operator, by the name of the parameter."""

    name: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class ObservedNumber:
    """An integer argument of an operator, given or by default, by the name of the parameter."""

    name: str
    value: int


@dataclass(frozen=True)
class ObservedResult:
    """A tensor that an operator returned, described by its tensor arguments."""

    sizes: tuple[int, ...]
    like: str | None = None
    """The argument with its sizes and device; None if there is none."""
    dtype: str | None = None
    """`int64`, if the type differs from that of `like`, or of the first argument if `like` is None."""
    other_strides: bool = False
    """Its strides differ from those of `like`."""

    def empty(self, torch: str = "torch") -> str:
        """Return the code of an empty tensor like it; `torch` is the code's name for torch. Only if `like` is set."""
        dtype = f", dtype={torch}.{self.dtype}" if self.dtype else ""
        strides = f", memory_format={torch}.contiguous_format" if self.other_strides else ""
        return f"{torch}.empty_like({self.like}{dtype}{strides})"


@dataclass(frozen=True)
class ObservedCall:
    """A call of an operator, with the tensors that it returned."""

    signature: str
    """The parameters as in a function for the operator's schema: `x, k=1`."""
    arguments: tuple[ObservedArgument, ...]
    results: tuple[ObservedResult, ...]
    """Empty if it gave None."""
    several: bool = False
    """The results were in a tuple or list."""
    numbers: tuple[ObservedNumber, ...] = ()


@dataclass(frozen=True)
class CustomOp:
    """An operator, or a function, implemented neither in Python nor in torch, at the place that calls it."""

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
    """The registered schema, or the one that the observed call suggests."""
    skeleton: str = ""
    """Code that would register what is missing; empty if nothing is."""
    checks: tuple[OpCheck, ...] = ()
    in_graph: bool = False
    """A compiled graph called it."""
    around: str | None = None
    """The autograd.Function that calls it, if there is one."""
    case: str | None = None
    observed: ObservedCall | None = None
    """The call from which `skeleton` was derived, for an operator without a fake kernel that returned tensors or
    None."""


@dataclass(frozen=True)
class LineSet:
    """Lines of one file as inclusive (first, last) ranges, ascending."""

    path: str
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class TrainingPart:
    """One part of a training step, observed alone."""

    phase: TrainingPhase
    state: StageState
    detail: str
    seconds: float | None = None


@dataclass(frozen=True)
class Training:
    """Results of a run in training mode beyond its forward.

    Gradients and buffers are part of the stage `parity`. Of the rest, only `failed` counts for the verdict.
    """

    loss: str | None = None
    """The source of the loss (`output.loss`), or `synthesised: ...`; None if there was nothing to train."""
    parts: tuple[TrainingPart, ...] = ()
    """`forward` and `backward` are AOTAutograd's results for the captured graphs."""
    graphs: tuple[Graph, ...] = ()
    """AOTAutograd's graphs, with ATen operations: `forward`, `backward`, or `inference` if nothing requires grad."""
    backward: Coverage | None = None
    """ATen dispatches of a warm backward from the inputs of the loss to the leaves, in compiled graphs and in total."""
    gradients: int = 0
    """Number of gradients compared, eager with compiled."""
    buffers: int = 0
    differences: tuple[str, ...] = ()
    """The first few differences, each named by parameter, input or buffer."""
    aot_sites: tuple[BreakSite, ...] = ()
    """Breaks that only AOTAutograd causes: it cannot trace what Dynamo had captured there."""
    optimizer_sites: tuple[BreakSite, ...] = ()
    """Breaks of the optimizer's step compiled alone."""
    optimizer_recompiles: tuple[Recompile, ...] = ()
    step_sites: tuple[BreakSite, ...] = ()
    """Breaks of a whole step compiled as one function, without those of the model itself."""

    @property
    def failed(self) -> tuple[TrainingPart, ...]:
        """Return the failed parts of the model compiled by AOTAutograd, as every compiler trains it: its forward or
        its backward."""
        return tuple(part for part in self.parts if part.state == "fail" and part.phase in ("forward", "backward"))


@dataclass(frozen=True)
class Placement:
    """One way to apply `torch.compile` to a model, and the measurements with exactly that code.

    In a fresh copy of the model, over all cases, with the same inputs and seeds as every other call.
    """

    name: PlacementName
    code: str
    """Can be executed with `model` and `torch` bound; the resulting `model` is called."""
    share: float | None
    """Share of operations inside graphs, in a warm call; None if it raised."""
    graphs: int | None
    """Number compiled for the first call of each case."""
    recompiles: int | None
    """Functions recompiled in the first call: other instances of a class, other sizes."""
    parity: bool | None
    """Outputs (in training also gradients and buffers) equal those of eager; None if nothing could be compared."""
    reason: str
    """Why it is excluded, or a remark; may be empty."""
    sound: bool = True
    """It neither raised nor differed nor recompiled on an identical call."""
    time_share: float | None = None
    """The same share by the time of the operations, the median of several calls."""
    break_sites: int | None = None
    compile_seconds: float | None = None
    """How much longer the first call took than a later one, with `backend`."""
    steady_seconds: float | None = None
    """A warm call with `backend`, the median of several."""
    backend: str | None = None
    """The backend of the measured times: `eager`, or `inductor` if requested."""
    state_dict_changes: tuple[str, ...] = ()
    """Keys of `state_dict()` that the code renames, as `old -> new`."""
    in_turn_seconds: float | None = None
    """A warm call (in training a training step) with Inductor, timed alternately with other placements: the median
    of several rounds, over cases by weight. None if not measured."""


@dataclass(frozen=True)
class RegionTrial:
    """A part of the model, compiled alone on its inputs in a real forward, with exactly the code that is printed."""

    name: str
    """The name as of a Region; for a function `Class.method` or its own name."""
    modules: tuple[str, ...]
    """Dotted names of the instances; empty for a function."""
    state: RegionState
    reason: str
    """`proved`: how; `refuted`: Dynamo's message; `predicted`: why it was not tried."""
    code: str
    kind: Literal["modules", "function"] = "modules"
    ops_share: float | None = None
    """Share of the operations of the whole call that were in graphs with this code alone."""
    time_share: float | None = None
    parameter_share: float | None = None
    """Share of the model's parameters, by their number."""
    compilations: int | None = None
    """Number for all instances together; one is enough if nothing differs."""
    guards: tuple[str, ...] = ()
    """The guards that made instances recompile."""
    cure: str = ""
    """A line that was tried and lets one compilation serve more instances."""
    site: BreakSite | None = None
    """The break that refuted it."""


@dataclass(frozen=True)
class Plan:
    """Which parts to compile: code that was executed and measured on this target."""

    recommended: PlanChoice
    code: str
    """Code of the recommended placement; empty if nothing helped."""
    share: float | None
    reason: str
    """Why this one."""
    alternatives: tuple[Placement, ...]
    """Every placement that was tried, including the recommended one."""
    rollback: str = ""
    """Lines that restore eager, tried."""
    production: str = ""
    """Lines that log breaks, recompilations and compile times, and refuse to recompile once warm; tried."""
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
    """The one with the fewest operations that hold 80 % of the time."""
    quickest: Placement | None = None
    """The quickest to compile within 0.05 of the best share of time."""
    regions: tuple[RegionTrial, ...] = ()
    cut: tuple[str, ...] = ()
    """What was left out, and why."""
    chosen_by: str = ""
    """How the recommended placement was chosen among those that capture equally well: `by measured steady time:
    ...`, `by simplicity: ...`, or `by what it captures` if there is no other."""


@dataclass(frozen=True)
class CompileTime:
    """The time to compile one function, over all its compilations in a trace."""

    path: str
    line: int
    """Its first line."""
    symbol: str
    compiled: int
    """Number of compilations, in all processes together, including failed ones."""
    seconds: float
    """Time of all of them together, backward included."""
    phases: tuple[tuple[str, float], ...] = ()
    """Seconds of the phases that torch names: `dynamo`, `aot_autograd`, `inductor`, `kernels` (waiting for their
    compilers, and autotuning), `cudagraphs` if any were recorded; each without nested ones."""


@dataclass(frozen=True)
class TracedProcess:
    """One process of a job, which wrote one file of its trace."""

    file: str
    """Its name, without the folder."""
    rank: int | None
    """None if the trace has none: it was in no process group."""
    compilations: int
    """Number of compilations of this target's code."""
    seconds: float
    """Time to compile it."""
    lacks: str = ""
    """Problems of the file: truncated, lines that are not of a trace; empty if there are none."""


@dataclass(frozen=True)
class RecompileAdvice:
    """A way to keep a function of a job from being recompiled, by the guards that failed."""

    path: str
    line: int
    """The first line of the function."""
    symbol: str
    text: str
    """What differs from call to call, and what to do."""
    code: str | None = None
    """The line to write, if there is one."""


@dataclass(frozen=True)
class TracedDifference:
    """A function of a job that its ranks compiled differently."""

    kind: Literal["compilations", "collectives", "cache"]
    """Number of compilations; collectives in the graphs of one version; a cache that only some ranks found it in."""
    place: Frame
    """The function, at its first line."""
    sides: tuple[RankSide, ...]
    """One for each rank that left a trace, in order."""
    version: int | None = None
    """Which compilation of the function, from 1, if the difference is in one of them."""
    everywhere: bool = True
    """Every rank compiled the function; if not, ranks may run other parts of the model, as in a pipeline."""
    whole: bool = True
    """No file of these ranks is truncated or damaged."""
    origin: Origin = "own"

    @property
    def counts(self) -> bool:
        """Return True if it is a finding: not if only a cache differs, which makes ranks wait once, if ranks may run
        different parts of a model, or if a file lacks events."""
        return self.kind != "cache" and self.everywhere and self.whole

    @property
    def hangs(self) -> bool:
        """Return True if ranks with these graphs hang or die."""
        return self.counts and self.kind == "collectives"

    def groups(self) -> tuple[tuple[str, str], ...]:
        """Return the ranks with the same result, as `rank 0` or `ranks 1-3, 5`, and that result, by the lowest rank."""
        ranks: dict[str, list[int]] = {}
        for side in self.sides:
            ranks.setdefault(side.text, []).append(side.rank)
        return tuple((_ranks(some), text) for text, some in ranks.items())

    def words(self) -> str:
        """Format `rank 0: compiled 2 times (0/0, 0/1); ranks 1-3: compiled once (0/0)`."""
        return "; ".join(f"{ranks}: {text}" for ranks, text in self.groups())


def _ranks(numbers: list[int]) -> str:
    """Format `rank 0`, or `ranks 1-3, 5`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    words = [str(first) if first == last else f"{first}-{last}" for first, last in spans]
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {', '.join(words)}"


@dataclass(frozen=True)
class TracedKernel:
    """A kernel that Inductor made in a job, and the code that it computes."""

    name: str
    lines: tuple[Frame, ...]
    """The lines of the user's code, in the order in which the trace names them."""
    compilations: int = 1
    """Number of compilations that made a kernel of this name from these lines, in all processes."""


@dataclass(frozen=True)
class Trace:
    """The content of torch's structured trace of a job, if an observation was made from one, in place of a run."""

    processes: tuple[TracedProcess, ...]
    seconds: float
    """Compile time, in all processes together."""
    phases: tuple[tuple[str, float], ...] = ()
    compile_times: tuple[CompileTime, ...] = ()
    """By function, the longest first."""
    lacks: tuple[str, ...] = ()
    """What a run shows and this trace does not, each in a few words."""
    mode_known: bool = True
    """A graph shows if gradients were computed; if not, the sources are read in the observation's `mode`."""
    advice: tuple[RecompileAdvice, ...] = ()
    """Ways to stop recompilations with one repeated cause. None of it was run."""
    differences: tuple[TracedDifference, ...] = ()
    """What ranks compiled differently; empty for a job of one process."""
    kernels: tuple[TracedKernel, ...] = ()
    """Empty if the job did not set `INDUCTOR_PROVENANCE`, or made no kernel."""
