"""The change that a rule suggests at a place, and the result of a run that tried it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tcready.schema.edit import Edit
from tcready.schema.frozen import dataclass
from tcready.schema.words import Mode


@dataclass(frozen=True)
class SideCount:
    """How often a branch test that a change takes away was true and false."""

    path: str
    """As the report shows it."""
    line: int
    text: str
    true: int
    false: int
    alone: bool
    """Whether calls of its function alone were needed to take both."""


@dataclass(frozen=True)
class Proof:
    """What was tried of a change, and what it showed."""

    calls: int
    """Calls compared, eager against eager, before against after."""
    compiled_calls: int
    seeds: int
    modes: tuple[Mode, ...]
    variations: tuple[str, ...]
    sides: tuple[SideCount, ...]
    breaks_before: int
    breaks_after: int | None
    """None if nothing was captured after the change."""
    share_before: float | None
    share_after: float | None
    """Of a forward's operations, inside graphs."""
    fullgraph: bool | None
    """Whether `fullgraph=True` compiles afterwards; None if it was not tried, since breaks are left."""
    eager_ratio: float | None
    """Seconds of an eager call after over before."""
    not_compared: tuple[str, ...] = ()
    """What proofs of this version do not compare."""
    compiled_again_before: int | None = None
    """How often functions were compiled again in calls with the inputs as given."""
    compiled_again_after: int | None = None
    recompiled: str | None = None
    """Functions that compile again at every call after the change, with the guards that fail; None if there are none."""


@dataclass(frozen=True)
class Fix:
    """The change that a rule suggests at a place."""

    title: str
    """One sentence."""
    safe: bool
    """Whether the change does the same by construction; False if there is no change."""
    diff: str | None
    """A unified diff against the unmodified file. None if there is only the example of the rule."""
    verified: bool | None
    """Whether a run verified it; None if there was no run."""
    edits: tuple[Edit, ...] = ()
    """The change itself, for the unmodified files; `diff` shows it."""
    settings: Mapping[str, bool | int | str] = field(default_factory=dict)
    """Names of `torch._dynamo.config`, and the value with which Dynamo captures the code unchanged."""
    unsafe_because: str | None = None
    """Why the change might not do the same."""
    evidence: Proof | None = None
    """The proof of a run that tried it."""
    declined: str | None = None
    """Why there is no change, or why the one that was tried does not hold."""
