"""Evaluate constants in the source, and built-in functions of constants."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from tcready.static.domain.values import (
    MAX_ITEMS,
    UNKNOWN,
    Const,
    Mapping,
    Plain,
    Sequence,
    Value,
    join,
    likely,
    may_change,
    prefer,
)

LONG = 1_000
"""Text, in characters, that is longer is not worked with: what is made of it may be longer by far."""
LARGE = 10**9
"""The same of numbers."""
AS_PYTHON: MappingProxyType[str, Callable[[list[Any]], Any]] = MappingProxyType({"tuple": tuple, "set": set})
"""The Python type of a row by its kind; a list if it is none of these."""


class _UnknownError(Exception):
    """It is not written out, or too large."""


class _Reading:
    """Turns values into Python objects, and knows whether any of them may be another."""

    def __init__(self) -> None:
        self.sure = True

    def __call__(self, value: Value) -> Any:
        """Raise _UnknownError."""
        usual = likely(value)
        self.sure = self.sure and usual is value
        if isinstance(usual, Const):
            return _small(usual.value)
        if isinstance(usual, Sequence) and usual.items is not None and len(usual.items) <= MAX_ITEMS:
            self.sure = self.sure and not may_change(usual)
            members = [self(each) for each in usual.items]
            return AS_PYTHON.get(usual.kind, list)(members)
        if isinstance(usual, Mapping) and usual.element is None and len(usual.entries) <= MAX_ITEMS:
            self.sure = self.sure and not may_change(usual)
            return {_small(key): self(each) for key, each in usual.entries}
        raise _UnknownError


def worked_out(function: Callable[..., object], *args: Value, **keywords: Value) -> Value | None:
    """Return the result of a pure Python function for literal values; None for others. The most likely arguments decide
    the most likely result."""
    reading = _Reading()
    try:
        given = [reading(each) for each in args]
        named = {name: reading(each) for name, each in keywords.items()}
        made = _value(function(*given, **named))
    except (_UnknownError, ArithmeticError, TypeError, ValueError, LookupError):
        return None
    return made if reading.sure else prefer(made, _vague(made))


def _small(value: object) -> Any:
    if isinstance(value, str):
        fits = len(value) <= LONG
    elif isinstance(value, int):
        fits = abs(value) <= LARGE
    else:
        fits = value is None or isinstance(value, float)
    if not fits:
        raise _UnknownError
    return value


def _value(made: object) -> Value:
    if isinstance(made, (list, tuple)) and len(made) <= MAX_ITEMS:
        items = tuple(map(_value, made))
        return Sequence("tuple" if isinstance(made, tuple) else "list", items, UNKNOWN)
    return Const(_small(made))


def _vague(value: Value) -> Value:
    """Any value of its sort."""
    if isinstance(value, Sequence):
        members = [_vague(each) for each in value.items or ()]
        return Sequence(value.kind, None, join(*members) if members else Plain())
    return Plain(type(value.value).__name__) if isinstance(value, Const) and value.value is not None else Plain()
