"""Laws of the lattice: the join of values, and of environments, does not depend on order, grouping or repetition."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tcready.static.domain.scope import Env, join_envs
from tcready.static.domain.values import (
    NONE,
    TAINTED,
    UNKNOWN,
    Choice,
    Const,
    External,
    ExternalInstance,
    Mapping,
    Plain,
    Sequence,
    Tensor,
    Value,
    join,
    prefer,
)

TENSORS = st.builds(
    Tensor, st.sampled_from([None, "bool", "int", "float"]), st.booleans(), st.booleans(), st.booleans(), st.booleans()
)
CONSTANTS = st.sampled_from([NONE, Const(True), Const(0), Const(1), Const(1.0), Const("a")])
PLAINS = st.builds(
    Plain,
    st.sampled_from([None, "int", "float", "bool", "str"]),
    st.sampled_from(["tensor", "shape", "config", "drawn", "random", "call"]),
)
OBJECTS = st.sampled_from([External("print"), ExternalInstance("logging.Logger"), ExternalInstance("m.C", 3)])
UNKNOWNS = st.sampled_from([UNKNOWN, TAINTED])
SIMPLE = st.one_of(TENSORS, CONSTANTS, PLAINS, OBJECTS, UNKNOWNS)


def sequences(inner: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    kinds = st.sampled_from(["list", "tuple", "set", "iterator"])
    known = st.builds(Sequence, kinds, st.lists(inner, max_size=4).map(tuple), st.just(UNKNOWN), st.booleans())
    return st.one_of(known, st.builds(Sequence, kinds, st.none(), inner, st.booleans()))


def mappings(inner: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    entries = st.dictionaries(st.sampled_from(["a", "b", 1]), inner, max_size=3)
    return st.builds(
        Mapping, entries.map(lambda d: tuple(d.items())), st.one_of(st.none(), inner), st.booleans(), st.booleans()
    )


def single(depth: int = 2) -> st.SearchStrategy[Value]:
    """Values that are no choice."""
    if not depth:
        return SIMPLE
    return st.one_of(SIMPLE, sequences(single(depth - 1)), mappings(single(depth - 1)))


def several(inner: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    """A value, or one of several."""
    return st.one_of(inner, st.lists(inner, min_size=2, max_size=3).map(lambda found: join(*found)))


def preferred(inner: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    """A value, or one that is likely among others."""
    return st.one_of(inner, st.tuples(inner, inner).map(lambda pair: prefer(*pair)))


def normal(value: Value) -> object:
    """A value without the order of its alternatives."""
    if isinstance(value, Choice):
        first = frozenset(normal(v) for v in value.options[: value.likely])
        return "choice", first, frozenset(normal(v) for v in value.options[value.likely :])
    if isinstance(value, Sequence):
        items = None if value.items is None else tuple(map(normal, value.items))
        return "sequence", value.kind, items, normal(value.element), value.escaping
    if isinstance(value, Mapping):
        entries = frozenset((type(key), key, normal(item)) for key, item in value.entries)
        element = None if value.element is None else normal(value.element)
        return "mapping", entries, element, value.escaping, value.extra
    return value


def environments(values: st.SearchStrategy[Value]) -> st.SearchStrategy[dict[str, Value] | None]:
    return st.one_of(st.none(), st.dictionaries(st.sampled_from(["x", "y", "x.a"]), values, max_size=3))


LAWFUL = several(single(2))
LAWS = settings(max_examples=150, deadline=None)


@LAWS
@given(LAWFUL, LAWFUL)
def test_the_join_of_values_is_commutative(a: Value, b: Value) -> None:
    assert normal(join(a, b)) == normal(join(b, a))


@LAWS
@given(LAWFUL, LAWFUL, LAWFUL)
def test_the_join_of_values_is_associative(a: Value, b: Value, c: Value) -> None:
    assert normal(join(join(a, b), c)) == normal(join(a, join(b, c)))


@LAWS
@given(LAWFUL)
def test_the_join_of_a_value_with_itself_is_that_value(a: Value) -> None:
    assert normal(join(a, a)) == normal(a)


@LAWS
@given(preferred(single(1)), preferred(single(1)), preferred(single(1)))
def test_with_likely_values_it_is_commutative_and_associative(a: Value, b: Value, c: Value) -> None:
    assert normal(join(a, b)) == normal(join(b, a))
    assert normal(join(join(a, b), c)) == normal(join(a, join(b, c)))


@LAWS
@given(environments(LAWFUL), environments(LAWFUL), environments(LAWFUL))
def test_the_join_of_environments_follows_the_same_laws(a: Env | None, b: Env | None, c: Env | None) -> None:
    assert normal_env(join_envs(a, b)) == normal_env(join_envs(b, a))
    assert normal_env(join_envs(join_envs(a, b), c)) == normal_env(join_envs(a, join_envs(b, c)))
    assert normal_env(join_envs(a, a)) == normal_env(a)


def normal_env(env: Env | None) -> dict[str, object] | None:
    return None if env is None else {name: normal(value) for name, value in env.items()}


@LAWS
@given(LAWFUL, LAWFUL)
def test_nothing_is_lost(a: Value, b: Value) -> None:
    """What both values are joined to holds each of them: joining one of them again adds nothing."""
    both = join(a, b)
    assert normal(join(both, a)) == normal(both) == normal(join(both, b))


def objects(count: int) -> list[Value]:
    return [External(f"m.f{number}") for number in range(count)]


ONE, ZERO = Const(1), Const(0)
SHAPE = Plain(None, "shape")
PAIR, TRIPLE = (Sequence("tuple", (NONE,) * count, UNKNOWN) for count in (1, 2))
LIST = Sequence("list", (), UNKNOWN)
ONCE_UNLAWFUL = {
    "constants and a size": (ONE, ZERO, SHAPE),
    "tuples of two lengths and a list": (PAIR, TRIPLE, LIST),
    "tuples of two lengths and one of any": (PAIR, TRIPLE, Sequence("tuple", None, Tensor())),
    "more than eight objects": (join(*objects(8)), External("m.more"), External("m.last")),
}


@pytest.mark.parametrize("values", ONCE_UNLAWFUL.values(), ids=ONCE_UNLAWFUL)
def test_groups_of_values_are_joined_alike(values: tuple[Value, Value, Value]) -> None:
    a, b, c = values
    assert normal(join(join(a, b), c)) == normal(join(a, join(b, c)))


def test_a_size_among_constants_is_still_a_size() -> None:
    assert join(ONE, ZERO, SHAPE) == SHAPE


def test_lists_whose_members_are_constants_and_sizes() -> None:
    tensor = Tensor()
    one, other = Sequence("list", (tensor, SHAPE, tensor), UNKNOWN), Sequence("list", (ONE, ZERO), UNKNOWN)
    assert normal(join(one, other)) == normal(join(other, one))


@pytest.mark.parametrize("pair", [(ONE, ZERO), (Tensor(), Tensor(buffer=True))], ids=["constants", "tensors"])
def test_a_likely_value_joined_with_itself(pair: tuple[Value, Value]) -> None:
    value = prefer(*pair)
    assert normal(join(value, value)) == normal(value)
