"""Operators on values, folded where the source decides them: pure functions."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from tcready.static.domain.const_eval import worked_out
from tcready.static.domain.values import (
    DATA,
    MAX_ITEMS,
    NONE,
    TAINTED,
    UNKNOWN,
    Choice,
    Class,
    Const,
    External,
    ExternalInstance,
    Function,
    Instance,
    Mapping,
    Method,
    Module,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    holds_tensor,
    is_answer,
    is_compared_by_members,
    is_flag,
    is_key,
    is_open,
    is_word,
    join,
    join_members,
    keep,
    key_of,
    likely,
    members_of,
    options,
    prefer,
    tensor_of,
    whole,
)
from tcready.static.library import semantics as K  # noqa: N812
from tcready.static.library import shape_semantics

ENVIRONMENT = External("os.environ")
PLACES = re.compile("%s")
"""The positions at which `%` inserts a value unchanged."""
TYPES = frozenset({"bool", "int", "float", "complex", "str", "bytes", "list", "tuple", "dict", "set", "frozenset"})
"""Types of Python."""


OF_NUMBERS: MappingProxyType[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "Add": operator.add,
        "Sub": operator.sub,
        "Mult": operator.mul,
        "FloorDiv": operator.floordiv,
        "Mod": operator.mod,
        "Div": operator.truediv,
        "Pow": operator.pow,
        "LShift": operator.lshift,
        "RShift": operator.rshift,
        "BitAnd": operator.and_,
        "BitOr": operator.or_,
        "BitXor": operator.xor,
    }
)
ORDERS: MappingProxyType[type[ast.cmpop], Callable[[Any, Any], bool]] = MappingProxyType(
    {
        ast.Eq: operator.eq,
        ast.NotEq: operator.ne,
        ast.Lt: operator.lt,
        ast.LtE: operator.le,
        ast.Gt: operator.gt,
        ast.GtE: operator.ge,
    }
)
ABSORBING: MappingProxyType[str, Const] = MappingProxyType({"BitOr": Const(True), "BitAnd": Const(False)})
NEUTRAL: MappingProxyType[str, Const] = MappingProxyType(
    {"BitOr": Const(False), "BitAnd": Const(True), "BitXor": Const(False)}
)
"""What decides an operator of two bools, and what leaves the other side."""
STEEP = frozenset({"Pow", "LShift"})
MAX_POWER = 32
"""Below it, what these make of two numbers is small."""


def binary(op: str, left: Value, right: Value) -> Value:
    """`left op right`; constants are folded if that is small and cannot fail oddly, defaults likewise."""
    made = _binary(op, whole(left), whole(right))
    usual = likely(left), likely(right)
    if isinstance(made, Const) or usual == (left, right):
        return made
    guess = _binary(op, *usual)
    return prefer(guess, made) if _is_written(guess) else made


def _is_written(value: Value) -> bool:
    """Return whether it is a constant, or a row of known length."""
    return isinstance(value, Const) or (isinstance(value, Sequence) and value.items is not None)


def _binary(op: str, left: Value, right: Value) -> Value:
    if op in NEUTRAL:
        known = _boolean(op, left, right)
        if known is not None:
            return known
    if isinstance(left, Const) and isinstance(right, Const) and op != "Mod":
        return _fold(op, left.value, right.value)
    if isinstance(left, Const) and isinstance(left.value, str) and op == "Mod":
        given = right.items if isinstance(right, Sequence) and right.kind == "tuple" else (right,)
        found = [v.value for v in given or () if isinstance(v, Const) and isinstance(v.value, (str, int))]
        if found and given is not None and len(found) == len(given) == len(PLACES.findall(left.value)):
            if "%" not in PLACES.sub("", left.value):
                return Const(left.value % tuple(found))
        return Plain("str")  # of a tensor it is written at once, where the graph ends
    if isinstance(left, Const) and isinstance(right, Const):
        return _fold(op, left.value, right.value)
    if isinstance(left, Mapping) and isinstance(right, Mapping) and op == "BitOr":
        rest = [value for value in (left.element, right.element) if value is not None]
        return Mapping((*{**dict(left.entries), **dict(right.entries)}.items(),), join(*rest) if rest else None)
    if isinstance(left, Sequence) and isinstance(right, Sequence) and op == "Add":
        if left.items is not None and right.items is not None and len(left.items + right.items) <= MAX_ITEMS:
            return Sequence(left.kind, left.items + right.items, UNKNOWN)
        if left.kind == "tuple" and left.items and right.items is None and len(left.items) < MAX_ITEMS:
            # what a function always returns, with what it sometimes adds
            more = Sequence("tuple", (*left.items, right.element), UNKNOWN)
            return join(Sequence("tuple", left.items, UNKNOWN), more)
        members = (*members_of(left), *members_of(right))
        return Sequence(left.kind, None, join_members(*members) if members else UNKNOWN)
    if op == "Mult":
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Sequence) and not tensor_of(other):
                count = other.value if isinstance(other, Const) and isinstance(other.value, int) else MAX_ITEMS
                if one.items is not None and len(one.items) * count <= MAX_ITEMS:
                    return Sequence(one.kind, one.items * count, UNKNOWN)
                return Sequence(one.kind, None, join(*members_of(one)) if members_of(one) else UNKNOWN)
            zero = isinstance(one, Const) and type(one.value) in (int, float) and one.value == 0
            if zero and all(_may_be_number(v) for v in options(other)):
                return prefer(one, K.binary(op, left, right))
    parted = _apart_from_numbers(left, right)
    if parted is not None:
        return join(*(_binary(op, *pair) for pair in parted))
    made = K.binary(op, left, right)
    return shape_semantics.laid_out(op, (left, right), made) or made


def _boolean(op: str, left: Value, right: Value) -> Value | None:
    """`left op right` where `True` or `False` on one side decides it, or leaves a bool on the other; else None."""
    for one, other in ((left, right), (right, left)):
        if tensor_of(other):
            continue
        if one == ABSORBING.get(op):
            return one
        if one == NEUTRAL[op] and is_flag(other):
            return other
        if isinstance(one, Choice) and all(is_answer(each) or is_flag(each) for each in options(one)):
            return join(*(_binary(op, each, other) for each in options(one)))
    return None


def _apart_from_numbers(left: Value, right: Value) -> list[tuple[Value, Value]] | None:
    """Both sides of an operator, first without the numbers among what one of them may be, then with each; None if only
    tensors are meant, or if the other side is a tensor, whatever this one is."""
    for one, other, mirrored in ((left, right, False), (right, left, True)):
        numbers = [v for v in options(one) if _is_number(v)]
        if numbers and tensor_of(one) and not tensor_of(other):
            rest = keep(one, lambda v: not _is_number(v))
            return [(other, v) if mirrored else (v, other) for v in (rest, *numbers)]
    return None


def _is_number(value: Value) -> bool:
    """Return whether it is a number, or a Python value that may be one."""
    if isinstance(value, Const):
        return type(value.value) in (int, float)
    return isinstance(value, Plain) and value.kind in ("int", "float", None)


def _may_be_number(value: Value) -> bool:
    return isinstance(value, (Plain, Unknown)) and value != TAINTED


def _holds_numbers(value: Value) -> bool:
    """Return whether it is a literal list or tuple of numbers."""
    if not isinstance(value, Sequence) or value.kind not in ("list", "tuple"):
        return False
    return bool(value.items) and all(
        isinstance(v, Const) and isinstance(v.value, (int, float)) for v in value.items or ()
    )


def compared(op: ast.cmpop, left: Value, right: Value) -> Value:
    if isinstance(op, (ast.Is, ast.IsNot)):
        found = same(left, right)
        return Plain("bool", "call") if found is None else Const(found == isinstance(op, ast.Is))
    if any(v in (left, right) for v in (Plain("dtype"), Plain("layout"))):
        unusual = any(map(K.is_unusual, (left, right)))
        if unusual and isinstance(op, (ast.Eq, ast.Is, ast.In)):
            return prefer(Const(False), Plain("bool"))
        if unusual:
            return prefer(Const(True), Plain("bool"))
        if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, Sequence) and right.items:
            if any(isinstance(each, External) and each.name in K.USUAL for each in right.items):
                return prefer(Const(isinstance(op, ast.In)), Plain("bool"))
    if isinstance(op, (ast.In, ast.NotIn)):
        if tensor_of(left) and holds_tensor(right):
            return Tensor("bool")  # `==` with each member, left for whoever asks
        if K.ARRAY in options(left) and (_holds_numbers(right) or holds_tensor(right)):
            return K.ARRAY
        if isinstance(left, Tensor) and left.sure and _holds_numbers(right):
            return Tensor("bool")
        inside = _contains(left, right)
        if inside is None:
            usually = Const(isinstance(op, ast.NotIn))  # nobody has set the variable
            return prefer(usually, Plain("bool")) if right == ENVIRONMENT else Plain("bool")
        answer = Const(inside == isinstance(op, ast.In))
        changeable = isinstance(right, (Sequence, Mapping)) and right.escaping
        changeable = changeable or (isinstance(right, Mapping) and right.extra)
        return prefer(answer, Plain("bool")) if changeable else answer
    if isinstance(left, Const) and isinstance(right, Const):
        if left.defines("__eq__") or right.defines("__eq__"):
            return Plain("bool")
        if (left.opaque or right.opaque) and isinstance(op, (ast.Eq, ast.NotEq)):
            return Const(_one_member(left, right) == isinstance(op, ast.Eq))
        return _fold_compare(op, left.value, right.value)
    rows = [_constants(v) for v in (left, right)]
    if rows[0] is not None and rows[1] is not None and type(rows[0]) is type(rows[1]):
        return _fold_compare(op, *rows)
    if type(op) in ORDERS and all(map(is_compared_by_members, (left, right))):
        known = worked_out(ORDERS[type(op)], left, right)
        if known is not None:
            return known
    if Const("default") in (left, right) and isinstance(op, (ast.Eq, ast.NotEq)):
        return prefer(Const(isinstance(op, ast.Eq)), Plain("bool"))  # as the word says
    for one, other in ((left, right), (right, left)):
        if one == NONE and isinstance(op, (ast.Eq, ast.NotEq)):
            found = same(other, NONE)
            return Plain("bool", "call") if found is None else Const(found == isinstance(op, ast.Eq))
    if isinstance(op, (ast.Eq, ast.NotEq)) and all(isinstance(v, (Class, External)) for v in (left, right)):
        found = same(left, right)
        return Plain("bool") if found is None else Const(found == isinstance(op, ast.Eq))
    if isinstance(op, (ast.Eq, ast.NotEq)):
        for one, other in ((left, right), (right, left)):
            apart = isinstance(other, Const) and other.opaque
            if tensor_of(one) and (isinstance(other, (Sequence, Mapping)) or is_word(other) or apart):
                # torch leaves it to Python, for which they differ; what is only assumed to be a tensor may be the like
                differs = Const(isinstance(op, ast.NotEq))
                sure = all(v == NONE or (isinstance(v, Tensor) and v.sure) for v in options(one))
                return differs if sure else Plain("bool")
    lt, rt = tensor_of(left), tensor_of(right)
    if lt or rt:
        parted = _apart_from_numbers(left, right)
        if parted is not None:
            return join(*(compared(op, *pair) for pair in parted))
        sure = all(t.sure for t in (lt, rt) if t)
        whole = all(isinstance(v, (Tensor, type(NONE))) for v in (*options(left), *options(right)) if v != NONE)
        other_plain = not any(isinstance(v, (Plain, Unknown)) and not isinstance(v, Const) for v in options(left))
        sure = sure and (whole or other_plain or (lt is not None and rt is None))
        written = all(t.from_python_scalar for t in (lt, rt) if t)
        return Tensor("bool", sure, rank=shape_semantics.elementwise_rank((left, right)), from_python_scalar=written)
    values = (*options(left), *options(right))
    if K.ARRAY in values or K.NUMBER in values or any(map(K.is_number_of_numpy, values)):
        return K.ARRAY  # even of known numbers: a comparison gives an array of one
    if any(isinstance(v, Unknown) for v in values):
        return TAINTED if any(v == TAINTED for v in values) else UNKNOWN
    for draw, bound, less in ((left, right, (ast.Lt, ast.LtE)), (right, left, (ast.Gt, ast.GtE))):
        below = K.drawn_below(draw, bound)
        if below is not None and isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
            return prefer(Const(below == isinstance(op, less)), Plain("bool", "random"))
    for origin in DATA:
        if any(isinstance(v, Plain) and v.origin == origin for v in values):
            return Plain("bool", origin)
    return Plain("bool")


def _one_member(left: Const, right: Const) -> bool:
    """Return whether two constants are the same member of an enum."""
    return left.enum is not None and right.enum is not None and left.enum.info is right.enum.info and left == right


def same(left: Value, right: Value) -> bool | None:
    """`left is right` if the source decides it."""
    if isinstance(left, (Class, External)) and isinstance(right, (Class, External)):
        if left == right:
            return True
        return False if _is_type(left) and _is_type(right) else None
    if isinstance(left, Const) and isinstance(right, Const):
        if left.opaque or right.opaque:
            return _one_member(left, right)
        return left.value is right.value or (left.value == right.value and type(left.value) is type(right.value))
    for one, other in ((left, right), (right, left)):
        if one == NONE:
            known = (Tensor, Sequence, Mapping, Instance, External, ExternalInstance, Class, Function, Method, Module)
            if all(
                (isinstance(v, known) and not is_open(v))
                or (isinstance(v, Const) and v.value is not None)
                or (isinstance(v, Plain) and v.kind is not None and v.origin in DATA)  # a number is computed
                for v in options(other)
            ):
                return False
    return None


def _is_type(value: Value) -> bool:
    """Return whether it is a class that no other name refers to."""
    return isinstance(value, Class) or (
        isinstance(value, External) and (value.name in TYPES or value.name == "torch.Tensor")
    )


def _contains(item: Value, container: Value) -> bool | None:
    if isinstance(item, (Class, External)) and isinstance(container, Sequence) and container.items:
        answers = [same(item, member) for member in container.items]
        return True if True in answers else None if None in answers else False
    if is_key(item) and isinstance(container, Mapping) and (container.element is None or container.extra):
        return any(key == key_of(item) for key, _ in container.entries)
    if not isinstance(item, Const):
        return None
    if isinstance(container, Sequence) and container.items is not None:
        if all(isinstance(v, Const) for v in container.items):
            members = (v for v in container.items if isinstance(v, Const))
            return any(_one_member(v, item) if v.opaque or item.opaque else v == item for v in members)
    if isinstance(container, Const) and isinstance(container.value, str) and isinstance(item.value, str):
        return item.value in container.value
    return None


def _constants(value: Value) -> Any:
    """Return a tuple or list of constants as a Python object; None if any part is unknown."""
    if not isinstance(value, Sequence) or value.items is None or value.kind not in ("tuple", "list"):
        return None
    if value.escaping and value.kind == "list":
        return None
    found = [v.value for v in value.items if isinstance(v, Const)]
    if len(found) < len(value.items):
        return None
    return [*found] if value.kind == "list" else tuple(found)


def _fold(op: str, left: Any, right: Any) -> Value:
    numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
    try:
        if numbers and op in OF_NUMBERS and abs(left) < 1e9 and abs(right) < (MAX_POWER if op in STEEP else 1e9):
            return Const(OF_NUMBERS[op](left, right))
        if isinstance(left, str) and isinstance(right, str) and op == "Add" and len(left) + len(right) < 500:
            return Const(left + right)
    except (ArithmeticError, TypeError, ValueError):
        return UNKNOWN
    if numbers:
        return Plain("int" if isinstance(left, int) and isinstance(right, int) and op != "Div" else "float")
    return Plain("str") if isinstance(left, str) else Plain()


def _fold_compare(op: ast.cmpop, left: Any, right: Any) -> Value:
    try:
        if type(op) in ORDERS:
            return Const(ORDERS[type(op)](left, right))
    except TypeError:
        return UNKNOWN
    return UNKNOWN
