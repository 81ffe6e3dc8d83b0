"""Rewrite loops over the places where a mask is true as one statement over all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.conditions import is_mask, walk
from tcready.fixes.rewriters.masks import masked_select
from tcready.fixes.rewriters.numbers import keep_tensors
from tcready.fixes.rewriters.parts import padded_parts
from tcready.fixes.rewriters.rewrites import Decline, Ways, expression, first_or_others, line_of, torch_of
from tcready.fixes.rewriters.shapes import TO_ONE, is_pure
from tcready.fixes.rewriters.statements import block_of, is_torch, text
from tcready.fixes.rewriters.truths import rewrite_nonzero_count
from tcready.static.diagnostics.rule import Change, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located

LISTING = frozenset("tolist flatten squeeze ravel".split())
"""Methods between `nonzero()` and a loop that do not change the places."""
UNSAFE = "what the loop computes for some positions is computed for all, and selected by the mask"
OTHER_BODY = (
    "The loop does more than write one value at each position from the same position (`out[i] = f(x[i])`). Write "
    "it over whole tensors, with `torch.where` on the mask."
)
MODULE = (
    "The loop calls what may be a module. On the whole tensor it would run even if the mask is false everywhere, so its "
    "parameters would get zero gradients instead of none."
)
REDUCED = (
    "The loop reduces a row to one number (`x[i].sum()`). Reduce the last dimensions of the whole tensor, and "
    "select with `torch.where` on the mask."
)


def rewrite_selection(place: Located) -> Ways:
    """Rewrite a selection by value: the loop over its items, or else the count or the selection itself."""
    return first_or_others(over_places(place), rewrite_nonzero_count(place), masked_select(place))


def rewrite_list(place: Located) -> Ways:
    """Rewrite `tolist()`: the loop over the items, or else the split by them or the list itself."""
    return first_or_others(over_places(place), padded_parts(place), keep_tensors(place))


def over_places(place: Located) -> Ways:
    """Rewrite `for i in mask.nonzero(): out[i] = f(x[i])` as `out.copy_(torch.where(mask, f(x), out))`; nothing for
    other uses of `nonzero`."""
    found = _loop_around(place)
    if found is None:
        return
    loop, mask = found
    torch = torch_of(place)
    as_bool = mask if is_mask(place, mask) else expression("m.bool()", m=mask)
    index = text(loop.target).strip("()")
    names = {each.value for each in walk(loop.target) if isinstance(each, cst.Name)}
    body = block_of(loop.body)
    made: list[cst.BaseStatement] = []
    taken = place.piece.bound
    chosen = cst.Name(next(n for n in ("chosen", "_chosen", "chosen_") if n not in taken))
    written: set[str] = set()
    for statement in body:
        part = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        target = part.targets[0].target if isinstance(part, cst.Assign) and len(part.targets) == 1 else None
        if not isinstance(part, cst.Assign) or not isinstance(target, cst.Subscript) or loop.orelse is not None:
            raise Decline(OTHER_BODY)
        out = _read_at(target, index)
        value = part.value.visit(_Whole(index, torch[0], chosen))
        assert isinstance(value, cst.BaseExpression)
        if isinstance(out, cst.Name) and not is_pure(part.value):
            raise Decline(MODULE)
        if any(_reduces(each) for each in walk(part.value)):
            raise Decline(REDUCED)
        left = {each.value for each in walk(value) if isinstance(each, cst.Name)}
        if not isinstance(out, cst.Name) or written or left & {*names, out.value}:
            raise Decline(OTHER_BODY)
        written.add(out.value)
        if not made:
            shaped = expression("b.reshape(m.shape + (1,) * (x.dim() - m.dim()))", b=as_bool, m=mask, x=out)
            made.append(line_of(cst.Assign([cst.AssignTarget(chosen)], shaped)))
        copied = expression(f"y.copy_({torch[0]}.where(m, value, y))", y=out, m=chosen, value=value)
        made.append(line_of(cst.Expr(copied)))
    if made:
        yield Rewrite(
            "The loop becomes one statement over all positions, with `torch.where` on the mask",
            (Change((loop,), tuple(made)),),
            UNSAFE,
            torch[1],
        )


def _loop_around(place: Located) -> tuple[cst.For, cst.BaseExpression] | None:
    """Return the loop over `mask.nonzero()`, and the mask."""
    node = place.node
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in LISTING:
        node = node.func.value
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    of_torch = is_torch(node.func.value)
    if node.func.attr.value != "nonzero" or len(node.args) != int(of_torch):
        return None
    mask = node.args[0].value if of_torch else node.func.value
    above: cst.CSTNode = node
    while not isinstance(above, cst.BaseStatement):
        inner, above = above, place.piece.parents[above]
        is_listed = isinstance(above, cst.Call) and above.func is inner and not above.args
        is_method = isinstance(above, cst.Attribute) and above.attr.value in LISTING
        if isinstance(above, cst.For) and above.iter is inner:
            return above, mask
        if not is_listed and not is_method:
            return None
    return None


def _read_at(node: cst.BaseExpression, index: str) -> cst.BaseExpression | None:
    """Return the tensor that is indexed with `index`."""
    if not isinstance(node, cst.Subscript):
        return None
    written = ", ".join(text(each.slice).strip("()") for each in node.slice)
    return node.value if written == index else None


def _reduces(node: cst.CSTNode) -> bool:
    """Return True if it reduces all items of a tensor to one number."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    return node.func.attr.value in TO_ONE and len(node.args) == int(is_torch(node.func.value))


class _Whole(cst.CSTTransformer):
    """Replaces items at an index by the whole tensors: 1 where the mask is false, which has a finite gradient."""

    def __init__(self, index: str, torch: str, chosen: cst.Name) -> None:
        super().__init__()
        self.index, self.torch, self.chosen = index, torch, chosen

    def leave_Subscript(  # noqa: N802  libcst's name
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        tensor = _read_at(original_node, self.index)
        if tensor is None:
            return updated_node
        return expression(f"{self.torch}.where(m, x, 1)", m=self.chosen, x=tensor)
