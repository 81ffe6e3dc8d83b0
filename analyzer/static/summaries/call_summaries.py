"""Record the results of compiled calls, for reuse after an edit (`engine/again`)."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TypeAlias

from tcready.static.domain.heap import Object
from tcready.static.domain.values import Value
from tcready.static.frontend.index import ClassInfo, FunctionInfo

Switch: TypeAlias = "tuple[ClassInfo, str, Value]"
"""An attribute of a class and what it was set to."""


@dataclass(slots=True)
class Met:
    """A context as it was met, and what came of it."""

    situation_key: tuple[object, ...]
    """The function, its arguments, and the enclosing scope."""
    around: tuple[object, ...]
    caller: tuple[object, ...]
    function: FunctionInfo | None
    node: ast.AST | None
    """The tree of the function then."""
    elsewhere: int
    gave: Value | None = None
    switched: frozenset[Switch] = frozenset()
    end: int = 0
    """The number of contexts when it was done."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The length of each list of a log."""

    facts: int
    reads: int
    idents: int
    calls: int
    gaps: int
    marked: int
    names: int
    edges: int
    closures: int
    used: int
    generic: int


@dataclass(frozen=True, slots=True)
class EntryState:
    """The state at the start of a compiled call."""

    marks: Marks
    objects: int
    """The number of objects."""
    outside: int
    unnamed: int
    """Changes that were of no attribute."""
    attributes: int
    """Changes of attributes."""
    others: tuple[int, int]
    """The other changes."""


@dataclass(frozen=True, slots=True)
class SummaryStep:
    """A compiled call that can be found again: contexts from `first` on, before `end`."""

    first: int
    end: int
    objects: int
    """The number of objects before it."""
    since: Marks
    until: Marks
    seen: tuple[tuple[int, Object], ...]
    """The objects that were there before and that it looked at, as they were."""
    made: tuple[tuple[int, Object], ...]
    """Those that it made, as it left them."""
