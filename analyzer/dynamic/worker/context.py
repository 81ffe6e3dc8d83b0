"""The state of a run: the request, and the results of its stages. Does not load torch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tcready.convention import Convention
from tcready.dynamic.worker.case import Case, RunError
from tcready.dynamic.worker.frames import Names
from tcready.dynamic.worker.journal import Journal
from tcready.dynamic.worker.observed_calls import SeenCalls
from tcready.dynamic.worker.request import Work
from tcready.schema.words import Mode

if TYPE_CHECKING:
    from tcready.dynamic.worker.generators import Generators
    from tcready.dynamic.worker.outcome import Outcome, Unequal
    from tcready.dynamic.worker.stand_ins import StandIns


def _not_built() -> Any:
    raise RunError("nothing was built yet")


def _not_built_as(*_: Any) -> Any:
    return _not_built()


def _nothing_copied() -> None:
    pass


@dataclass
class Context:
    """One run. Each stage reads what it needs and leaves what later ones need; the journal has what is reported."""

    work: Work
    journal: Journal
    names: Names
    convention: Convention | None = None
    """What the target's file itself says of target and inputs; None where `--inputs` does, or nothing."""
    given: bool = False
    """Whether the caller of this process gave the object itself: nothing is imported or looked up."""
    as_a_target: bool = False
    """Whether an object that was given is checked as a target is: trained, planned and so on, if that is asked for."""
    compile_options: Mapping[str, Any] = field(default_factory=dict)
    """What `torch.compile` is called with besides the backend."""
    tolerance: tuple[float, float] | None = None
    """Of the outputs, relative and absolute; None: that of their dtype."""
    compares: bool = True
    """Whether the stage `parity` is asked for."""
    measures: bool = True
    """Whether operations are timed again and again: of a change that is tried their number is enough."""
    watches_lines: bool = True
    """Whether to note which lines run: it takes the place of whatever else watches them, a coverage tool."""

    device_found: bool = False
    """Whether the device was asked for as `auto`."""
    module: ModuleType | None = None
    """The target's module; like `value` and `inputs`, from the stage `import`."""
    value: Any = None
    """The target itself: a class, an instance, a function."""
    inputs: Any = None
    """What `--inputs` names; None without it."""
    originals: dict[tuple[str, str], Any] = field(default_factory=dict)
    """Torch's callables before any of the user's code ran."""
    build: Callable[[], Any] = _not_built
    """A fresh model, or the function to compile itself; from the stage `build`, as are the cases."""
    lent: Callable[[], contextlib.AbstractContextManager[Any]] | None = None
    """Lends the model that `build` copies, for a change that is undone afterwards; None where there is none."""
    stop_copying: Callable[[], None] = _nothing_copied
    """Makes `build` call the constructor each time."""
    build_as: Callable[[Mode, int], Any] = _not_built_as
    """A fresh model in a mode, from a seed; like what follows, from the stage `build` of a target."""
    draw: Callable[[int], tuple[Case, ...]] = _not_built_as
    """The cases, with inputs drawn from another seed where they are drawn."""
    cases: tuple[Case, ...] = ()
    eager_outcomes: list[Outcome] = field(default_factory=list)
    """What the first call of each case gave and left; so for `compiled_outcomes`."""
    compiled_outcomes: list[Outcome] = field(default_factory=list)
    eager_again: dict[str, Outcome] = field(default_factory=dict)
    """The same of the second call, by the label of the case; in inference, where it raised nothing."""
    compiled_again: dict[str, Outcome] = field(default_factory=dict)
    eager_steps: list[Any] = field(default_factory=list)
    """In training what the backward of the eager call of each case left, or the exception that it raised."""
    compiled_steps: list[Any] = field(default_factory=list)
    """The same of the first compiled call."""
    call_bytes: int | None = None
    """Device memory that one call of the model held at once, beyond what was held before; None if that is not known."""
    peak_bytes: int = 0
    """The most device memory of the run before that was measured."""
    eager_generators: dict[str, Generators] = field(default_factory=dict)
    """The states of random generators after the eager call, by the label of the case."""
    eager_random: dict[str, tuple[Outcome, ...]] = field(default_factory=dict)
    """Outputs of calls between which random generators run on, by the label of the case."""
    unequal_random: list[Unequal] = field(default_factory=list)
    """Those that compiled calls give otherwise."""
    raised_for_values: str | None = None
    """What compiled code raised when it was called with other values, and eager code did not."""
    unequal_values: list[Unequal] = field(default_factory=list)
    """Outputs of calls with other values that compiled calls give otherwise."""
    in_turn: str | None = None
    """How outputs differ where one compiled callable takes all cases one after the other; None where they do not."""
    stand_ins: StandIns | None = None
    """What is taken in place of values on the device `meta`; None on every other."""
    toolchains: dict[str, str | None] = field(default_factory=dict)
    """By device, why Inductor cannot compile for it, None if it can; of those that were tried."""
    custom_ops: SeenCalls = field(default_factory=SeenCalls)
    """Operators and functions of others that were met."""

    extras_since: float | None = None
    """When the first of the stages that share the budget began, by time.monotonic."""
    blocked: set[str] = field(default_factory=set)
    """Stages that failed, or were not begun since one that they require had failed."""
