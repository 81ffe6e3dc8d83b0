"""The change that a rule suggests at a place, and what a run that tried it showed."""

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
    """What no proof of this version looks at."""
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
    """Whether it does what the code did by construction; False where there is no change."""
    diff: str | None
    """A unified diff against the file as it stands, or None if only the rule's example speaks."""
    verified: bool | None
    """True or False once a run has shown it; None while nobody ran it."""
    edits: tuple[Edit, ...] = ()
    """The change itself, of the files as they stand; `diff` shows it."""
    settings: Mapping[str, bool | int | str] = field(default_factory=dict)
    """Names of `torch._dynamo.config`, and the value with which Dynamo takes the code as it stands."""
    unsafe_because: str | None = None
    """Why it might not do what the code did."""
    evidence: Proof | None = None
    """Of a run that tried it."""
    declined: str | None = None
    """Why there is no change, or why the one that was tried does not hold."""
