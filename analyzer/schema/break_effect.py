"""The effect of a break on the functions around it."""

from __future__ import annotations

from collections.abc import Iterable

from tcready.schema.enums import FATES, Fate
from tcready.schema.value_class import dataclass


@dataclass(frozen=True)
class FrameFate:
    """The effect of a break on one function. `line` is the first of its code, decorators included.

    `split`: it is compiled up to the break, or up to the call that leads there, and again from there on. `whole_frame`:
    Dynamo gives up all of it, or all that is left; functions that it calls may still be compiled. `not_compiled`:
    Dynamo never compiles it alone, break or no break.
    """

    path: str
    line: int
    symbol: str
    fate: Fate
    because: str | None = None
    """Why it is not split: the statement around the break or the call (`for`, `while`, `try`, `with`), `iterator`,
    `generator`, `property`, `checkpoint`, `no tensor`, or `construct`: the break itself."""


@dataclass(frozen=True)
class BreakEffect:
    """The effect of a break on the functions around it, as predicted from the source and as observed in runs."""

    frame: FrameFate
    """The function that contains the break."""
    above: tuple[FrameFate, ...] = ()
    """Every function on a path from a compiled entry to it, outermost first."""
    levels: int = 1
    """Number of compiled functions on the shortest path, this one included: the break occurs at least once in each
    of them. Functions that nested graph breaks split together count as one."""
    chains: int = 1
    """Number of paths with distinct functions."""
    seen: tuple[FrameFate, ...] = ()
    """Observed effects in runs; empty if there are none."""


def worst_fates(frames: Iterable[FrameFate]) -> tuple[FrameFate, ...]:
    """Return each function once: as given up if it was in any run."""
    found: dict[tuple[str, int], FrameFate] = {}
    for frame in frames:
        known = found.get((frame.path, frame.line), frame)
        found[frame.path, frame.line] = max(known, frame, key=lambda f: FATES.index(f.fate))
    return tuple(found.values())
