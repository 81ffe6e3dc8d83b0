"""Rewrite numpy computations on a tensor with torch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.conditions import in_order
from tcready.fixes.rewriters.numbers import CONVERSIONS, UNSAFE, Uses, is_number, snapshot
from tcready.fixes.rewriters.rewrites import Decline, Ways, expression, torch_of
from tcready.static.diagnostics.cst_view import is_module
from tcready.static.diagnostics.rule import Change, Declined, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located

NUMPY = ("np", "numpy")
SAME = frozenset(
    """
    sin cos tan arcsin arccos arctan sinh cosh tanh exp expm1 exp2 log log2 log10 log1p sqrt square abs floor ceil trunc
    round sign isnan isinf isfinite sum mean prod max min argmax argmin any all maximum minimum add subtract multiply
    """.split()
)
"""Functions that torch has under the same name, with the same meaning for tensors."""
METHODS = frozenset("sum mean prod max min argmax argmin any all".split())
OPERATORS = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)


def without_numpy(place: Located) -> Ways:
    """Rewrite `float(np.sin(t.numpy()).mean())` as `torch.sin(t.detach()).mean()`; `np.prod(x.shape)` as
    `math.prod(x.shape)`."""
    found = list(_products(place))
    if found:
        if any(_is_of_numpy(each) and each not in found for each in in_order(place.node)):
            yield Declined(
                "The expression has other NumPy calls than `np.prod` of sizes. Use torch or `math` for them."
            )
        else:
            yield _by_math(place, found)
        return
    node, piece = place.node, place.piece
    if not isinstance(node, cst.Call):
        return
    conversion, inner = "", None
    if isinstance(node.func, cst.Name) and node.func.value in CONVERSIONS and len(node.args) == 1:
        conversion, inner = node.func.value, node.args[0].value
    elif isinstance(node.func, cst.Attribute) and node.func.attr.value == "item" and not node.args:
        inner = node.func.value
    if inner is None:
        return
    if isinstance(inner, cst.Call) and isinstance(inner.func, cst.Attribute) and inner.func.attr.value == "item":
        inner = inner.func.value
    torch = torch_of(place)
    tensor = _of_torch(inner, torch[0])
    if tensor is None:
        return
    uses = Uses(piece, torch[0])
    reason = uses.of(node)
    made = snapshot(tensor)
    if conversion:
        made = expression(f"t.{CONVERSIONS[conversion]}()", t=made)
    if reason:
        raise Decline(reason)
    yield Rewrite("Torch computes it, and it stays a tensor", uses.written(node, made), UNSAFE, torch[1])


def _of_torch(node: cst.BaseExpression, torch: str) -> cst.BaseExpression | None:
    """Return numpy computations on tensors written with torch; None if torch has no function for a part."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, OPERATORS):
        sides = [_part(side, torch) for side in (node.left, node.right)]
        if sides[0] is None or sides[1] is None or (is_number(node.left, None) and is_number(node.right, None)):
            return None
        return node.with_changes(left=sides[0], right=sides[1])
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    name = node.func.attr.value
    if name == "numpy" and not node.args:
        return _detached(node.func.value)
    if is_numpy(node.func.value):
        if name not in SAME or len(node.args) not in (1, 2) or any(arg.keyword for arg in node.args):
            return None
        first = _of_torch(node.args[0].value, torch)
        others = [_of_torch(arg.value, torch) for arg in node.args[1:]]
        if first is None or None in others:
            return None
        given = [cst.Arg(value=each) for each in (first, *others) if each is not None]
        return cst.Call(func=cst.parse_expression(f"{torch}.{name}"), args=given)
    if name in METHODS and not node.args:
        owner = _of_torch(node.func.value, torch)
        return None if owner is None else expression(f"t.{name}()", t=owner)
    return None


def _part(node: cst.BaseExpression, torch: str) -> cst.BaseExpression | None:
    return node if is_number(node, None) else _of_torch(node, torch)


def is_numpy(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value in NUMPY


def _detached(tensor: cst.BaseExpression) -> cst.BaseExpression:
    """Return the tensor itself, without the calls that `.numpy()` requires before."""
    while (
        isinstance(tensor, cst.Call)
        and isinstance(tensor.func, cst.Attribute)
        and not tensor.args
        and tensor.func.attr.value in ("cpu", "detach")
    ):
        tensor = tensor.func.value
    return expression("t.detach()", t=tensor)


def _products(place: Located) -> Iterator[cst.Call]:
    """Yield the `np.prod(x.shape)` in an expression, or in the value of a name in it."""
    uses = Uses(place.piece, "torch")
    seen: set[str] = set()
    pending: list[cst.CSTNode] = [place.node]
    while pending:
        node = pending.pop()
        if isinstance(node, cst.Name) and node.value not in seen:
            seen.add(node.value)
            values = uses.values_of(node.value)
            pending += [values[0]] if len(values) == 1 and values[0] is not None else []
        elif isinstance(node, cst.Call) and _is_product(node):
            yield node
        else:
            pending += node.children


def _is_of_numpy(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and is_numpy(node.func.value)


def _is_product(node: cst.Call) -> bool:
    if not isinstance(node.func, cst.Attribute) or not is_numpy(node.func.value) or len(node.args) != 1:
        return False
    shape = node.args[0].value
    if isinstance(shape, cst.Subscript) and isinstance(shape.slice[0].slice, cst.Slice):
        shape = shape.value
    of_tensor = isinstance(shape, cst.Attribute) and shape.attr.value == "shape"
    sized = (
        isinstance(shape, cst.Call)
        and isinstance(shape.func, cst.Attribute)
        and shape.func.attr.value == "size"
        and not shape.args
    )
    return node.func.attr.value == "prod" and (of_tensor or sized)


def _by_math(place: Located, found: list[cst.Call]) -> Rewrite | Declined:
    imported = any(
        isinstance(statement, ast.Import) and any(a.name == "math" and a.asname is None for a in statement.names)
        for statement in place.source.tree.body
    )
    if not is_module(place.source, "math"):
        return Declined("The name `math` is assigned to something else here. Rename that.")
    parents = place.piece.parents
    whole = all(_is_int(parents.get(parents[each])) for each in found)
    return Rewrite(
        "Python computes the product of the sizes while tracing",
        tuple(Change((each.func,), (cst.parse_expression("math.prod"),)) for each in found),
        None if whole else "it is then a Python integer, not a numpy integer",
        () if imported else ("import math",),
    )


def _is_int(node: cst.CSTNode | None) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "int"
