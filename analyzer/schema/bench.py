"""The speed of a target: what a worker is asked, what it measured, and what follows from that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcready.schema.enums import EAGER

SpeedVerdict = Literal[
    "real_gain", "likely_gain", "no_gain", "likely_no_gain", "regression", "likely_regression", "inconclusive"
]
"""A likely verdict is based on one process, or on processes that agree but are too few for an interval."""
ArmVerdict = Literal["baseline", SpeedVerdict, "failed"]
BenchVerdict = Literal[SpeedVerdict, "not_run"]
BenchKind = Literal["steady", "cold", "profile", "parity", "soak", "loader", "carry"]
"""The task of one process of a bench: all arms in turn, block by block; one arm from its first call; each arm under
the profiler; outputs compared with eager; one arm for a long time; the data loader with the model; compiled code
that is saved, or loaded."""
CarryWay = Literal["cache_artifacts", "aot_compile", "precompile"]
"""How compiled code gets to another process: the artifacts of the caches (`torch.compiler.save_cache_artifacts`), which
the compilation there finds; a function of `torch.compile(...).aot_compile`; or the files of
`torch.compiler.precompile`."""
CARRY_WAYS: tuple[CarryWay, ...] = ("aot_compile", "precompile")
"""The ways that load compiled code without compiling again."""
CheckState = Literal["pass", "fail", "not_measured"]
BLOCKS = 10
"""Number of timed blocks of each arm and case in a process."""
PARITY_SEEDS = 3
"""Number of seeds for which outputs are compared."""
PARITY_ITEM, GENERATION_ITEM = "parity", "separate prefill and decode"
"""Two items of the checklist."""


@dataclass(frozen=True)
class Sizes:
    """One row of a distribution of sizes: arguments for the function that provides the inputs."""

    values: tuple[tuple[str, int], ...]
    """By the names of its parameters: `(("batch", 4), ("length", 128))`."""
    count: float = 1.0
    """Number of calls with these sizes."""

    @property
    def name(self) -> str:
        """Return the name of the case."""
        return ", ".join(f"{name} {value}" for name, value in self.values)


@dataclass(frozen=True)
class Items:
    """The amount of one unit that a call of a case processes."""

    unit: str
    """In the plural: `tokens`, `samples`, `images`, `steps`, or what the inputs name."""
    count: float
    """In one call; in training in one step, over all its forwards."""
    label: str
    """The source of the count: `tokens: 4 x 512 input_ids`."""
    case: str | None = None
    """None if the inputs name no cases, and in what belongs to a case already."""


@dataclass(frozen=True)
class Throughput:
    """The amount of one unit that an arm processes per second."""

    unit: str
    """See `Items`."""
    per_second: float


# What a process is asked


@dataclass(frozen=True)
class Arm:
    """One way to run the model."""

    name: str
    code: str
    """Lines that compile it, with `model` and `torch` bound; the resulting `model` is called. Empty: eager."""
    sources: tuple[tuple[str, str], ...] = ()
    """Absolute path and whole text of each file that a patch changes. Such an arm has separate processes."""


@dataclass(frozen=True)
class BenchRequest:
    """What one process of a bench measures, over every case of the target's inputs."""

    kind: BenchKind
    arms: tuple[Arm, ...]
    """Exactly one for `cold` and `soak`."""
    seed: int = 0
    """Seed of the order in which blocks of the arms are timed."""
    blocks: int = BLOCKS
    """Timed blocks of each arm and case."""
    latencies: int = 0
    """Single calls of each arm and case that are timed one by one."""
    warm_least: int = 10
    warm_most: int = 50
    """Number of calls before anything is timed: the minimum, and the maximum if the times do not settle."""
    seconds: float = 60.0
    """Time for what is timed in this process; blocks get shorter to fit."""
    accumulate: int = 1
    """In training: forwards and backwards for each step of the optimizer."""
    calls: int = 1
    """For inference, calls in a row: one timed step is this many, each with the inputs as the previous one left
    them."""
    loop: str | None = None
    """`path.py::name` or `pkg.mod::name` of a function that is called with the model and the inputs of a case: one
    timed step is one call of it."""
    cache: str | None = None
    """Folder of Inductor's files, which outlasts the process; None: a separate one, initially empty."""
    artifacts: str | None = None
    """File of `torch.compiler.save_cache_artifacts`: loaded before the first call if it exists, else written."""
    loader: str | None = None
    """`path.py::name` or `pkg.mod::name`: a data loader, or a function that returns one."""
    steps: int = 3
    """For `parity` in training: steps after which losses are compared."""
    works: bool = False
    """Another process found that Inductor compiles here: that is not tried first again."""
    profile: bool = False
    """For `steady`: profile at the end. Only on a device: to see the kernels of a CPU they must be compiled
    differently, in a separate process."""
    way: CarryWay | None = None
    """For `carry`: the way in which to load compiled code; None: save it in each of CARRY_WAYS."""
    carried: str | None = None
    """For `carry`: the folder of the files of compiled code."""
    first_seed_only: bool = False
    """For `parity`: compare neither further seeds nor other layouts of the inputs."""


# What a process measured


@dataclass(frozen=True)
class MemoryUse:
    """Memory in bytes. Device memory as torch's allocator counts it; None without such a device."""

    device_steady: int | None = None
    """The most in use during a warm call."""
    device_peak: int | None = None
    """The most in use from the first call on, compiling included."""
    resident_steady: int | None = None
    """Resident memory of the process after the warm calls."""
    resident_peak: int | None = None
    """The most that it had from the first call on, compiling included, with the processes that it started."""


@dataclass(frozen=True)
class ColdStart:
    """The cost of starting an arm, over all cases; it is on the first one that ran."""

    seconds: float
    """Seconds of the first three calls of every case (CUDA graphs are recorded on the second), beyond warm ones.
    Loading torch's compiler is not included."""
    phases: tuple[tuple[str, float], ...] = ()
    """Seconds of the phases that torch names: `dynamo`, `aot_autograd`, `inductor`, `triton` (on a CPU `cpp`: the
    C++ compiler), `cudagraphs` if any were recorded; each without nested ones."""
    cache_hits: int | None = None
    cache_misses: int | None = None


@dataclass(frozen=True)
class Profile:
    """One warm call, by `torch.profiler`."""

    kernel_seconds: float | None = None
    """Seconds of the device's kernels; None without such a device."""
    kernels: int | None = None
    """Launched on the device; on a CPU the operators and compiled kernels that were called."""
    host_seconds: float | None = None
    """Seconds of the calling thread: Python, dispatch and launches."""
    cpu_seconds: float | None = None
    """Seconds of all threads of the process."""
    dynamo_seconds: float | None = None
    """Seconds of the calling thread in Dynamo: the cache lookup, which checks the guards, and the code before a
    graph. None if nothing was compiled. The profiler makes it longer."""
    guards: int | None = None
    """Number of guards of the first frame; None if nothing was compiled or this torch does not show them."""
    python_guards: int | None = None
    """Those of them that call a Python function; the others are checked in C++."""
    expensive_guards: tuple[tuple[str, float], ...] = ()
    """The text of the most expensive ones, with its line of the source, and the seconds of each."""
    energy_joules: float | None = None
    """As counted by the driver; None if it does not count."""
    energy_reason: str = ""
    """Why there is no energy."""
    changing_floats: int | None = None
    """Python floats that the graph takes as inputs, because their values changed between calls; None as for `guards`."""


@dataclass(frozen=True)
class ParityMeasured:
    """Outputs of an arm compared with those of eager code, over several seeds."""

    same: bool | None
    """None if nothing can be compared."""
    detail: str = ""
    """The first difference, or why nothing is compared; empty if all agree."""
    seeds: int = 0
    error: float | None = None
    """The largest error against the wider dtype: the RMS of the difference, relative to the RMS of the tensor."""
    eager_error: float | None = None
    """The same of eager code."""
    eager_differs: bool | None = None
    """Eager code differs from itself under the same seed."""
    tolerance: float | None = None
    gradients: int = 0
    """Gradients were compared."""
    losses: tuple[tuple[float, float], ...] = ()
    """Losses of each training step: eager's and the arm's."""
    layouts: tuple[str, ...] = ()
    """Other layouts of the inputs that were tried: `non-contiguous`, `expanded`."""


@dataclass(frozen=True)
class SoakPoint:
    """One stretch of a soak."""

    seconds: float
    """Seconds since it began."""
    calls: int
    p50: float
    p99: float | None
    resident_bytes: int | None
    device_bytes: int | None
    recompiles: int


@dataclass(frozen=True)
class Soak:
    """One arm over the cases in turn, for a long time."""

    arm: str
    seconds: float
    calls: int
    points: tuple[SoakPoint, ...] = ()
    recompiles: int = 0
    """Recompiles after the warm-up."""
    growth_bytes_per_hour: float | None = None
    """Growth of memory, by a line through the second half of the points."""
    drift: float | None = None
    """Median of the last quarter over that of the first, less 1."""
    state: CheckState = "not_measured"
    reason: str = ""


@dataclass(frozen=True)
class LoaderShare:
    """How the time of an iteration is divided when the model is fed by its data loader."""

    loader: str
    batches: int
    loader_seconds: float
    """Waiting for the next batch, in the median iteration."""
    copy_seconds: float
    """Moving it to the device."""
    model_seconds: float
    """In the model, eager."""
    bound: float | None = None
    """Upper bound of the speedup of an iteration if the model took no time (Amdahl)."""


@dataclass(frozen=True)
class ArmMeasured:
    """Raw figures of one arm in one case, from one process."""

    arm: str
    case: str | None = None
    error: str = ""
    """Why there are no figures, in one line."""
    graphs: int | None = None
    """Graphs that the first calls compiled, over all cases of the arm: they share them."""
    breaks: int | None = None
    """Distinct graph breaks, over all cases."""
    recompiles: int | None = None
    """Recompiles after the first three calls of a case: in the warm-up and while timing."""
    warm_calls: int = 0
    settled: bool = False
    """The times had settled when the warm-up ended."""
    block_calls: int = 0
    blocks: tuple[float, ...] = ()
    """Seconds of one call, the mean over each block, in the order of time."""
    latencies: tuple[float, ...] = ()
    """Seconds of single calls."""
    cold: ColdStart | None = None
    memory: MemoryUse | None = None
    profile: Profile | None = None
    parity: ParityMeasured | None = None
    notes: tuple[str, ...] = ()
    """What readers of the figures must know about how they were measured. The text before a colon is the kind of
    note: of each kind one is reported."""


@dataclass(frozen=True)
class CarriedCode:
    """One way to carry compiled code to another process, which has an empty cache."""

    way: CarryWay
    arm: str
    """The arm that is compiled."""
    seconds: float | None = None
    """The start of that process, to compare with cold starts: seconds to load the code, and of the first three calls
    of every case beyond warm ones."""
    load_seconds: float | None = None
    """Seconds to load the code, which are part of `seconds`."""
    save_seconds: float | None = None
    """Seconds to compile and save it."""
    bytes: int | None = None
    """Size of the files."""
    same: bool | None = None
    """The outputs agree with eager code in all cases; None if that is not known."""
    detail: str = ""
    """What differs, or why that is not known."""
    error: str = ""
    """Why this way is not possible, in one line."""
    limit: str = ""
    """What is not checked any more, or where the code cannot be used; empty in the answer of one process."""
    save_code: str = ""
    """The lines that compile and save, for a `model`, and the `args` and `kwargs` of a call."""
    load_code: str = ""
    """The lines that load the code in another process and call it."""


@dataclass(frozen=True)
class BenchAnswer:
    """The measurements of one process of a bench."""

    kind: BenchKind
    measured: tuple[ArmMeasured, ...] = ()
    weights: tuple[tuple[str, float], ...] = ()
    """Weights of the named cases, as in the inputs."""
    items: tuple[Items, ...] = ()
    """What a call of each case processes, the main unit of a case first."""
    soak: Soak | None = None
    loader: LoaderShare | None = None
    carried: tuple[CarriedCode, ...] = ()
    stack: tuple[tuple[str, str], ...] = ()
    """Versions, device, clocks and settings that the figures apply to, by name."""
    failure: str | None = None
    """Why the process has no results, or no further ones, in one line."""
    timed_out: bool = False
    """The reason is the time limit: its earlier results are valid."""
    ended_in: str | None = None
    """The arm with code that ended the process, if any: the others are measured again without it."""
    notes: tuple[str, ...] = ()
    """Notes as of an arm, for the whole process."""
    device_peak_bytes: int | None = None
    """The most device memory that the process has allocated so far, with the stages before it; None without CUDA."""


BenchPurpose = Literal[
    "steady",
    "remedies",
    "cold",
    "cold_warm_cache",
    "cold_carried",
    "profile",
    "parity",
    "more_parity",
    "soak",
    "loader",
    "carry_save",
    "carry_load",
]
"""The task of a process: its kind; remedies are timed as `steady` is. Parity with further seeds and layouts is
measured last, if there is time, and then starts with compiled code that another process saved. For a cold start, which
caches it had: none, the files of the previous process, or the artifacts of `torch.compiler.save_cache_artifacts`
alone."""


@dataclass(frozen=True)
class BenchProcess:
    """One process of a bench, in the order in which they ran."""

    request: BenchRequest
    answer: BenchAnswer
    purpose: BenchPurpose


@dataclass(frozen=True)
class BenchRun:
    """The raw results of the processes of a bench, from the standalone worker, which does not compute statistics."""

    arms: tuple[Arm, ...]
    """Eager first."""
    processes: tuple[BenchProcess, ...]
    seconds: float
    cut: tuple[str, ...] = ()
    """What was not measured, each with the reason."""
    asked: tuple[tuple[str, str], ...] = ()
    """Options that decide what is measured, by name in the stack."""
    command: str = ""
    """The command that repeats it, on that machine."""


# What follows


@dataclass(frozen=True)
class Figure:
    """A median with the bounds of its 95 % confidence interval."""

    median: float
    low: float
    high: float
    n: int
    """Number of processes it was measured in; for measurements in one process, the number of values."""
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    """For single calls; the last from 200 calls on."""


@dataclass(frozen=True)
class ArmBench:
    """One arm in one case."""

    arm: str
    verdict: ArmVerdict
    seconds: Figure | None
    """Seconds of one call; in training of one step."""
    reason: str = ""
    speedup: Figure | None = None
    """Eager over this arm: above 1 is faster. Its p50: the same for single calls, with a synchronization
    after each."""
    speedup_single: Figure | None = None
    """The ratio of single calls, with a synchronization after each and its own interval; None of a single process."""
    cold_seconds: Figure | None = None
    cold_warm_cache_seconds: Figure | None = None
    """The cold start of a second process that finds the first one's files."""
    cold_carried_seconds: Figure | None = None
    """The cold start of a process that only has the artifacts of `torch.compiler.save_cache_artifacts`."""
    cache_hits: int | None = None
    """Graphs that the second process, which finds the first one's files, took from them."""
    cold_phases: tuple[tuple[str, float], ...] = ()
    memory_peak_bytes: int | None = None
    memory_steady_bytes: int | None = None
    """Device memory; resident memory without a device."""
    resident_peak_bytes: int | None = None
    resident_steady_bytes: int | None = None
    """Resident memory of the process, if there is a device."""
    kernel_seconds: Figure | None = None
    kernel_launches: int | None = None
    dynamo_seconds: float | None = None
    """See `Profile`."""
    guards: int | None = None
    python_guards: int | None = None
    expensive_guards: tuple[tuple[str, float], ...] = ()
    """See `Profile`, for the case with the most guards."""
    host_seconds: float | None = None
    cpu_seconds: float | None = None
    """Processor time of a warm call, of all threads."""
    energy_joules: float | None = None
    energy_reason: str = ""
    """Why there is no energy."""
    throughput: float | None = None
    """Calls a second."""
    rates: tuple[Throughput, ...] = ()
    """The throughput in the units of the case, the main one first, from the median of `seconds`."""
    graphs: int | None = None
    breaks: int | None = None
    recompiles: int | None = None
    parity: bool | None = None
    parity_detail: str = ""
    break_even_calls: Figure | None = None
    """Calls until the time for compiling is recovered; None unless each call is surely faster."""
    break_even_warm_calls: Figure | None = None
    """The same with a warm cache."""
    code: str = ""
    blocks: tuple[tuple[float, ...], ...] = ()
    """Seconds of one call in each block, a row for each process."""
    single_calls: tuple[float, ...] = ()
    """Quantiles of the seconds of single calls, at 0, 5, 10, ... 100 %; empty for fewer than 20 calls."""
    settled: bool | None = None
    warm_calls: int | None = None
    changing_floats: int | None = None
    """See `Profile`, for the case with the most guards."""


@dataclass(frozen=True)
class BenchCase:
    """One case of the inputs, or all of them by their weights (`all cases`)."""

    case: str
    arms: tuple[ArmBench, ...]
    weight: float | None = None
    recommended: str | None = None
    noise: Noise | None = None
    """Noise of eager in this case; for all cases together, in the one with the most weighted time."""
    items: tuple[Items, ...] = ()
    """What one call processes, the main unit first; for all cases together the units that each of them has, as the
    weighted mean."""


@dataclass(frozen=True)
class Remedy:
    """A way to compile that was tried because the arm `default` was not faster than eager code."""

    name: str
    code: str
    risk: str
    """Its cost, or what is no longer noticed."""
    speedup: Figure | None = None
    """Eager over this, all cases together, in one process."""
    without: Figure | None = None
    """The same for the arm `default`, in the same process; for an older torch in a separate one."""
    error: str = ""
    """Why it was not timed."""


@dataclass(frozen=True)
class CheckItem:
    """One box of the adoption checklist."""

    item: str
    state: CheckState
    detail: str = ""
    """What was measured, or the command that measures it."""


@dataclass(frozen=True)
class Noise:
    """Eager compared with itself, next to every comparison."""

    ratio: Figure
    """Ratio of one half of eager's blocks to the other."""
    verdict: ArmVerdict
    spread: float
    """Between processes: the standard deviation of the logarithm of their means."""


@dataclass(frozen=True)
class Bench:
    """The verdict on whether compiling pays off, for this target with these inputs on this machine."""

    verdict: BenchVerdict
    reason: str
    cases: tuple[BenchCase, ...]
    recommended: str | None = None
    """The arm."""
    code: str = ""
    """The lines that select it."""
    rollback: str = ""
    """The lines that restore eager."""
    checklist: tuple[CheckItem, ...] = ()
    loader: LoaderShare | None = None
    soak: Soak | None = None
    noise: Noise | None = None
    stack: tuple[tuple[str, str], ...] = ()
    command: str = ""
    """The command that repeats it."""
    processes: int = 0
    seconds: float = 0.0
    """Total duration."""
    cut: tuple[str, ...] = ()
    """What was left out, and why."""
    notes: tuple[str, ...] = ()
    """What readers must know about how it was measured."""
    longer: str = ""
    """The command that measures more of the checklist; empty if nothing is left."""
    remedies: tuple[Remedy, ...] = ()
    """Remedies that were tried because compiling does not pay off unchanged; their outputs are not compared."""
    carried: tuple[CarriedCode, ...] = ()
    """Starts with code that another process compiled."""
    device_peak_bytes: int | None = None
    """The most device memory that one of the processes allocated, with the stages of the check; None without CUDA."""

    @property
    def gain(self) -> float | None:
        """Return the speedup over eager of the fastest arm that did not fail, over all cases; None without one."""
        arms = self.cases[-1].arms if self.cases else ()
        found = [arm.speedup.median for arm in arms if arm.verdict not in ("baseline", "failed") and arm.speedup]
        return max(found, default=None)

    @property
    def failed(self) -> bool:
        """Return True if every compiled arm failed, whatever its times."""
        arms = [arm for arm in self.cases[-1].arms if arm.arm != EAGER] if self.cases else []
        return self.verdict != "not_run" and bool(arms) and all(arm.verdict == "failed" for arm in arms)
