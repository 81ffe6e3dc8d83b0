"""Rewrite Python's `sorted` by numbers that are read from a tensor as `argsort`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.conditions import walk
from tcready.fixes.rewriters.numbers import Uses, is_name
from tcready.fixes.rewriters.rewrites import Decline, Ways, expression, torch_of
from tcready.fixes.rewriters.shapes import is_pure
from tcready.fixes.rewriters.statements import text
from tcready.static.diagnostics.rule import Change, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located

OTHER_KEY = (
    "The key of `sorted` is more than an item of one tensor. Compute all keys as one tensor, and call `argsort` on it."
)
OTHER_ITEMS = (
    "`sorted` sorts other items than indices by the values of a tensor. Call `argsort` on the tensor, and index "
    "by the result."
)


def rewrite_sorted(place: Located) -> Ways:
    """Rewrite `sorted(range(n), key=lambda i: t[i].item())` as `t[:n].argsort(stable=True)`; nothing for other
    reads."""
    call = _sorted_around(place)
    if call is None:
        return
    words = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    items = call.args[0].value
    key = words.pop("key")
    reverse = words.pop("reverse", cst.Name("False"))
    assert isinstance(key, cst.Lambda)
    is_range = isinstance(items, cst.Call) and is_name(items.func, "range") and len(items.args) == 1
    if not is_range or words or text(reverse) not in ("True", "False"):
        raise Decline(OTHER_ITEMS)
    assert isinstance(items, cst.Call)
    found = _key(key)
    if found is None:
        raise Decline(OTHER_KEY)
    torch = torch_of(place)
    tensor, negated = found
    count = items.args[0].value
    lengths = {f"len({text(tensor)})", f"{text(tensor)}.shape[0]", f"{text(tensor)}.size(0)"}
    keys = tensor if text(count) in lengths else _up_to(tensor, count)
    descending = "descending=True, " if negated != (text(reverse) == "True") else ""
    made = expression(f"t.argsort({descending}stable=True)", t=keys)
    yield Rewrite(
        "`argsort` returns the order, as a tensor",
        (Change((call,), (made,)), *_with_tensor(place, call, torch[0])),
        "the order is a tensor instead of a list, and a NaN comes last",
    )


def _up_to(tensor: cst.BaseExpression, count: cst.BaseExpression) -> cst.BaseExpression:
    space = "" if isinstance(count, (cst.Name, cst.Integer)) else " "
    return expression(f"t[:{space}n]", t=tensor, n=count)


def _sorted_around(place: Located) -> cst.Call | None:
    """Return the call of `sorted` that has the place in its key."""
    node: cst.CSTNode | None = place.node
    while node is not None and not isinstance(node, (cst.Lambda, cst.BaseStatement)):
        node = place.piece.parents.get(node)
    arg = place.piece.parents.get(node) if isinstance(node, cst.Lambda) else None
    call = place.piece.parents.get(arg) if isinstance(arg, cst.Arg) else None
    is_key = isinstance(arg, cst.Arg) and is_name(arg.keyword, "key")
    if not is_key or not isinstance(call, cst.Call) or not is_name(call.func, "sorted"):
        return None
    return call if call.args[0].keyword is None and not call.args[0].star else None


def _key(key: cst.Lambda) -> tuple[cst.BaseExpression, bool] | None:
    """Return the tensor with the keys as items, and whether they are negated."""
    params = key.params.params
    if len(params) != 1:
        return None
    body, negated = key.body, False
    if isinstance(body, cst.UnaryOperation) and isinstance(body.operator, cst.Minus):
        body, negated = body.expression, True
    while isinstance(body, cst.Call):
        if isinstance(body.func, cst.Name) and body.func.value in ("float", "int") and len(body.args) == 1:
            if body.func.value == "int":
                return None  # it rounds
            body = body.args[0].value
        elif isinstance(body.func, cst.Attribute) and body.func.attr.value == "item" and not body.args:
            body = body.func.value
        else:
            return None
    if not isinstance(body, cst.Subscript) or len(body.slice) != 1:
        return None
    index = body.slice[0].slice
    name = params[0].name.value
    is_item = isinstance(index, cst.Index) and is_name(index.value, name)
    of_others = not any(is_name(each, name) for each in walk(body.value))
    return (body.value, negated) if is_item and of_others and is_pure(body.value) else None


def _with_tensor(place: Located, call: cst.Call, torch: str) -> list[Change]:
    """Simplify uses of the list, which becomes a tensor: `torch.tensor(order)` is the order itself, and
    `torch.stack([x[i] for i in order])` is `x[order]`."""
    statement = place.piece.parents[call]
    target = statement.targets[0].target if isinstance(statement, cst.Assign) else None
    if not isinstance(target, cst.Name):
        return []
    made: list[Change] = []
    parents = place.piece.parents
    for each in Uses(place.piece, torch).loads(target.value):
        parent = parents[each]
        taken: cst.BaseExpression = each
        if isinstance(parent, cst.CompFor) and isinstance(comprehension := parents[parent], cst.ListComp):
            taken, parent = comprehension, parents[comprehension]
        around = parents[parent] if isinstance(parent, cst.Arg) else None
        if not isinstance(around, cst.Call) or len(around.args) != 1:
            continue
        function = text(around.func)
        if taken is each and function in (f"{torch}.tensor", f"{torch}.as_tensor"):
            made.append(Change((around,), (each,)))
        elif isinstance(taken, cst.ListComp) and function == f"{torch}.stack":
            if (tensor := _items_of(taken)) is not None:
                made.append(Change((around,), (expression("t[order]", t=tensor, order=each),)))
    return made


def _items_of(comprehension: cst.ListComp) -> cst.BaseExpression | None:
    """Return the tensor of `[t[i] for i in order]`."""
    loop, item = comprehension.for_in, comprehension.elt
    if loop.ifs or loop.inner_for_in is not None or not isinstance(item, cst.Subscript) or len(item.slice) != 1:
        return None
    index = item.slice[0].slice
    if not isinstance(index, cst.Index) or not isinstance(loop.target, cst.Name):
        return None
    if not is_name(index.value, loop.target.value):
        return None
    return item.value if isinstance(item.value, (cst.Name, cst.Attribute)) else None
