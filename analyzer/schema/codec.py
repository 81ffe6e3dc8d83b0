"""Conversion to and from JSON.

A value is an object with a key for each field. The metadata of a field may specify otherwise, under `json`: another
key, or FLAT, which merges the keys of its value into those of its owner, without those named under `omit`. A class with
`to_json` and `of_json` is a string that it converts itself.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import pkgutil
import reprlib
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, Union

from tcready import schema
from tcready.schema.enums import TcreadyError
from tcready.schema.migrations import COMPLETED

FLAT = "*"
"""Under `json` in a field's metadata: no key for the field itself."""
_SCALARS = frozenset({str, int, float, bool, type(None)})


def json_name(field: dataclasses.Field[Any]) -> str:
    """Return the key of a field in JSON: its name, or the one in its metadata under `json`."""
    return str(field.metadata.get("json", field.name))


def omitted(field: dataclasses.Field[Any]) -> tuple[str, ...]:
    """Return the keys of the value in a flat field that its owner leaves out."""
    return tuple(field.metadata.get("omit", ()))


def as_json(value: Any) -> Any:
    """Convert any value of this package to plain JSON (dicts, lists, scalars)."""
    if type(value) in _SCALARS:  # most are: a report of many models has a million
        return value
    if isinstance(value, (tuple, list)):
        return [as_json(item) for item in value]
    kind: type = type(value)
    keys = _keys(kind)
    if keys is not None:
        found: dict[str, Any] = {}
        for name, key, left_out in keys:
            inner = as_json(getattr(value, name))
            if key == FLAT:
                found |= {each: item for each, item in inner.items() if each not in left_out}
            else:
                found[key] = inner
        return found
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    return value


@functools.cache
def _keys(kind: type) -> tuple[tuple[str, str, tuple[str, ...]], ...] | None:
    """Return the fields of a dataclass, their keys and the omitted ones of flat fields; None for classes that
    convert themselves, and for other types."""
    if hasattr(kind, "to_json") or not dataclasses.is_dataclass(kind):
        return None
    return tuple((field.name, json_name(field), omitted(field)) for field in dataclasses.fields(kind))


def finite(value: Any) -> Any:
    """Replace not-a-number and infinity by null, because JSON cannot represent them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [finite(item) for item in value]
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    return value


T = TypeVar("T")


def from_json(kind: type[T], data: Any) -> T:
    """Return the value of dataclass `kind` that `as_json` turned into `data`; unknown fields are dropped.

    Raises TcreadyError with the name of the field if `data` does not fit.
    """
    return typing.cast(T, _reader(typing.cast(Any, kind))(data, kind.__name__))


_Reader = Callable[[Any, str], Any]
"""Called with the data of a value and its location."""


@functools.cache
def all_names() -> dict[str, Any]:
    """Return the names that the files of this package define."""
    files = [f"{schema.__name__}.{file.name}" for file in pkgutil.iter_modules(schema.__path__)]
    known = [vars(importlib.import_module(file)) for file in files]
    return {name: value for names in known for name, value in names.items() if not name.startswith("_")}


@functools.cache
def _fields(kind: type) -> tuple[tuple[dataclasses.Field[Any], str, _Reader, bool], ...]:
    """Return each field of a dataclass, its key, its reader, and whether it is required."""
    try:
        hints = typing.get_type_hints(kind)
    except NameError:  # a module may import what its fields are for type checkers alone
        hints = typing.get_type_hints(kind, localns=all_names())
    missing = dataclasses.MISSING
    return tuple(
        (f, json_name(f), _reader(hints[f.name]), f.default is missing and f.default_factory is missing)
        for f in dataclasses.fields(kind)
    )


def _dataclass(kind: type, data: Any, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise _unexpected(where, "an object", data)
    if kind.__name__ in COMPLETED:
        data = COMPLETED[kind.__name__](data)
    values = {}
    for field, key, read, required in _fields(kind):
        if key == FLAT:
            left_out = omitted(field)
            values[field.name] = read({k: item for k, item in data.items() if k not in left_out}, where)
        elif key in data:
            values[field.name] = read(data[key], f"{where}.{key}")
        elif required:
            raise TcreadyError(f"{where}.{key} is missing")
    return kind(**values)


@functools.cache
def _reader(hint: Any) -> _Reader:
    """Return the reader for values of a type."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hasattr(hint, "of_json"):
        return lambda data, where: hint.of_json(_plain(str, data, where))
    if dataclasses.is_dataclass(hint):
        return functools.partial(_dataclass, typing.cast(type, hint))
    if hint is Any:
        return lambda data, _where: data
    if origin in (Union, types.UnionType):
        first, *others = [option for option in args if option is not type(None)]
        inner = _reader(first)
        as_it_is = (str, type(None)) if str in others else type(None)
        return lambda data, where: data if isinstance(data, as_it_is) else inner(data, where)
    if origin is Literal:
        return functools.partial(_word, args)
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return functools.partial(_items, _reader(args[0]))
        return functools.partial(_row, tuple(map(_reader, args)))
    if origin is Mapping or hint is Mapping:
        return functools.partial(_mapping, _reader((*args, Any, Any)[1]))
    if hint is float:
        return _number
    if isinstance(hint, type):
        return functools.partial(_plain, hint)
    raise TypeError(f"no reader for {hint!r}")


def _unexpected(where: str, expected: str, data: Any) -> TcreadyError:
    return TcreadyError(f"{where}: expected {expected}, found {type(data).__name__}")


def _word(words: tuple[Any, ...], data: Any, where: str) -> Any:
    if data not in words:
        raise TcreadyError(f"{where}: {reprlib.repr(data)} is not one of {', '.join(map(str, words))}")
    return data


def _items(read: _Reader, data: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(data, (list, tuple)):
        raise _unexpected(where, "a list", data)
    return tuple([read(item, where) for item in data])


def _row(readers: tuple[_Reader, ...], data: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(data, (list, tuple)):
        raise _unexpected(where, "a list", data)
    if len(readers) != len(data):
        raise TcreadyError(f"{where}: expected {len(readers)} items, found {len(data)}")
    return tuple([read(item, where) for read, item in zip(readers, data, strict=True)])


def _mapping(read: _Reader, data: Any, where: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise _unexpected(where, "an object", data)
    return {key: read(value, f"{where}.{key}") for key, value in data.items()}


def _number(data: Any, where: str) -> float:
    if isinstance(data, bool) or not isinstance(data, (int, float)):
        raise _unexpected(where, "a number", data)
    try:
        return float(data)
    except OverflowError:
        raise TcreadyError(f"{where}: the number is too large") from None


def _plain(kind: type, data: Any, where: str) -> Any:
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise _unexpected(where, kind.__name__, data)
    return data
