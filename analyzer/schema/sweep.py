"""The summary of a sweep: a row for each model, break sites over all models, changes since the last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcready.schema.enums import Mode, Origin, StageReason, Verdict

SweptState = Literal["run", "read", "inputs_unknown", "unread", "failed"]
"""`run`: the model ran under Dynamo; `read`: only its source was requested; `inputs_unknown`: it has no inputs, and
none could be generated; `unread`: its file cannot be read, or has no such name; `failed`: the run ended before
anything was compiled."""
ChangeKind = Literal["own", "dependency", "torch", "python", "tcready", "options", "new"]
"""The kind of input of a result that changed since the last sweep; `new`: that one did not have the model."""


@dataclass(frozen=True)
class Cause:
    """One input of a result that changed since the last sweep."""

    kind: ChangeKind
    what: str
    """A file, a distribution, or an option; empty if the kind is enough."""
    was: str = ""
    """A version or a value, "not there" if it did not exist; empty for the content of a file."""
    now: str = ""


@dataclass(frozen=True)
class Outcome:
    """The result of a sweep for a model, as far as it is compared between sweeps."""

    state: SweptState
    verdict: Verdict
    share: float | None = None
    """Share of the operations in graphs."""
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
    """The version it ran with, or for which Dynamo was predicted; empty if there is none."""
    python: str
    """The version of the interpreter; empty if nothing was run."""
    outcome: Outcome
    reason: str
    """The verdict in a sentence, or why there is none."""
    word: StageReason | None = None
    """Why the run ended early, as a keyword: `timeout`, `crash`, `memory`."""
    time_share: float | None = None
    """Share of the time of its operations in graphs."""
    compile_seconds: float | None = None
    """Compile time of all its graphs, by torch's own count; None if nothing was compiled."""
    gain: float | None = None
    """The speedup over eager of the fastest arm of a bench, added by `tcready report SWEEP BENCH`; None if there is
    none."""
    seconds: float | None = None
    """Duration of its run, when it was made."""
    stored: bool = False
    """The result was in the store: none of its inputs changed."""
    interpreter: str = ""
    """As named in `--matrix python=` or a table of the settings; empty for the one that runs tcready."""
    before: Outcome | None = None
    """The result of the last sweep in the same store; None if it did not have the model."""
    causes: tuple[Cause, ...] = ()
    """Why it was run again; empty if nothing changed."""
    table: str = ""
    """The table of a list that names it; empty if there is none."""


@dataclass(frozen=True)
class SweptSite:
    """A line at which models break, over all of them."""

    path: str
    line: int
    symbol: str
    origin: Origin
    what: str
    """The rule's code, or the ID of the type of break."""
    message: str
    models: tuple[str, ...]
    """The targets that break there."""
    observed: bool
    """A run showed it; otherwise the source predicts it."""
    hits: int = 0
    operations: int = 0
    """Number of operations that it causes outside of graphs, in one warm call of each case of each model."""
    seconds: float = 0.0
    """Time of these operations."""
    fingerprint: str = ""
    """Fingerprint of the report's finding there; empty if there is none."""
    fix: str = ""
    """The fix, if known."""


@dataclass(frozen=True)
class SweptFix:
    """One change, and the sites that it should remove."""

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
    """Sites of the most models first, then by the time that they cost."""
    fixes: tuple[SweptFix, ...] = ()
    """The one that removes most first."""
    gone: tuple[str, ...] = ()
    """Targets of the last sweep that were requested again and do not exist any more."""
    has_last: bool = False
    """The store has an earlier sweep of the same targets, or of any of these models."""
    made: int = 0
    """Number of new results."""
    taken: int = 0
    """Number of results from the store."""
    seconds: float = 0.0
    """From the start of the sweep to its last result."""
