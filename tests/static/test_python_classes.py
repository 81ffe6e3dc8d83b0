"""Python's own classes: what is said of a value is what `isinstance` says of a real one."""

from __future__ import annotations

import builtins
import collections
import collections.abc
import functools
import numbers
import typing

import pytest
from tcready.static.domain.values import UNKNOWN, Const, Mapping, Plain, Sequence, Tensor, Value
from tcready.static.library.python_classes import is_object_of, python_class

NAMES = (
    *(f"collections.abc.{name}" for name in collections.abc.__all__),
    *(f"numbers.{name}" for name in ("Number", "Complex", "Real", "Rational", "Integral")),
    *(f"typing.{name}" for name in ("List", "Dict", "Tuple", "Set", "Mapping", "Iterable", "Callable", "OrderedDict")),
    *("collections.OrderedDict", "collections.deque", "collections.Counter", "int", "list", "dict", "object"),
)  # fmt: skip
MODULES = {"collections.abc": collections.abc, "numbers": numbers, "typing": typing, "collections": collections}


def _real(name: str) -> typing.Any:
    module, _, last = name.rpartition(".")
    return getattr(MODULES[module], last) if module else getattr(builtins, last)


VALUES: tuple[tuple[str, Value, tuple[object, ...]], ...] = (
    ("list or tuple", Sequence("list", None, UNKNOWN), ([1], (1,))),
    ("set", Sequence("set", None, UNKNOWN), ({1},)),
    ("dict", Mapping((), UNKNOWN), ({}, collections.OrderedDict())),
    ("number", Const(2), (2,)),
    ("text", Plain("str"), ("a",)),
)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_holds_of_real_objects(name: str) -> None:
    cls = python_class(name)
    assert cls is not None
    for label, value, objects in VALUES:
        answer = is_object_of(value, cls)
        found = {isinstance(each, _real(name)) for each in objects}
        assert answer == (found.pop() if len(found) == 1 else None), label


def test_what_is_said_of_a_tensor_holds_of_a_real_one() -> None:
    torch = pytest.importorskip("torch")
    known = [(name, python_class(name)) for name in NAMES if name != "collections.abc.Buffer"]
    said = {name: is_object_of(Tensor(), cls) for name, cls in known if cls is not None}
    assert said == {name: isinstance(torch.ones(2), _real(name)) for name in said}
    assert {said["collections.abc.Iterable"], said["collections.abc.Sequence"]} == {True, False}


@pytest.mark.parametrize(
    "name", ["torch.Tensor", "typing.Any", "typing.Union", "collections.namedtuple", "nothing", "a.b"]
)
def test_what_is_no_class_of_python_is_none(name: str) -> None:
    assert python_class(name) is None


def test_what_is_not_known_is_left_open() -> None:
    cls = functools.partial(is_object_of, cls=collections.abc.Mapping)
    assert cls(UNKNOWN) is None
    assert cls(Plain()) is None
