"""Rewrite reads through a mask over the full length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.numbers import Uses, is_name, is_number
from tcready.fixes.rewriters.numpy import is_numpy
from tcready.fixes.rewriters.rewrites import Decline, Ways, expression, in_parentheses, torch_of
from tcready.static.diagnostics.rule import Change, Declined, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located

LIKE = frozenset("isnan isinf isfinite abs bool float long logical_not detach clone neg".split())
"""Methods, and functions of torch, that return one item for each."""
REPEATABLE = LIKE | frozenset(
    """
    sum mean amax amin any all eq ne gt lt ge le logical_and logical_or logical_xor size dim numel squeeze unsqueeze view
    reshape flatten to int unbind select expand expand_as transpose permute contiguous argmax topk
    """.split()
)
"""Methods that may be called twice."""
CHAINED = frozenset(
    "abs square pow exp log log2 log10 log1p sqrt rsqrt reciprocal sigmoid tanh relu neg float double".split()
)
"""Methods that work item by item and have a gradient at 1."""
ZERO_AT_EQUAL = frozenset("mse_loss l1_loss smooth_l1_loss huber_loss".split())

SIZED_BY_VALUE = frozenset(
    """
    unique unique_consecutive combinations lstsq one_hot ctc_loss cov corrcoef gaussian_nll_loss
    """.split()
)
SETTING = "set `torch._dynamo.config.capture_dynamic_output_shape_ops = True` to keep that in the graph"
BY_VALUE = Declined(
    f"The size of the result depends on the values of the mask. Use `torch.where` over the full length, or {SETTING}."
)
OVER_ALL = "It is computed over all items, and masked-out items do not count"
UNSAFE = "sums over more items may be rounded differently, and the mask has to be boolean"
OF_NO_DIMENSION = "for a 0-d condition, only the first row was written to"
LATER = "the tensor that the mask is computed from may have changed since"
TWICE = Declined(
    "The mask or the tensor would be computed twice, by a call that may have a side effect. Assign it to a name first."
)


def masked_read(place: Located) -> Ways:
    """Rewrite `x[mask]` that is reduced, or written back through the same mask."""
    node = place.node
    if not isinstance(node, cst.Subscript):
        return
    if len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        raise Decline(BY_VALUE)
    mask = node.slice[0].slice.value
    if isinstance(mask, (cst.Integer, cst.BaseString, cst.Ellipsis)):
        return
    if isinstance(mask, (cst.List, cst.ListComp)):
        raise Decline("Dynamo traces no index that is a list of bools. Write the positions as numbers, `x[[0, 2]]`.")
    torch = torch_of(place)
    masked = Masked(place, torch[0], node.value, mask)
    yield from _ways(masked, node, torch[1])


def masked_select(place: Located) -> Ways:
    """Rewrite `x.masked_select(mask)` that is reduced; `x[torch.where(mask)] = v`."""
    node = place.node
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return
    torch = torch_of(place)
    name, of_torch = node.func.attr.value, is_name(node.func.value, torch[0])
    if is_name(node.func.value, "np"):
        raise Decline(BY_VALUE)
    given = [arg.value for arg in node.args if arg.keyword is None]
    operands = given if of_torch else [node.func.value, *given]
    words = {arg.keyword.value: arg.value for arg in node.args if arg.keyword is not None}
    if name == "masked_select" and len(operands) == 2 and not words:
        yield from _ways(Masked(place, torch[0], operands[0], operands[1], broadcast=True), node, torch[1])
    elif (name == "where" and of_torch and len(operands) == 1 and not words) or (
        name == "nonzero" and len(operands) == 1 and is_name(words.get("as_tuple"), "True")
    ):
        yield from _written_through(place, node, operands[0])
    elif name in ("nonzero", "argwhere", "masked_select", "where"):
        yield BY_VALUE


def rewrite_count(place: Located) -> Ways:
    """Rewrite `torch.bincount(x, minlength=n)` as a `scatter_add_` into `n` places; `repeat_interleave` with its
    size."""
    node = place.node
    if not isinstance(node, cst.Call):
        return
    name = node.func.attr.value if isinstance(node.func, cst.Attribute) else getattr(node.func, "value", "")
    if isinstance(node.func, cst.Attribute) and is_numpy(node.func.value):
        raise Decline(f"`{name}` of NumPy returns an array. Call the function of torch on the tensor.")
    if name == "repeat_interleave":
        yield from _repeated(place, node)
    elif name in SIZED_BY_VALUE:
        raise Decline(
            f"The size of the result of `{name}` depends on values. Pass a size if it takes one; for most such "
            f"functions, {SETTING}."
        )
    if name != "bincount" or not isinstance(node.func, cst.Attribute):
        return
    torch = torch_of(place)
    given = [arg.value for arg in node.args if arg.keyword is None]
    if not is_name(node.func.value, torch[0]):
        given.insert(0, node.func.value)
    words = {arg.keyword.value: arg.value for arg in node.args if arg.keyword is not None}
    least = words.get("minlength") or (given[2] if len(given) > 2 else None)
    weights = words.get("weights") or (given[1] if len(given) > 1 else None)
    if not given or least is None or (weights is not None and not is_name(weights, "None")):
        raise Decline(
            "`bincount` is called without `minlength`, or with weights. Pass `minlength`, or use `scatter_add_`."
        )
    if not is_repeatable(given[0]):
        raise Decline(TWICE)
    made = expression(
        f"{torch[0]}.zeros(n, dtype={torch[0]}.long, device=x.device)"
        f".scatter_add_(0, x.long(), {torch[0]}.ones_like(x, dtype={torch[0]}.long))",
        n=least,
        x=given[0],
    )
    yield Rewrite(
        "It counts into `minlength` bins",
        (Change((node,), (made,)),),
        "if a value is `minlength` or more, `bincount` returns more bins, and this raises an error",
        torch[1],
    )


def _repeated(place: Located, call: cst.Call) -> Ways:
    """Rewrite `torch.repeat_interleave(x, repeats)` with the sum of `repeats` as its size."""
    torch = torch_of(place)
    given = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    words = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    if isinstance(call.func, cst.Attribute) and not is_name(call.func.value, torch[0]):
        given.insert(0, call.func.value)
    # one tensor alone says how often each place comes
    repeats = words.get("repeats") or (given[1] if len(given) > 1 else given[0] if not words else None)
    is_written = repeats is not None and not any(arg.star for arg in call.args)
    if "output_size" in words or not is_written or isinstance(repeats, cst.Integer):
        raise Decline(
            "`output_size` is passed already, or the repeats are not written as a tensor. Pass them as one argument."
        )
    assert repeats is not None
    if not is_repeatable(repeats):
        raise Decline(
            "The repeats would be computed twice, by a call that may have a side effect. Assign them to a name first."
        )
    size = cst.Arg(
        expression("n.sum().item()", n=repeats),
        keyword=cst.Name("output_size"),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    last = call.args[-1:]
    behind = [arg if isinstance(arg.comma, cst.Comma) else arg.with_changes(comma=comma) for arg in last]
    made = call.with_changes(args=[*call.args[:-1], *behind, size])
    yield Rewrite(
        "The number of items is read as a number, which Dynamo keeps in the graph",
        (Change((call,), (made,)),),
        "the repeats are summed once more, and there has to be one for each item: a single one for all raises an error",
        settings=("capture_scalar_outputs",),
    )


def is_repeatable(node: cst.CSTNode) -> bool:
    """Return True if evaluating it twice gives the same value twice."""
    if isinstance(node, (cst.Await, cst.Yield, cst.NamedExpr, cst.Lambda)):
        return False
    if isinstance(node, cst.Call) and not (isinstance(node.func, cst.Attribute) and node.func.attr.value in REPEATABLE):
        return False
    return all(is_repeatable(child) for child in node.children)


class Masked:
    """A tensor and the mask through which it is read."""

    def __init__(
        self, place: Located, torch: str, tensor: cst.BaseExpression, mask: cst.BaseExpression, broadcast: bool = False
    ) -> None:
        self.place, self.torch, self.tensor, self.mask = place, torch, tensor, mask
        self.broadcast = broadcast
        self.uses = Uses(place.piece, torch)

    def full(self, tensor: cst.BaseExpression) -> cst.BaseExpression:
        """Return the mask, shaped so that it broadcasts against a tensor from which it selects items or rows."""
        if self.broadcast or self.is_like(self.mask, tensor):
            return self.mask
        return expression("m.reshape(m.shape + (1,) * (x.dim() - m.dim()))", m=self.mask, x=tensor)

    def count(self, tensor: cst.BaseExpression) -> cst.BaseExpression:
        """Return the number of selected items."""
        if self.is_like(self.mask, tensor):
            return expression("m.sum()", m=self.mask)
        return expression("m.expand_as(x).sum()", m=self.full(tensor), x=tensor)

    def where(self, yes: cst.BaseExpression, no: str, of: cst.BaseExpression) -> cst.BaseExpression:
        other = cst.parse_expression(no)
        return expression(f"{self.torch}.where(mask, yes, no)", mask=self.full(of), yes=yes, no=other)

    def is_like(self, node: cst.BaseExpression, tensor: cst.BaseExpression) -> bool:
        """Return True if `node` has the shape of `tensor`, by its form."""
        if node.deep_equals(tensor):
            return True
        if isinstance(node, cst.Name):
            values = self.uses.values_of(node.value)
            value = values[0] if len(values) == 1 else None
            is_stable = isinstance(tensor, cst.Name) and len(self.uses.values_of(tensor.value)) == 1
            return value is not None and is_stable and self.is_like(value, tensor)
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            return self._are_like((node.left, node.comparisons[0].comparator), tensor)
        if isinstance(node, cst.BinaryOperation):
            return self._are_like((node.left, node.right), tensor)
        if isinstance(node, cst.UnaryOperation):
            return self.is_like(node.expression, tensor)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in LIKE:
            if is_name(node.func.value, self.torch):
                return len(node.args) == 1 and self.is_like(node.args[0].value, tensor)
            return not node.args and self.is_like(node.func.value, tensor)
        return False

    def _are_like(self, sides: tuple[cst.BaseExpression, ...], tensor: cst.BaseExpression) -> bool:
        like = [self.is_like(side, tensor) for side in sides]
        return any(like) and all(found or is_number(side, None) for found, side in zip(like, sides, strict=True))

    def is_the_same(self, other: cst.CSTNode | None) -> cst.BaseExpression | None:
        """Return what is read, if `other` reads through this mask."""
        if not isinstance(other, cst.Subscript) or len(other.slice) != 1:
            return None
        index = other.slice[0].slice
        same = isinstance(index, cst.Index) and index.value.deep_equals(self.mask)
        return other.value if same else None


def _ways(masked: Masked, node: cst.BaseExpression, imports: tuple[str, ...]) -> Ways:
    if not is_repeatable(masked.mask) or not is_repeatable(masked.tensor):
        raise Decline(TWICE)
    changes = _reduced(masked, node) or _named(masked, node)
    if changes:
        yield Rewrite(OVER_ALL, changes, UNSAFE, imports)
        return
    written = None if masked.broadcast else _written_back(masked, node)
    if written is not None:
        yield Rewrite(
            "The items that the mask selects are replaced in place, and the others keep their values",
            (written,),
            "it has to be a mask of booleans, and what is written has to have the dtype of what it is written to",
            imports,
        )
        return
    loss = None if masked.broadcast else _loss(masked, node)
    if loss is not None:
        yield Rewrite(OVER_ALL, (loss,), UNSAFE, imports)
        return
    yield BY_VALUE


def _call_around(masked: Masked, node: cst.BaseExpression) -> tuple[cst.Call, str] | None:
    """Return the call on `node`, or the call of a function of torch with `node` as the only argument; and its name."""
    parents = masked.place.piece.parents
    parent = parents[node]
    call = parents[parent]
    if not isinstance(call, cst.Call):
        return None
    if isinstance(parent, cst.Attribute) and call.func is parent:
        return call, parent.attr.value
    of_torch = isinstance(call.func, cst.Attribute) and is_name(call.func.value, masked.torch)
    if isinstance(parent, cst.Arg) and of_torch and len(call.args) == 1 and parent.keyword is None:
        assert isinstance(call.func, cst.Attribute)
        return call, call.func.attr.value
    return None


def _reduced(masked: Masked, node: cst.BaseExpression) -> tuple[Change, ...]:
    """Rewrite `x[mask].abs().mean()`."""
    chain: list[cst.Call] = []
    around = _call_around(masked, node)
    while around is not None and around[1] in CHAINED:
        if not all(is_number(arg.value, None) and arg.keyword is None for arg in around[0].args[-1:]):
            return ()
        if not isinstance(around[0].func, cst.Attribute) or is_name(around[0].func.value, masked.torch):
            return ()
        chain.append(around[0])
        around = _call_around(masked, around[0])
    if around is None:
        return ()
    call, name = around
    if isinstance(call.func, cst.Attribute) and not is_name(call.func.value, masked.torch) and call.args:
        return ()
    nothing = {"sum": "0", "mean": "0", "any": "False", "all": "True"}.get(name)
    if nothing is None:
        return ()
    value = masked.tensor
    if chain:
        value = masked.where(value, "1", masked.tensor)
        for each in chain:
            assert isinstance(each.func, cst.Attribute)
            value = each.with_changes(func=each.func.with_changes(value=in_parentheses(value)))
    picked = masked.where(value, nothing, masked.tensor)
    if name == "mean":
        made = expression("t.sum() / n", t=picked, n=masked.count(masked.tensor))
    else:
        made = expression(f"t.{name}()", t=picked)
    return (Change((call,), (made,)),)


def _named(masked: Masked, node: cst.BaseExpression) -> tuple[Change, ...]:
    """Rewrite `part = x[mask]` that is used in sums and means."""
    parents, uses = masked.place.piece.parents, masked.uses
    statement = parents[node]
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return ()
    target = statement.targets[0].target
    if not isinstance(target, cst.Name) or len(uses.values_of(target.value)) != 1:
        return ()
    if not _stay(masked):
        return ()
    changes = [Change((node,), (masked.where(masked.tensor, "0", masked.tensor),))]
    for each in uses.loads(target.value):
        around = _call_around(masked, each)
        if around is None or uses.function_of(each) is not uses.function_of(node):
            return ()
        call, name = around
        of_torch = isinstance(parents[each], cst.Arg)
        if name not in ("sum", "mean") or (call.args and not of_torch):
            return ()
        if name == "mean":
            count = masked.count(masked.tensor)
            changes.append(Change((call,), (expression("t.sum() / n", t=each, n=count),)))
    return tuple(changes)


def _stay(masked: Masked) -> bool:
    """Return True if the names of mask and tensor have one value in the whole function."""
    names = {each.value for part in (masked.mask, masked.tensor) for each in _names(part) if each.value != masked.torch}
    changed = any(
        isinstance(masked.place.piece.parents[load], cst.AugAssign)
        and getattr(masked.place.piece.parents[load], "target", None) is load
        for name in names
        for load in masked.uses.loads(name)
    )
    return not changed and all(len(masked.uses.values_of(name)) <= 1 for name in names)


def _names(node: cst.CSTNode) -> Iterator[cst.Name]:
    if isinstance(node, cst.Name):
        yield node
    elif isinstance(node, cst.Attribute):
        yield from _names(node.value)
    else:
        for child in node.children:
            yield from _names(child)


def _written_back(masked: Masked, node: cst.BaseExpression) -> Change | None:
    """Rewrite `y[mask] = x[mask] * 2`, and `x[mask] *= 2`."""
    statement: cst.CSTNode = node
    while not isinstance(statement, (cst.BaseSmallStatement, cst.BaseStatement)):
        statement = masked.place.piece.parents[statement]
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0].target, statement.value
    elif isinstance(statement, cst.AugAssign):
        target = statement.target
        sign = type(statement.operator).__name__.removesuffix("Assign")
        binary = {"Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/"}.get(sign)
        if binary is None:
            return None
        value = expression(f"a {binary} b", a=target, b=statement.value)
    else:
        return None
    written = masked.is_the_same(target)
    if written is None or not _is_dotted(written):
        return None
    plain = _over_all(masked, value, guarded=False)
    guarded = _over_all(masked, value, guarded=True)
    if guarded is None or plain is None:
        return None
    chosen = plain if _is_linear(value) else guarded
    made = expression(f"y.copy_({masked.torch}.where(m, value, y))", y=written, m=masked.full(written), value=chosen)
    line = masked.place.piece.parents[statement]
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    return Change((line,), (line.with_changes(body=[cst.Expr(value=made)]),))


def _is_dotted(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) or (isinstance(node, cst.Attribute) and _is_dotted(node.value))


def _is_linear(value: cst.BaseExpression) -> bool:
    """Return True if it is a sum of the read tensor and numbers, or a multiple of it: its gradient is finite
    everywhere."""
    if isinstance(value, cst.BinaryOperation):
        both = _is_linear(value.left) and _is_linear(value.right)
        if isinstance(value.operator, (cst.Add, cst.Subtract)):
            return both
        one = is_number(value.left, None) or is_number(value.right, None)
        return isinstance(value.operator, cst.Multiply) and both and one
    if isinstance(value, cst.UnaryOperation):
        return _is_linear(value.expression)
    return isinstance(value, cst.Subscript) or is_number(value, None)


def _over_all(masked: Masked, value: cst.BaseExpression, guarded: bool) -> cst.BaseExpression | None:
    """Return `value` with masked reads replaced by the whole tensor; with `guarded`, 1 in place of unselected items."""
    read = masked.is_the_same(value)
    if read is not None:
        if not is_repeatable(read):
            return None
        return masked.where(read, "1", read) if guarded else read
    if is_number(value, None):
        return value
    if isinstance(value, cst.UnaryOperation) and isinstance(value.operator, cst.Minus):
        inner = _over_all(masked, value.expression, guarded)
        return None if inner is None else expression("-v", v=inner)
    if isinstance(value, cst.BinaryOperation) and isinstance(
        value.operator, (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
    ):
        left, right = _over_all(masked, value.left, guarded), _over_all(masked, value.right, guarded)
        if left is None or right is None:
            return None
        sign = {"Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/"}[type(value.operator).__name__]
        return expression(f"a {sign} b", a=left, b=right)
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value in CHAINED:
        of_torch = is_name(value.func.value, masked.torch)
        if of_torch and len(value.args) == 1:
            inner = _over_all(masked, value.args[0].value, guarded)
            return None if inner is None else value.with_changes(args=[cst.Arg(value=inner)])
        inner = _over_all(masked, value.func.value, guarded)
        if inner is not None and all(is_number(arg.value, None) for arg in value.args):
            return value.with_changes(func=value.func.with_changes(value=in_parentheses(inner)))
    return None


def _loss(masked: Masked, node: cst.BaseExpression) -> Change | None:
    """Rewrite `F.cross_entropy(logits[mask], labels[mask])` and losses that are zero if both are equal."""
    parents = masked.place.piece.parents
    arg = parents[node]
    call = parents[arg]
    if not isinstance(arg, cst.Arg) or not isinstance(call, cst.Call) or len(call.args) not in (2, 3):
        return None
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else getattr(call.func, "value", "")
    given, wanted = (masked.is_the_same(each.value) for each in call.args[:2])
    if given is None or wanted is None or any(each.keyword is not None for each in call.args[:2]):
        return None
    if not is_repeatable(given) or not is_repeatable(wanted):
        return None
    if name == "cross_entropy" and len(call.args) == 2:
        made = expression(
            "f(x.flatten(0, -2), y.masked_fill(~m, -100).flatten())",
            f=call.func,
            x=masked.where(given, "0", given),
            y=wanted,
            m=masked.mask,
        )
        return Change((call,), (made,))
    if name not in ZERO_AT_EQUAL:
        return None
    summed = False
    if len(call.args) == 3:
        last = call.args[2]
        text = last.value.value if isinstance(last.value, cst.SimpleString) else ""
        if last.keyword is None or last.keyword.value != "reduction" or text[1:-1] not in ("sum", "mean"):
            return None
        summed = text[1:-1] == "sum"
    made = expression(
        'f(x, y, reduction="sum")', f=call.func, x=masked.where(given, "0", given), y=masked.where(wanted, "0", wanted)
    )
    if not summed:
        made = expression("s / n", s=made, n=masked.count(given))
    return Change((call,), (made,))


def _written_through(place: Located, node: cst.Call, condition: cst.BaseExpression) -> Ways:
    """Rewrite `x[torch.where(mask)] = v` and `where = torch.where(mask)`, `x[where] = v`."""
    parents = place.piece.parents
    uses = Uses(place.piece, "torch")
    nodes: list[cst.BaseExpression] = [node]
    statement = parents[node]
    if isinstance(statement, cst.Assign):
        target = statement.targets[0].target
        if len(statement.targets) != 1 or not isinstance(target, cst.Name):
            raise Decline(BY_VALUE)
        if len(uses.values_of(target.value)) != 1:
            raise Decline(BY_VALUE)
        nodes = list(uses.loads(target.value))
    for each in nodes:
        index = parents[each]
        element = parents[index]
        whole = parents[element]
        alone = isinstance(whole, cst.Subscript) and len(whole.slice) == 1 and isinstance(index, cst.Index)
        if not alone or not isinstance(parents[whole], cst.AssignTarget):
            raise Decline(BY_VALUE)
    compared = isinstance(condition, cst.Comparison)
    made = condition if compared else expression("m.bool()", m=condition)
    yield Rewrite(
        "It is written through the mask itself",
        (Change((node,), (made,)),),
        OF_NO_DIMENSION if nodes == [node] else LATER,
    )
