"""Evaluate `isinstance` for Python's own classes."""

from __future__ import annotations

import builtins
import collections
import collections.abc
import numbers
import types
import typing
from functools import lru_cache

from tcready.static.domain.values import (
    LAZY,
    Class,
    Const,
    Function,
    Mapping,
    Method,
    Partial,
    Plain,
    Sequence,
    Tensor,
    Value,
)

MODULES: types.MappingProxyType[str, types.ModuleType] = types.MappingProxyType(
    {
        "": builtins,
        "collections": collections,
        "collections.abc": collections.abc,
        "numbers": numbers,
        "typing": typing,
        "typing_extensions": typing,
    }
)
"""Modules with abstract classes that test an object's methods, which this process may evaluate too."""
NUMBERS_AND_TEXT: types.MappingProxyType[str, type] = types.MappingProxyType(
    {cls.__name__: cls for cls in (bool, int, float, complex, str, bytes, slice, range)}
)
DICTS = (dict, collections.OrderedDict)
ROWS = (list, tuple)


class AsTensor:
    """Represents torch.Tensor: the methods that abstract classes require (torch 2.11 to 2.14 have these)."""

    def __iter__(self) -> None: ...
    def __len__(self) -> None: ...
    def __contains__(self, _: object) -> None: ...
    def __reversed__(self) -> None: ...
    def __hash__(self) -> int:
        return 0


@lru_cache(1024)
def python_class(name: str) -> type | None:
    """Return the class of a dotted name (`typing.Mapping` is `collections.abc.Mapping`); None if it is none of Python's
    own. Definitions of typing itself (`Any`, protocols) are no class of an object."""
    module, _, last = name.rpartition(".")
    found = getattr(MODULES.get(module), last, None)
    found = getattr(found, "__origin__", found) if module.startswith("typing") else found
    return found if isinstance(found, type) and found.__module__ != "typing" else None


def is_object_of(value: Value, cls: type) -> bool | None:
    """Return whether a value is an object of one of Python's classes; None if unknown."""
    possible = _classes_of(value)
    answers = {issubclass(each, cls) for each in possible}
    return answers.pop() if len(answers) == 1 else None


def _classes_of(value: Value) -> tuple[type, ...]:
    """Return the possible classes of a value; none if they are unknown."""
    if isinstance(value, Const):
        return (type(value.value),)
    if isinstance(value, Tensor):
        return (AsTensor,)
    if isinstance(value, Plain):
        known = NUMBERS_AND_TEXT.get(value.kind or "")
        return () if known is None else (known,)
    if isinstance(value, Mapping):
        return DICTS
    if isinstance(value, Sequence):
        if value.kind == "set":
            return (set,)
        # An annotation makes no difference between the two.
        return () if value.kind == "range" or value.kind in LAZY else ROWS
    if isinstance(value, Class):
        return (type,)
    return (types.FunctionType,) if isinstance(value, (Function, Partial, Method)) else ()
