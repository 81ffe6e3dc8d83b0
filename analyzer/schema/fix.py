"""The change that a rule suggests at a place, and the result of a run that tried it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tcready.schema.edit import Edit
from tcready.schema.enums import Mode
from tcready.schema.value_class import dataclass


@dataclass(frozen=True)
class SideCount:
    """How often a branch test that a change removes was true and false."""

    path: str
    """The path in the report."""
    line: int
    text: str
    true: int
    false: int
    alone: bool
    """Taking both sides required calls of its function alone."""


@dataclass(frozen=True)
class Proof:
    """What was tried of a change, and the results."""

    calls: int
    """Number of calls compared, eager with eager, before and after."""
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
    """Share of a forward's operations in graphs."""
    fullgraph: bool | None
    """`fullgraph=True` compiles afterwards; None if it was not tried, because breaks are left."""
    eager_ratio: float | None
    """Seconds of an eager call after over before."""
    not_compared: tuple[str, ...] = ()
    """What no proof of this version compares."""
    compiled_again_before: int | None = None
    """Number of recompiles in calls with the given inputs."""
    compiled_again_after: int | None = None
    left_out: int = 0
    """Number of calls with varied inputs that were not made, for lack of time."""
    recompiled: str | None = None
    """Functions that recompile at every call after the change, with the guards that fail; None if there are none."""


@dataclass(frozen=True)
class Fix:
    """The change that a rule suggests at a place."""

    title: str
    """One sentence."""
    safe: bool
    """It is equivalent by construction; False without a change."""
    diff: str | None
    """A unified diff against the current file, or None if there is only the rule's example."""
    verified: bool | None
    """True or False once a run has shown it; None before that."""
    edits: tuple[Edit, ...] = ()
    """The change itself, for the current files; `diff` shows it."""
    settings: Mapping[str, bool | int | str] = field(default_factory=dict)
    """Names of `torch._dynamo.config` settings, and the values with which Dynamo compiles the unmodified code."""
    unsafe_because: str | None = None
    """Why it may change behavior."""
    evidence: Proof | None = None
    """Results of the run that tried it."""
    declined: str | None = None
    """Why there is no change, or why the change that was tried failed."""
