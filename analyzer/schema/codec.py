"""The only way in and out of JSON."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union

from tcready.schema.words import TcreadyError


def json_name(field: dataclasses.Field[Any]) -> str:
    """The key of a field in JSON: its name, or what its metadata says under `json`."""
    return str(field.metadata.get("json", field.name))


def as_json(value: Any) -> Any:
    """The plain JSON value (dicts, lists, scalars) of any value of this package."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {json_name(f): as_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
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
def _fields(kind: type) -> tuple[tuple[str, str, Any, bool], ...]:
    hints = typing.get_type_hints(kind)
    missing = dataclasses.MISSING
    return tuple(
        (f.name, json_name(f), hints[f.name], f.default is missing and f.default_factory is missing)
        for f in dataclasses.fields(kind)
    )


def _read(hint: Any, data: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if dataclasses.is_dataclass(hint):
        if not isinstance(data, Mapping):
            raise TcreadyError(f"{where}: expected an object, found {type(data).__name__}")
        values = {}
        for name, key, field_hint, required in _fields(typing.cast(type, hint)):
            if key in data:
                values[name] = _read(field_hint, data[key], f"{where}.{key}")
            elif required:
                raise TcreadyError(f"{where}.{key} is missing")
        return typing.cast(Any, hint)(**values)
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
