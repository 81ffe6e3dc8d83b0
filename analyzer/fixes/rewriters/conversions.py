"""Rewrite a number that Python reads from a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.conditions import walk
from tcready.fixes.rewriters.numbers import (
    BRANCH,
    CONVERSIONS,
    HANDED,
    HOW,
    OF_FLOATS,
    UNSAFE,
    Uses,
    function_name,
    is_number,
    snapshot,
)
from tcready.fixes.rewriters.rewrites import Decline, Ways, expression, first_or_others, torch_of
from tcready.fixes.rewriters.sorts import rewrite_sorted
from tcready.fixes.rewriters.tests import written_anew
from tcready.static.diagnostics.rule import Declined, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import CstRegion, Located


def rewrite_number(place: Located) -> Ways:
    """Rewrite a read of a number from a tensor: the sort by it, or else the test or the computation with it."""
    return first_or_others(rewrite_sorted(place), written_anew(place), keep_tensor(place))


def keep_tensor(place: Located) -> Ways:
    """Rewrite `t.item()`, `int(t)`, `float(t)`, `bool(t)` or `math.sqrt(t)` as `t.detach()`, if a tensor does as
    well."""
    found = _reading(place.piece, place.node)
    if found is None:
        return
    node, tensor, conversion = found
    torch = torch_of(place)
    uses = Uses(place.piece, torch[0], branches=[])
    if reason := uses.of(node):
        raise Decline(reason)
    if conversion in OF_FLOATS:
        made = expression(f"{torch[0]}.{conversion}(t)", t=snapshot(tensor))
    else:
        made = snapshot(tensor)
        if conversion:
            made = expression(f"t.{CONVERSIONS[conversion]}()", t=made)
    rewrite = Rewrite(
        HOW,
        uses.written(node, made),
        UNSAFE + (HANDED if uses.handed else ""),
        torch[1] if conversion in OF_FLOATS or uses.changes else (),
    )
    yield from _with_branches(place, rewrite, uses.branches or ())


def _with_branches(place: Located, rewrite: Rewrite, branches: Sequence[cst.If | cst.IfExp]) -> Ways:
    """Yield rewrites of a number kept as a tensor, together with those of the branch that depends on it."""
    if not branches:
        yield rewrite
        return
    (branch, *others) = branches
    inside = {id(each) for each in walk(branch)}
    if others or any(id(change.old[0]) in inside for change in rewrite.changes):
        raise Decline(BRANCH)
    for way in written_anew(replace(place, node=branch.test)):
        if isinstance(way, Declined) or way.settings:
            yield way
            continue
        yield replace(
            way,
            how=f"{rewrite.how}. {way.how}",
            changes=(*rewrite.changes, *way.changes),
            unsafe="; ".join(filter(None, (rewrite.unsafe, way.unsafe))),
            imports=tuple(dict.fromkeys((*rewrite.imports, *way.imports))),
        )


def _reading(piece: CstRegion, node: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.BaseExpression, str] | None:
    """Return the outermost read of one tensor around `node`, the tensor, and the conversion."""
    if not isinstance(node, cst.Call):
        return None
    tensor = _read(node)
    conversion = ""
    if tensor is None:
        inner = _converted(node)
        if inner is None or not _may_be_tensor(inner):
            return None
        conversion = function_name(node.func)
        tensor = _read(inner) or inner
    while True:
        arg = piece.parents.get(node)
        around = piece.parents.get(arg) if isinstance(arg, cst.Arg) else None
        if (
            not isinstance(around, cst.Call)
            or _converted(around) is not node
            or function_name(around.func) in OF_FLOATS
        ):
            return node, tensor, conversion
        if conversion:  # `float(int(t))`: two conversions, which nothing distinguishes
            return None
        node, conversion = around, function_name(around.func)


def _read(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the tensor of `t.item()`."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not node.args:
        return node.func.value if node.func.attr.value == "item" else None
    return None


def _converted(node: cst.Call) -> cst.BaseExpression | None:
    """Return the argument of `int`, `float`, `bool` or a function of `math`."""
    if len(node.args) != 1 or node.args[0].keyword is not None or node.args[0].star:
        return None
    if isinstance(node.func, cst.Name):
        return node.args[0].value if node.func.value in CONVERSIONS else None
    of_math = (
        isinstance(node.func, cst.Attribute)
        and isinstance(node.func.value, cst.Name)
        and node.func.value.value == "math"
        and node.func.attr.value in OF_FLOATS
    )
    return node.args[0].value if of_math else None


def _may_be_tensor(node: cst.BaseExpression) -> bool:
    return not isinstance(node, (cst.SimpleString, cst.FormattedString, cst.Integer, cst.Float)) and not is_number(
        node, None
    )
