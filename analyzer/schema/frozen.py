"""Frozen dataclasses that are quick to define.

The standard library compiles six methods for each frozen dataclass. A check that finds its answers in the cache defines
seventy classes and does little else: these methods took 27 of its 120 ms (measured with Python 3.11). Here a class
compiles its `__init__` alone and shares the other methods with all others.

A value is set once, as its `__init__` sets it. All else is as `dataclasses` has it: `fields`, `replace`, comparing and
hashing by the fields that say so, `FrozenInstanceError`. For values that are made by the million, take the standard
library's, with slots.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool) -> Any:
        """`dataclasses.dataclass(frozen=True)`.

        Raises ValueError for what is not frozen, and TypeError for fields that the shared methods do not know: those are
        the standard library's.
        """
        if not frozen:
            raise ValueError(
                "tcready.schema.frozen.dataclass is for frozen classes: take dataclasses.dataclass"
            )
        return _frozen


class _Shared:
    """The methods that all classes share."""

    __dataclass_fields__: dict[str, Any]

    def __setattr__(self, name: str, value: Any) -> None:
        values = vars(self)
        if name in values or name not in self.__dataclass_fields__:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        values[name] = value

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _compared(self) == _compared(other)

    def __hash__(self) -> int:
        return hash(_compared(self))

    def __repr__(self) -> str:
        shown = (f"{f.name}={getattr(self, f.name)!r}" for f in self.__dataclass_fields__.values() if f.repr)
        return f"{self.__class__.__qualname__}({', '.join(shown)})"


SHARED = ("__setattr__", "__delattr__", "__eq__", "__hash__", "__repr__")


def _frozen(cls: type) -> Any:
    # a class with an `__eq__` of its own has `__hash__ = None`
    own = {name for name, value in vars(cls).items() if value is not None}
    made: Any = dataclasses.dataclass(eq=False, repr=False)(cls)
    every = made.__dataclass_fields__
    if len(dataclasses.fields(made)) < len(every) or any(
        f.hash is not None or not f.init for f in every.values()
    ):
        raise TypeError(
            f"{cls.__qualname__}: take dataclasses.dataclass for ClassVar, InitVar, hash= and init=False"
        )
    for name in SHARED:
        if name not in own:
            setattr(made, name, vars(_Shared)[name])
    return made


def _compared(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, f.name) for f in value.__dataclass_fields__.values() if f.compare)
