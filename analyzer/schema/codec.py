"""The only way in and out of JSON.

A value is an object with a key for each field. A field may say otherwise in its metadata, under `json`: another key, or
FLAT, and then the keys of the value it holds stand among those of its owner, without those named under `omit`. A class
with `to_json` and `of_json` is a string that it makes and reads itself.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union

from tcready.schema.older import COMPLETED
from tcready.schema.words import TcreadyError

FLAT = "*"
"""Under `json` in a field's metadata: no key of its own."""


def json_name(field: dataclasses.Field[Any]) -> str:
    """The key of a field in JSON: its name, or what its metadata says under `json`."""
    return str(field.metadata.get("json", field.name))


def omitted(field: dataclasses.Field[Any]) -> tuple[str, ...]:
    """The keys of the value in a flat field that its owner leaves out."""
    return tuple(field.metadata.get("omit", ()))


def as_json(value: Any) -> Any:
    """The plain JSON value (dicts, lists, scalars) of any value of this package."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found: dict[str, Any] = {}
        for field in dataclasses.fields(value):
            inner = as_json(getattr(value, field.name))
            if json_name(field) == FLAT:
                found |= {key: item for key, item in inner.items() if key not in omitted(field)}
            else:
                found[json_name(field)] = inner
        return found
    if isinstance(value, (tuple, list)):
        return [as_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    return value


T = TypeVar("T")


def from_json(kind: type[T], data: Any) -> T:
    """The value of dataclass `kind` that `as_json` turned into `data`; fields it does not know are dropped.

    Raises TcreadyError naming the field where `data` does not fit.
    """
    return typing.cast(T, _read(kind, data, kind.__name__))


@functools.cache
def _fields(kind: type) -> tuple[tuple[dataclasses.Field[Any], Any, bool], ...]:
    hints = typing.get_type_hints(kind)
    missing = dataclasses.MISSING
    return tuple(
        (f, hints[f.name], f.default is missing and f.default_factory is missing)
        for f in dataclasses.fields(kind)
    )


def _dataclass(kind: type, data: Any, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise TcreadyError(f"{where}: expected an object, found {type(data).__name__}")
    if kind.__name__ in COMPLETED:
        data = COMPLETED[kind.__name__](data)
    values = {}
    for field, hint, required in _fields(kind):
        key = json_name(field)
        if key == FLAT:
            values[field.name] = _read(
                hint, {name: item for name, item in data.items() if name not in omitted(field)}, where
            )
        elif key in data:
            values[field.name] = _read(hint, data[key], f"{where}.{key}")
        elif required:
            raise TcreadyError(f"{where}.{key} is missing")
    return kind(**values)


def _read(hint: Any, data: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if hasattr(hint, "of_json"):
        return hint.of_json(_read(str, data, where))
    if dataclasses.is_dataclass(hint):
        return _dataclass(typing.cast(type, hint), data, where)
    if hint is Any:
        return data
    if origin in (Union, types.UnionType):
        if data is None:
            return None
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        return _read(options[0], data, where)
    if origin is Literal:
        if data not in typing.get_args(hint):
            raise TcreadyError(
                f"{where}: {data!r} is not one of {', '.join(map(str, typing.get_args(hint)))}"
            )
        return data
    if origin is tuple:
        if not isinstance(data, (list, tuple)):
            raise TcreadyError(f"{where}: expected a list, found {type(data).__name__}")
        args = typing.get_args(hint)
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_read(args[0], item, where) for item in data)
        if len(args) != len(data):
            raise TcreadyError(f"{where}: expected {len(args)} items, found {len(data)}")
        return tuple(_read(arg, item, where) for arg, item in zip(args, data, strict=True))
    if origin is Mapping or hint is Mapping:
        if not isinstance(data, Mapping):
            raise TcreadyError(f"{where}: expected an object, found {type(data).__name__}")
        inner = (*typing.get_args(hint), Any, Any)[1]
        return {key: _read(inner, value, f"{where}.{key}") for key, value in data.items()}
    if hint is float:
        if isinstance(data, bool) or not isinstance(data, (int, float)):
            raise TcreadyError(f"{where}: expected a number, found {type(data).__name__}")
        return float(data)
    if isinstance(hint, type):
        if not isinstance(data, hint) or (hint is int and isinstance(data, bool)):
            raise TcreadyError(f"{where}: expected {hint.__name__}, found {type(data).__name__}")
        return data
    raise TypeError(f"{where}: no reader for {hint!r}")
