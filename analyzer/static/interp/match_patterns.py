"""Patterns of `match`: whether a value matches, and the names that it binds."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from functools import partial

from tcready.static.domain.folding import compared
from tcready.static.domain.scope import Frame
from tcready.static.domain.values import (
    UNKNOWN,
    Class,
    Const,
    Function,
    Mapping,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    join,
    lift,
    options,
    prefer,
    truth,
)
from tcready.static.interp.interfaces import Component

OF_ITSELF = frozenset(
    {"bool", "bytearray", "bytes", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple"}
)
"""Python's classes that take one positional pattern, for the object itself."""
SINGLE = frozenset({"bool", "int", "float", "complex", "str", "bytes", "dtype", "device", "layout"})
"""Kinds of values that fit no pattern of a sequence or of a mapping: text is no sequence there."""
FITS, DIFFERS = Const(True), Const(False)


class Matching(Component):
    """Patterns of `match`: whether a subject fits one, and what the names in it are then."""

    def fits(self, pattern: ast.pattern, subject: Value, frame: Frame) -> Value:
        """Return whether a subject fits a pattern, as a value to be tested for truth."""
        if isinstance(pattern, ast.MatchAs):
            return FITS if pattern.pattern is None else self.fits(pattern.pattern, subject, frame)
        if isinstance(pattern, ast.MatchOr):
            return _combine(any, [self.fits(each, subject, frame) for each in pattern.patterns])
        if isinstance(pattern, ast.MatchValue):
            value = self.engine.expressions.eval(pattern.value, frame)
            return self.engine.protocols.compare(ast.Eq(), subject, value, pattern.value, frame)
        if isinstance(pattern, ast.MatchSingleton):
            return lift(partial(compared, ast.Is()), subject, Const(pattern.value))
        return lift(lambda s: join(*(self._fits_one(pattern, option, frame) for option in options(s))), subject)

    def _fits_one(self, pattern: ast.pattern, subject: Value, frame: Frame) -> Value:
        """Return the same for a pattern with parts, and a value that is no Choice."""
        if isinstance(pattern, ast.MatchClass):
            answer = self.engine.truth.is_instance(subject, pattern.cls, frame)
        elif isinstance(pattern, ast.MatchSequence):
            answer = self._is_row(pattern, subject)
        elif isinstance(pattern, ast.MatchMapping):
            answer = self._has_keys(pattern, subject, frame)
        else:
            return FITS  # `*rest`
        if answer == DIFFERS:
            return answer
        parts = self._parts(pattern, subject, frame)
        return _combine(all, [answer, *(self.fits(part, value, frame) for part, value in parts)])

    def _is_row(self, pattern: ast.MatchSequence, subject: Value) -> Value:
        """Return whether a value is a sequence with as many members as the pattern has parts."""
        row = self.engine.records.row(subject) or subject
        if not isinstance(row, Sequence) or row.kind not in ("list", "tuple"):
            return _is_other(row, Mapping, Sequence)
        starred = any(isinstance(part, ast.MatchStar) for part in pattern.patterns)
        wanted = len(pattern.patterns) - starred
        if row.items is None:
            if starred and not wanted:
                return FITS
            of_sizes = isinstance(row.element, Plain) and row.element.origin == "shape"
            return Plain("bool", "shape" if of_sizes else "config")
        answer = Const(len(row.items) >= wanted if starred else len(row.items) == wanted)
        return prefer(answer, Plain("bool")) if row.escaping else answer

    def _has_keys(self, pattern: ast.MatchMapping, subject: Value, frame: Frame) -> Value:
        """Return whether a value is a mapping with the keys of the pattern."""
        if not isinstance(subject, Mapping):
            return _is_other(subject, Sequence)
        keys = (self.engine.expressions.eval(key, frame) for key in pattern.keys)
        return _combine(all, [lift(partial(compared, ast.In()), key, subject) for key in keys])

    def _parts(self, pattern: ast.pattern, subject: Value, frame: Frame) -> list[tuple[ast.pattern, Value]]:
        """Return the patterns inside a pattern, each with the part of a subject, fitting so far, that it is matched
        against."""
        if isinstance(pattern, ast.MatchSequence):
            return self._places(pattern, self.engine.records.row(subject) or subject)
        if isinstance(pattern, ast.MatchMapping):
            whole = subject if isinstance(subject, Mapping) else UNKNOWN
            keys = [(self.engine.expressions.eval(key, frame), key) for key in pattern.keys]
            values = [self.engine.containers.item_of(whole, key, node) for key, node in keys]
            return list(zip(pattern.patterns, values, strict=True))
        if isinstance(pattern, ast.MatchClass):
            named = zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True)
            cls = pattern.cls.id if isinstance(pattern.cls, ast.Name) else ""
            itself = subject if cls in OF_ITSELF and len(pattern.patterns) == 1 else UNKNOWN
            return [
                *((part, itself) for part in pattern.patterns),
                *((part, self.engine.attributes.attribute(subject, name, frame)) for name, part in named),
            ]
        if isinstance(pattern, ast.MatchAs):
            return [] if pattern.pattern is None else [(pattern.pattern, subject)]
        if isinstance(pattern, ast.MatchOr):
            return [(part, subject) for part in pattern.patterns]
        return []

    def _places(self, pattern: ast.MatchSequence, row: Value) -> list[tuple[ast.pattern, Value]]:
        """Return the parts of a sequence pattern, each with the member, or the members, that it matches."""
        parts = pattern.patterns
        if not isinstance(row, Sequence):
            return [(part, UNKNOWN) for part in parts]
        if row.items is None:
            several = Sequence("list", None, row.element)
            return [(part, several if isinstance(part, ast.MatchStar) else row.element) for part in parts]
        at = next((place for place, part in enumerate(parts) if isinstance(part, ast.MatchStar)), None)
        if at is None:
            return list(zip(parts, row.items, strict=False))
        behind = len(parts) - at - 1
        end = len(row.items) - behind
        members = (*row.items[:at], Sequence("list", row.items[at:end], UNKNOWN), *row.items[end:])
        return list(zip(parts, members, strict=False))

    def capture_names(self, pattern: ast.pattern, subject: Value, frame: Frame) -> dict[str, Value]:
        """Return the values that a pattern captures if a subject fits it."""
        names = {n for part in ast.walk(pattern) if isinstance(n := getattr(part, "name", None), str)}
        names |= {n for part in ast.walk(pattern) if isinstance(n := getattr(part, "rest", None), str)}
        with self.engine.outside_trace():
            return {name: lift(partial(self._class_of_name, pattern, name, frame), subject) for name in names}

    def _class_of_name(self, pattern: ast.pattern, name: str, frame: Frame, subject: Value) -> Value:
        fitting = [v for v in options(subject) if truth(self.fits(pattern, v, frame)) is not False]
        found = [v for option in fitting for v in self._bound(pattern, name, option, frame)]
        return join(*found) if found else UNKNOWN

    def _bound(self, pattern: ast.pattern, name: str, subject: Value, frame: Frame) -> list[Value]:
        """Return the value that a pattern binds to a name; several if alternatives are tried one after the other."""
        if isinstance(pattern, (ast.MatchAs, ast.MatchStar)) and pattern.name == name:
            return [subject]
        return [v for part, of in self._parts(pattern, subject, frame) for v in self._bound(part, name, of, frame)]


def _combine(how: Callable[[Iterable[object]], bool], answers: list[Value]) -> Value:
    """`all` or `any` of what is asked one after the other: what decides it, else what is left open."""

    def of(*values: Value) -> Value:
        known = [truth(value) for value in values]
        decided = [answer for answer in known if answer is not None]
        if len(decided) == len(known) or how(decided) is not how([]):
            return Const(how(decided))
        return join(*(value for value, answer in zip(values, known, strict=True) if answer is None))

    return lift(of, *answers)


def _is_other(value: Value, *kinds: type) -> Value:
    """Return False for a value that certainly does not fit a pattern: of these kinds, or of one without parts."""
    single = isinstance(value, Plain) and value.kind in SINGLE
    sure = isinstance(value, Tensor) and value.sure
    if single or sure or isinstance(value, (Const, Class, Function, *kinds)):
        return DIFFERS
    return value if isinstance(value, (Unknown, Plain)) else Plain("bool")
