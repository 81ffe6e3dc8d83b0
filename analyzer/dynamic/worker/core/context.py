"""The data of a run: the request, the results of its stages, and their totals. This does not load torch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tcready.dynamic.worker.core.case import Case, RunError
from tcready.dynamic.worker.core.frames import FrameNames
from tcready.dynamic.worker.core.journal import Journal
from tcready.dynamic.worker.core.request import Work
from tcready.dynamic.worker.custom_ops.observed_calls import SeenCalls
from tcready.portable.input_conventions import Convention
from tcready.schema.enums import Mode

if TYPE_CHECKING:
    from tcready.dynamic.worker.core.generators import Generators
    from tcready.dynamic.worker.inputs.stand_ins import StandIns
    from tcready.dynamic.worker.measure.call_outcome import CallOutcome, Unequal


def _not_built() -> Any:
    raise RunError("nothing was built yet")


def _not_built_as(*_: Any) -> Any:
    return _not_built()


def _nothing_copied() -> None:
    pass


@dataclass
class Context:
    """One run. Each stage reads what it needs and leaves what later ones need; the journal holds what is reported."""

    work: Work
    journal: Journal
    names: FrameNames
    convention: Convention | None = None
    """The definition of target and inputs in the target's file; None if `--inputs` defines them, or if nothing does."""
    given: bool = False
    """True if the caller of this process passed the object itself, so that nothing is imported or looked up."""
    as_a_target: bool = False
    """True if an object that was passed in is checked like a target: trained, planned and so on, if requested."""
    compile_options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `torch.compile` besides the backend."""
    tolerance: tuple[float, float] | None = None
    """Tolerance of the outputs, relative and absolute; None: that of their dtype."""
    compares: bool = True
    """True if the stage `parity` is requested."""
    measures: bool = True
    """True if operations are timed repeatedly; for a change that is tried, their number is sufficient."""
    watches_lines: bool = True
    """True to record which lines run: this replaces any other tool that watches lines, such as coverage."""

    device_found: bool = False
    """True if the device was requested as `auto`."""
    module: ModuleType | None = None
    """The target's module; like `value` and `inputs`, from the stage `import`."""
    value: Any = None
    """The target itself: a class, an instance, a function."""
    inputs: Any = None
    """The object that `--inputs` names; None without it."""
    originals: dict[tuple[str, str], Any] = field(default_factory=dict)
    """Torch's callables before any user code ran."""
    build: Callable[[], Any] = _not_built
    """Builds a new model, or returns the function to compile; set by the stage `build`, as are the cases."""
    lent: Callable[[], contextlib.AbstractContextManager[Any]] | None = None
    """Lends the model that `build` copies, for a change that is undone afterwards; None if there is none."""
    stop_copying: Callable[[], None] = _nothing_copied
    """Makes `build` call the constructor each time."""
    build_as: Callable[[Mode, int], Any] = _not_built_as
    """Builds a new model in a mode, from a seed; like the following, set by the stage `build` of a target."""
    compiles_itself: bool = False
    """True if the model's own code calls `torch.compile` while it is built."""
    rebuild: Callable[[], Any] | None = None
    """Calls the constructor of the model; None for an object that the caller of this process passed."""
    draw: Callable[[int], tuple[Case, ...]] = _not_built_as
    """Returns the cases; inputs that are drawn are drawn from the given seed."""
    cases: tuple[Case, ...] = ()
    eager_outcomes: list[CallOutcome] = field(default_factory=list)
    """The outputs and effects of the first call of each case; `compiled_outcomes` is the same for compiled code."""
    compiled_outcomes: list[CallOutcome] = field(default_factory=list)
    eager_again: dict[str, CallOutcome] = field(default_factory=dict)
    """The same for the second call, by the label of the case; in inference, if it raised nothing."""
    compiled_again: dict[str, CallOutcome] = field(default_factory=dict)
    eager_steps: list[Any] = field(default_factory=list)
    """In training, the results of the backward of the eager call of each case, or the exception that it raised."""
    compiled_steps: list[Any] = field(default_factory=list)
    """The same for the first compiled call."""
    call_bytes: int | None = None
    """Device memory that one call of the model added at its peak; None if not known."""
    peak_bytes: int = 0
    """The peak device memory of the run before that measurement."""
    eager_generators: dict[str, Generators] = field(default_factory=dict)
    """The states of random generators after the eager call, by the label of the case."""
    eager_random: dict[str, tuple[CallOutcome, ...]] = field(default_factory=dict)
    """Outputs of calls between which random generators run on, by the label of the case."""
    unequal_random: list[Unequal] = field(default_factory=list)
    """Outputs of such calls that differ in compiled code."""
    raised_for_values: str | None = None
    """The exception of compiled code called with other values, if eager code raises none."""
    varied: dict[str, Case] = field(default_factory=dict)
    """For the label of a case, the case with other values that eager code took."""
    unequal_values: list[Unequal] = field(default_factory=list)
    """Outputs of calls with other values that differ in compiled code."""
    in_turn: str | None = None
    """The difference between outputs if one compiled callable takes all cases one after the other; None if there is
    none."""
    stand_ins: StandIns | None = None
    """Placeholders for values on the device `meta`; None on every other."""
    toolchains: dict[str, str | None] = field(default_factory=dict)
    """By device that was tried, why Inductor cannot compile for it; None if it can."""
    custom_ops: SeenCalls = field(default_factory=SeenCalls)
    """Calls of operators and functions that are not torch's."""

    extras_since: float | None = None
    """When the first of the stages that share the budget began, by time.monotonic."""
    blocked: set[str] = field(default_factory=set)
    """Stages that failed, or were not begun because a required stage had failed."""
