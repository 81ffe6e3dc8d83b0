"""The effect of a break on the functions around it."""

from __future__ import annotations

from collections.abc import Iterable

from tcready.schema.frozen import dataclass
from tcready.schema.words import FATES, Fate


@dataclass(frozen=True)
class FrameFate:
    """What a break does to one function. `line` is the first of its code, decorators included.

    `split`: it is compiled up to the break, or up to the call that leads there, and again from there on.
    `whole_frame`: Dynamo gives all of it up, or all that is left; what it calls may still be compiled.
    `not_compiled`: Dynamo never compiles it by itself, break or no break.
    """

    path: str
    line: int
    symbol: str
    fate: Fate
    because: str | None = None
    """What decides that it is no split: the statement around the break or the call (`for`, `while`, `try`,
    `with`), `iterator`, `generator`, `property`, `checkpoint`, `no tensor`, or `construct`: the break itself."""


@dataclass(frozen=True)
class BreakEffect:
    """What a break does to the functions around it, as the source predicts it and as runs showed it."""

    frame: FrameFate
    """The function that contains the break."""
    above: tuple[FrameFate, ...] = ()
    """Every function on a call path from a compiled entry down to it, outermost first."""
    levels: int = 1
    """Compiled functions on the shortest call path, including this one: the break occurs at least once in each of them.
    Functions that nested graph breaks split together count as one."""
    chains: int = 1
    """The number of distinct call paths. Two paths are the same if they have the same functions."""
    seen: tuple[FrameFate, ...] = ()
    """What runs showed for this break; empty if none did."""


def worst_fates(frames: Iterable[FrameFate]) -> tuple[FrameFate, ...]:
    """Each function once: one that was ever given up counts as that."""
    found: dict[tuple[str, int], FrameFate] = {}
    for frame in frames:
        known = found.get((frame.path, frame.line), frame)
        found[frame.path, frame.line] = max(known, frame, key=lambda f: FATES.index(f.fate))
    return tuple(found.values())
