"""Frozen classes that share their methods do what those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field
from typing import ClassVar

import pytest
from tcready.schema.static import Finding
from tcready.schema.value_class import dataclass


@dataclass(frozen=True)
class Ours:
    """Of tcready."""

    number: int
    names: tuple[str, ...] = ()
    seen: list[int] = field(default_factory=list, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Slotted:
    """Of tcready, with slots."""

    number: int
    names: tuple[str, ...] = ()
    seen: list[int] = field(default_factory=list, compare=False, repr=False)
    twice: int = field(init=False, compare=False, repr=False)
    fixed: int = field(init=False, default=3)

    def __post_init__(self) -> None:
        object.__setattr__(self, "twice", 2 * self.number)


@dataclass(frozen=True, slots=True, eq=False)
class Apart:
    """One that is equal to itself alone."""

    number: int = 1


@dataclass(frozen=True)
class Wider(Ours):
    """One that inherits fields."""

    more: int = 0

    def __hash__(self) -> int:
        return 7


@dataclasses.dataclass(frozen=True)
class Theirs:
    """Of the standard library."""

    number: int
    names: tuple[str, ...] = ()
    seen: list[int] = field(default_factory=list, compare=False, repr=False)


def test_fields_are_compared_hashed_and_shown_as_by_dataclasses() -> None:
    assert Ours(1, ("a",)) == Ours(1, ("a",), seen=[3])
    assert Ours(1) != Ours(2)
    assert Ours(1) != Theirs(1)
    assert Ours(1) != Wider(1)
    assert Wider(1, more=1) != Wider(1)
    assert hash(Ours(1, ("a",))) == hash(Theirs(1, ("a",)))
    assert hash(Wider(1)) == 7
    assert repr(Ours(1, ("a",))) == repr(Theirs(1, ("a",))).replace("Theirs", "Ours")


def test_values_with_slots_are_too() -> None:
    made = Slotted(1, names=("a",), seen=[3])
    assert (made.number, made.names, made.seen, made.twice, made.fixed) == (1, ("a",), [3], 2, 3)
    assert Slotted(1).seen is not Slotted(1).seen
    assert made == Slotted(1, ("a",)) != Slotted(2, ("a",))
    assert hash(made) == hash(Slotted(1, ("a",))) == hash((1, ("a",), 3))
    assert repr(made) == "Slotted(number=1, names=('a',), fixed=3)"
    assert not hasattr(made, "__dict__")
    assert copy.deepcopy(made) == made == pickle.loads(pickle.dumps(made))
    assert pickle.loads(pickle.dumps(made)).seen == [3]
    assert dataclasses.replace(made, number=2).twice == 4
    assert Apart() != Apart()
    assert len({Apart(), Apart()}) == 2
    for wrong in (lambda: Slotted(), lambda: Slotted(1, other=2), lambda: Slotted(1, (), [], 4)):
        with pytest.raises(TypeError):
            wrong()


@pytest.mark.parametrize("name", ["number", "other", "__class__"])
def test_a_value_is_set_once(name: str) -> None:
    for made in (Ours(1), Slotted(1), Theirs(1)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, name, 2)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(made, name)
        assert made.number == 1


def test_values_are_copied_replaced_and_pickled() -> None:
    made = Wider(1, ("a",), [3], 4)
    assert dataclasses.replace(made, number=2) == Wider(2, ("a",), [3], 4)
    assert copy.deepcopy(made) == made == pickle.loads(pickle.dumps(made))
    assert [each.name for each in dataclasses.fields(made)] == ["number", "names", "seen", "more"]
    assert dataclasses.asdict(made)["seen"] == [3]


def test_what_is_not_frozen_is_refused() -> None:
    with pytest.raises(ValueError, match=r"take dataclasses\.dataclass"):
        dataclass(frozen=False)


@pytest.mark.parametrize("kind", [ClassVar[int], dataclasses.InitVar[int]], ids=["ClassVar", "InitVar"])
def test_what_is_no_field_of_a_value_is_refused(kind: object) -> None:
    with pytest.raises(TypeError, match=r"take dataclasses\.dataclass"):
        dataclass(frozen=True)(type("Odd", (), {"__annotations__": {"a": kind}, "a": 1}))


def test_findings_are_frozen() -> None:
    assert Finding.__eq__ is Ours.__eq__
    with pytest.raises(TypeError, match="missing"):
        Finding()  # type: ignore[call-arg]
