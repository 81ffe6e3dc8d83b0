"""The results of one run of one target, and the corresponding value for a target that was only read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tcready.schema.compile_call import CompileCall
from tcready.schema.enums import SCHEMA_VERSION, InputsSource, Mode, StageName, StageReason, StageState
from tcready.schema.value_class import dataclass

if TYPE_CHECKING:
    from tcready.schema.bench import Bench, BenchRun
    from tcready.schema.parallel import Ddp, ParallelRun
    from tcready.schema.run import (
        Backend,
        BreakSite,
        Compared,
        Coverage,
        CustomOp,
        Explain,
        Graph,
        Intent,
        LineSet,
        OwnCompile,
        ParityCause,
        Plan,
        Recompile,
        ShapeStudy,
        SkippedFrame,
        Trace,
        Training,
    )


@dataclass(frozen=True)
class Stage:
    """The result of one stage of a run."""

    stage: StageName
    state: StageState
    detail: str
    """Why it failed or did not run, for people; or its result."""
    seconds: float | None = None
    reason: StageReason | None = None
    """The same as a keyword, for code; None for a stage that passed."""


@dataclass(frozen=True)
class ModuleShare:
    """One node of the module hierarchy; `name` is dotted, the root is "". Ops include the subtree's."""

    name: str
    type: str
    """The class."""
    ops: int | None = None
    """ATen operations of the warm compiled call; of an eager one if nothing was compiled."""
    ops_captured: int | None = None
    """Those of them that ran in compiled graphs."""
    seconds: float | None = None
    """Seconds of its operations, each measured alone."""
    path: str | None = None
    """File and first line of the code of its forward; None if that is not user code."""
    line: int | None = None
    ops_self: int | None = None
    """Ops dispatched while this module was the innermost one."""
    seconds_captured: float | None = None


SYNTHESISED = "synthesised: "
"""Beginning of an Observation's `convention` if no inputs were given; a description of the generated ones follows."""


@dataclass(frozen=True)
class Observation:
    """The results of one run of one target. A failed run is an Observation too.

    `executed` are the user lines that ran in the eager forward; `traced` those that Dynamo traced.
    """

    target: str
    convention: str | None
    """The source of the inputs: `get_inputs()`, `--inputs ...`, `synthesised: ...`; None if there were none."""
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
    parallel: ParallelRun | None = None
    """None unless it was run over several processes."""
    digests: tuple[tuple[str, str], ...] = ()
    """(display path, SHA-256 of the bytes) of the files in `sources`."""
    intents: tuple[Intent, ...] = ()
    compared: tuple[Compared, ...] = ()
    """What the stage `parity` compared in each case: the tensor with the largest difference. Empty if all were
    equal."""
    own_compiles: tuple[OwnCompile, ...] = ()
    """The lines of the model's own code that compile parts of it."""
    parity_cause: ParityCause | None = None
    """None if all agree, or if no cause was found."""
    training: Training | None = None
    """None in inference mode, and if the run ended before."""
    shapes: ShapeStudy | None = None
    """None if it was not requested, or nothing was compiled."""
    plan: Plan | None = None
    """None if it was not requested, or the model was not captured."""
    backend: tuple[Backend, ...] = ()
    custom_ops: tuple[CustomOp, ...] = ()
    inputs_from: InputsSource | None = None
    """The same as `convention`, as a keyword; None if there were no inputs."""
    parity: Mapping[str, Any] | None = None
    """Not filled in by any tcready so far."""
    bench: Bench | None = None
    """Filled in by `tcready bench`."""
    bench_run: BenchRun | None = None
    """Measurements of the standalone worker, until a report is made from them."""
    trace: Trace | None = None
    """The content of the job's trace, if this was read from one; None for a run. `executed` is then unknown, and
    `traced` has only the lines of operations in graphs."""
    asked: tuple[str, ...] = ()
    """The words for the target and its run on the command line of `tcready check`, without `--run`; empty if
    unknown, or if no command line can express it."""
    brought_from: str = ""
    """The file of the standalone worker that the run was read from; empty if it was made here."""
    seconds: float | None = None
    """From the start of the worker to its end, including the time between stages; for several workers of one run
    their sum. None for a trace, and for a run made by an older tcready."""
    compiled_at: CompileCall | None = None
    """The call of the user's code that it was judged by: it was compiled with the options of that call. None if the
    user's code was not seen to compile it."""
    schema_version: int = SCHEMA_VERSION

    @property
    def was_run(self) -> bool:
        """Return True if anything beyond reading the target's source was tried."""
        return self.environment is not None or any(
            stage.state == "fail" or (stage.stage != "parse" and stage.state == "pass") for stage in self.stages
        )


def device_kind(seen: Observation) -> str:
    """Return the type of the device of a run, such as `cuda`; empty if it is unknown."""
    return str((seen.environment or {}).get("device") or "").partition(":")[0]


def holds_for(seen: Observation) -> str:
    """Return the limits of a run's result, as text that follows "holds for": a dtype other than float32, and the
    device `meta`. Empty if there are none."""
    known = seen.environment or {}
    dtype = str(known.get("dtype") or "").removeprefix("torch.")
    limits = [] if dtype in ("", "float32", "float") else [dtype]
    if device_kind(seen) == "meta":
        limits.append("the device meta: shapes only, no values")
    return " on ".join(limits)
