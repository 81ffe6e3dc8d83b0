"""Frozen dataclasses that are quick to define and to create.

The standard library compiles six methods for each frozen dataclass. A check with all results in the cache defines
seventy classes and does little else: these methods took 27 of its 120 ms (measured with Python 3.11). Here a class
compiles its `__init__` and shares everything that need not be quick. With `slots`, for values that are created by the
million, it also compiles comparison and hashing.

The standard library's `__init__` sets each field through `object.__setattr__`; ours takes half the time. All else is as
in `dataclasses`: `fields`, `replace`, comparing and hashing by the fields that request it, `FrozenInstanceError`. No
field may begin with an underscore and one of our names (`_missing`, `_set_`, `_make_`, `_default_`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool, slots: bool = False, eq: bool = True) -> Callable[[type], Any]:
        """Return `dataclasses.dataclass(frozen=True)`.

        Raises ValueError for a class that is not frozen, and TypeError for fields that the methods here do not support:
        use the standard library for those.
        """
        if not frozen:
            raise ValueError("tcready.schema.value_class.dataclass is for frozen classes: take dataclasses.dataclass")
        return (lambda cls: _slotted(cls, eq)) if slots else (lambda cls: _shared(cls, eq))


class _Frozen:
    """Methods that all classes share."""

    __dataclass_fields__: dict[str, Any]

    def __setattr__(self, name: str, value: Any) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __repr__(self) -> str:
        shown = (f"{f.name}={getattr(self, f.name)!r}" for f in self.__dataclass_fields__.values() if f.repr)
        return f"{self.__class__.__qualname__}({', '.join(shown)})"


class _Compared:
    """Methods for classes that are compared by their fields, and need not be quick at it."""

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _compared(self) == _compared(other)

    def __hash__(self) -> int:
        return hash(_compared(self))


class _Slotted:
    """Pickling and copying of values with slots."""

    __dataclass_fields__: dict[str, Any]

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)


def _shared(cls: type, eq: bool) -> Any:
    # a class with an `__eq__` of its own has `__hash__ = None`
    own = {name for name, value in vars(cls).items() if value is not None}
    made: Any = dataclasses.dataclass(init=False, eq=False, repr=False)(cls)
    fields = _fields(made)
    if not all(field.init for field in fields):
        raise TypeError(f"{cls.__qualname__}: take dataclasses.dataclass, or slots, for init=False")
    _fill(made, _Frozen, own)
    if eq:
        _fill(made, _Compared, own)
    made.__init__ = _initialiser(made, fields, "self.__dict__[{0!r}] = {1}", {})
    return made


def _slotted(cls: type, eq: bool) -> Any:
    own = {name for name, value in vars(cls).items() if value is not None}
    hashed = eq and "__hash__" not in own
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=eq, unsafe_hash=hashed, slots=True)(cls)
    _fill(made, _Frozen, own)
    _fill(made, _Slotted, own)
    fields = _fields(made)
    setters = {f"_set_{field.name}": getattr(made, field.name).__set__ for field in fields}
    made.__init__ = _initialiser(made, fields, "_set_{0}(self, {1})", setters)
    return made


def _fill(made: Any, source: type, own: set[str]) -> None:
    """Give a class those methods of another that it does not define."""
    for name, method in vars(source).items():
        if callable(method) and name not in own:
            setattr(made, name, method)


def _fields(made: Any) -> list[dataclasses.Field[Any]]:
    """Return the fields of a class. Raises TypeError for a field that the methods here do not support."""
    every = made.__dataclass_fields__.values()
    if len(dataclasses.fields(made)) < len(every) or any(f.hash is not None or f.kw_only for f in every):
        raise TypeError(f"{made.__qualname__}: take dataclasses.dataclass for ClassVar, InitVar, hash= and kw_only=")
    return [*every]


def _initialiser(made: Any, fields: list[dataclasses.Field[Any]], setting: str, names: dict[str, Any]) -> Any:
    """Return the `__init__` of a class, which sets each field with `setting`: {0} its name, {1} its value."""
    scope = {**names, "_missing": dataclasses.MISSING}
    parameters, body = ["self"], []
    for field in fields:
        name, value = field.name, field.name
        if field.default is not dataclasses.MISSING:
            scope[f"_default_{name}"] = field.default
            parameter, alone = f"{name}=_default_{name}", f"_default_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            scope[f"_make_{name}"] = field.default_factory
            parameter, alone = f"{name}=_missing", f"_make_{name}()"
            value = f"{alone} if {name} is _missing else {name}"
        else:
            parameter, alone = name, ""
        if field.init:
            parameters.append(parameter)
            body.append(setting.format(name, value))
        elif alone:
            body.append(setting.format(name, alone))
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    lines = "\n    ".join(body or ["pass"])
    exec(f"def __init__({', '.join(parameters)}):\n    {lines}", scope)  # noqa: S102 - as dataclasses does it
    scope["__init__"].__qualname__ = f"{made.__qualname__}.__init__"
    return scope["__init__"]


def _compared(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, f.name) for f in value.__dataclass_fields__.values() if f.compare)
