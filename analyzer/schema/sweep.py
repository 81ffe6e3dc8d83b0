"""The results of a sweep: a row for each model, sites over all models, and changes since the last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcready.schema.words import Mode, Origin, StageReason, Verdict

SweptState = Literal["run", "read", "inputs_unknown", "unread", "failed"]
"""`run`: the model ran under Dynamo; `read`: its source alone was asked for; `inputs_unknown`: nobody gives its inputs,
and none could be made up; `unread`: its file cannot be read, or has no such name; `failed`: the run ended before anything
was compiled."""
ChangeKind = Literal["own", "dependency", "torch", "python", "tcready", "options", "new"]
"""What a result rests on that is another than at the last sweep; `new`: that one did not have the model."""


@dataclass(frozen=True)
class Cause:
    """One difference from the last sweep."""

    kind: ChangeKind
    what: str
    """A file, a distribution, or an option; empty if the kind says it all."""
    was: str = ""
    """A version or a value, "not there" for what was not; empty for the contents of a file."""
    now: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a sweep found of a model, as far as two sweeps are compared."""

    state: SweptState
    verdict: Verdict
    share: float | None = None
    """Of the operations, in graphs."""
    own_sites: int = 0
    """Distinct lines of the user's code at which Dynamo breaks or gives up."""
    third_party_sites: int = 0


@dataclass(frozen=True)
class SweptModel:
    """One model in one setting: a row of the table."""

    target: str
    mode: Mode
    device: str
    torch: str
    """The version that it ran under, or that was predicted; empty if there is none."""
    python: str
    """The version of the interpreter; empty if nothing was run."""
    outcome: Outcome
    reason: str
    """The verdict in a sentence, or why there is none."""
    word: StageReason | None = None
    """Why the run ended early, as a word: `timeout`, `crash`, `memory`."""
    time_share: float | None = None
    """Of the time of its operations, in graphs."""
    compile_seconds: float | None = None
    """Of all its graphs, by torch's own count; None if nothing was compiled."""
    gain: float | None = None
    """How many times as fast as eager the fastest arm of a bench was, put there by `tcready report SWEEP BENCH`; None if
    none was."""
    seconds: float | None = None
    """The seconds of its run, when it was made."""
    stored: bool = False
    """Whether the stored result was reused, because nothing that it depends on has changed."""
    interpreter: str = ""
    """As `--matrix python=` or a table of the settings names it; empty for the one that runs tcready."""
    before: Outcome | None = None
    """What the last sweep in the same store found; None if it did not have the model."""
    causes: tuple[Cause, ...] = ()
    """Why it was run again; empty for what did not change."""
    table: str = ""
    """The table of a list that names it; empty if none does."""


@dataclass(frozen=True)
class SweptSite:
    """A line at which models break, over all of them."""

    path: str
    line: int
    symbol: str
    origin: Origin
    what: str
    """The rule's code, or the id of the type of break."""
    message: str
    models: tuple[str, ...]
    """The targets that break there."""
    observed: bool
    """Whether a run showed it; if not, the source predicts it."""
    hits: int = 0
    operations: int = 0
    """Operations that it forced to run outside of graphs, in one warm call of each case of each model."""
    seconds: float = 0.0
    """Of those operations."""
    fingerprint: str = ""
    """Of the report's finding there; empty if there is none."""
    fix: str = ""
    """A fix, if one is known."""


@dataclass(frozen=True)
class SweptFix:
    """One change, and the sites that it is said to remove."""

    what: str
    """A setting of Dynamo with its value, or a rule's code and the place that is changed."""
    sites: int
    models: tuple[str, ...]
    operations: int
    seconds: float


@dataclass(frozen=True)
class Sweep:
    """The summary of a sweep over all its models."""

    models: tuple[SweptModel, ...]
    """By target, then by setting."""
    sites: tuple[SweptSite, ...]
    """Sites where most models break come first, then those that cost most time."""
    fixes: tuple[SweptFix, ...] = ()
    """The one that removes most first."""
    gone: tuple[str, ...] = ()
    """Targets of the last sweep that were named again and no longer exist."""
    has_last: bool = False
    """Whether the store holds an earlier sweep of the same targets, or of any of these models."""
    made: int = 0
    """Results that were computed now."""
    taken: int = 0
    """Results that were in the store."""
    seconds: float = 0.0
    """From the start of the sweep to its last result."""
