"""Evaluate tests of a model's floating dtype: the usual result, and the dtypes that give another one."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from types import MappingProxyType
from typing import get_args

from tcready.static.domain.values import FLOATS, Choice, Const, External, FloatType, Plain, Sequence, Tensor, Value
from tcready.static.library.semantics import dtype_of

SPELLINGS: MappingProxyType[str, FloatType] = MappingProxyType(
    {**{name: name for name in get_args(FloatType)}, "half": "float16", "float": "float32", "double": "float64"}
)
"""The names that torch has for the floating dtypes that are distinguished."""
LIMITS: MappingProxyType[str, tuple[float, ...]] = MappingProxyType(
    {
        "bits": (32, 16, 16, 64),
        "itemsize": (4, 2, 2, 8),
        "max": (3.4028234663852886e38, 65504.0, 3.3895313892515355e38, 1.7976931348623157e308),
        "min": (-3.4028234663852886e38, -65504.0, -3.3895313892515355e38, -1.7976931348623157e308),
        "eps": (1.1920928955078125e-07, 0.0009765625, 0.0078125, 2.220446049250313e-16),
        "tiny": (1.1754943508222875e-38, 6.103515625e-05, 1.1754943508222875e-38, 2.2250738585072014e-308),
        "smallest_normal": (1.1754943508222875e-38, 6.103515625e-05, 1.1754943508222875e-38, 2.2250738585072014e-308),
        "resolution": (1e-06, 0.001, 0.01, 1e-15),
    }
)
"""The values of `torch.finfo` for each of FLOATS, in their order, and the bytes of a value."""
WHOLE = frozenset({"bits", "itemsize"})
"""The LIMITS that are whole numbers."""
ORDERED: MappingProxyType[type[ast.cmpop], Callable[[float, float], bool]] = MappingProxyType(
    {
        ast.Eq: operator.eq,
        ast.NotEq: operator.ne,
        ast.Lt: operator.lt,
        ast.LtE: operator.le,
        ast.Gt: operator.gt,
        ast.GtE: operator.ge,
    }
)
OF_TYPES = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
POSITIVE = (ast.Eq, ast.Is, ast.In)


def float_type(name: str | None) -> FloatType | None:
    """Return the floating type of a name, as torch spells it; None for any other type."""
    return None if name is None else SPELLINGS.get(name.removeprefix("torch."))


def read_type(tensor: Tensor, dtype: str | None, autocast: str | None) -> Value:
    """`tensor.dtype` in a model that is cast to `dtype`, or not cast, and runs under `autocast`, or not."""
    anything = Plain("dtype")
    came_in = tensor.leaf or tensor.graph_input
    if autocast is not None and not came_in:
        return anything  # the result of a product may have either dtype
    own = tensor.dtype == "float" or (tensor.dtype is None and tensor.parameter)
    if own:
        if dtype is None:
            return Plain("dtype", types=FLOATS)
        known = float_type(dtype)
        return anything if known is None else Plain("dtype", types=(known,))
    exact = next((name for name in FLOATS if name == tensor.dtype), None)
    if exact is None or (exact == "float32" and float_type(dtype) == "float64"):
        return anything  # combined with a float64 tensor of the model, a float32 result becomes float64
    return External(f"torch.{exact}")


def limits_of(value: Value) -> Value:
    """`torch.finfo(value)`."""
    exact = dtype_of(value) if isinstance(value, External) else None
    types = value.types if isinstance(value, Plain) else tuple(name for name in FLOATS if name == exact)
    return Plain("finfo", types=types) if types else Plain()


def limit(limits: Plain, name: str) -> Value:
    """`torch.finfo(dtype).name`."""
    if name not in LIMITS:
        return Plain("str" if name == "dtype" else None)
    if len(limits.types) == 1:
        number = LIMITS[name][FLOATS.index(limits.types[0])]
        return Const(int(number) if name in WHOLE else number)
    return Plain("int" if name in WHOLE else "float", types=limits.types, limit=name)


def bytes_of_value(dtype: Value) -> Value:
    """`dtype.itemsize`, which is `tensor.element_size()`."""
    limits = limits_of(dtype)
    return limit(limits, "itemsize") if isinstance(limits, Plain) and limits.types else Plain("int")


def compare(op: ast.cmpop, left: Value, right: Value, usual: FloatType | None, *, fixed: bool) -> Value | None:
    """Evaluate `left op right` if it tests a dtype or a limit of one; None if it does not.

    `usual` is the dtype assumed for a tensor of which nothing else is known; None if there is no assumption. `fixed`:
    whether the assumption holds because the model is cast to that dtype.
    """
    if isinstance(left, Plain) and left.limit:
        return _compared_limit(op, left, right)
    if isinstance(right, Plain) and right.limit and isinstance(left, Const):
        turned = _TURNED.get(type(op))
        return None if turned is None else _compared_limit(turned(), right, left)
    if not isinstance(op, OF_TYPES):
        return None
    if isinstance(right, Plain) and right.kind == "dtype" and not isinstance(op, (ast.In, ast.NotIn)):
        left, right = right, left
    if isinstance(left, External) and (exact := float_type(left.name)) is not None:
        left = Plain("dtype", types=(exact,))
    if not isinstance(left, Plain) or left.kind != "dtype":
        return None
    types = _types_of(right)
    if not types:
        return None
    true_in = tuple(name for name in FLOATS if (name in types) == isinstance(op, POSITIVE))
    if left.types:
        return _by_type(left.types, true_in)
    if usual is None:
        return Plain("bool")
    if usual in types and not fixed and len(types) == 1:
        return None  # it may be a tensor of whole numbers as well
    return _usually(usual in true_in, () if fixed else true_in)


_TURNED: MappingProxyType[type[ast.cmpop], type[ast.cmpop]] = MappingProxyType(
    {ast.Eq: ast.Eq, ast.NotEq: ast.NotEq, ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
)
"""The comparisons with swapped sides."""


def _compared_limit(op: ast.cmpop, limits: Plain, bound: Value) -> Value | None:
    compared = ORDERED.get(type(op))
    if compared is None or not isinstance(bound, Const) or not isinstance(bound.value, (int, float)):
        return None
    of_each = dict(zip(FLOATS, LIMITS[limits.limit], strict=True))
    return _by_type(limits.types, tuple(name for name in FLOATS if compared(of_each[name], bound.value)))


def _by_type(possible: tuple[FloatType, ...], true_in: tuple[FloatType, ...]) -> Value:
    """Return a boolean that the dtype decides. The first of the possible dtypes is the usual one."""
    answers = {name in true_in for name in possible}
    usual = possible[0] in true_in
    return Const(usual) if len(answers) == 1 else _usually(usual, true_in)


def _usually(usual: bool, true_in: tuple[FloatType, ...]) -> Value:
    """Return a boolean that is `usual` by default. A join would forget for which dtypes it is true."""
    return Choice((Const(usual), Plain("bool", types=true_in)), 1)


def _types_of(value: Value) -> frozenset[FloatType]:
    """Return the floating types of a data type, or of several; nothing if one of them is another type."""
    members = value.items or () if isinstance(value, Sequence) else (value,)
    found = [float_type(each.name) if isinstance(each, External) else None for each in members]
    types = frozenset(name for name in found if name is not None)
    return types if None not in found else frozenset()


def other_types(truth: Value, usual: bool) -> tuple[FloatType, ...]:
    """Return the dtypes for which a boolean differs from its usual value; empty if the dtype does not decide it."""
    if not isinstance(truth, Plain) or not truth.types:
        return ()
    return tuple(name for name in FLOATS if (name in truth.types) != usual)
