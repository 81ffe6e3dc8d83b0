"""Rewrite truth values of tensors outside of branches: `and`, `or`, `not`, chains, `any`, `all`, `in`; and loops on
tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.conditions import (
    MIXED,
    as_tensor,
    is_mask,
    is_of_tensor,
    owner_of,
    split_test,
    tree_of,
    without_conversion,
)
from tcready.fixes.rewriters.rewrites import (
    Decline,
    Ways,
    bare,
    expression,
    joined,
    line_of,
    torch_name,
    torch_of,
    where_compiled,
)
from tcready.fixes.rewriters.shapes import impure_part, is_pure
from tcready.fixes.rewriters.statements import (
    assigned_in,
    block_of,
    describe_effect,
    effect_in,
    is_bound,
    is_read_after,
    quote,
    text,
    times_read,
)
from tcready.static.diagnostics.cst_view import names_in
from tcready.static.diagnostics.rule import Change, Declined, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located


LOOP = "while_loop"
BOOL = "a bool becomes a tensor"
LATER = "on a GPU it is raised later than in eager code"
UNTIL_ONE = Declined(
    "`any` and `all` of a generator stop at the first item that decides. Write `(x > 0).any()` on the whole tensor."
)


def rewrite_operators(place: Located) -> Ways:
    """Rewrite `a and b`, `a or b`, `not a` that return a value with `torch.logical_and` and similar functions."""
    if owner_of(place) is not None:
        return
    whole = place.node
    parent = place.piece.parents.get(whole)
    while isinstance(parent, cst.BooleanOperation) or (
        isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not)
    ):
        whole, parent = parent, place.piece.parents.get(parent)
    if not isinstance(whole, cst.BooleanOperation) and not (
        isinstance(whole, cst.UnaryOperation) and isinstance(whole.operator, cst.Not)
    ):
        return
    name, imports = torch_of(place)
    tree = tree_of(place, whole)
    change = "The operator becomes an operator of torch, which stays in the graph"
    if isinstance(whole, cst.BooleanOperation) and not is_of_tensor(tree):
        left, right = whole.left, whole.right
        number = isinstance(right, (cst.Integer, cst.Float))
        if not (number and isinstance(whole.operator, cst.Or) and is_pure(left) and is_of_tensor(tree_of(place, left))):
            raise Decline(MIXED)
        made = expression(f"{name}.where(test, a, b)", test=_truth(place, left), a=left, b=right)
        yield Rewrite(change, (Change((whole,), (bare(made),)),), "a number becomes a tensor", imports)
        return
    if isinstance(whole, cst.BooleanOperation) and not _all_bool(place, whole):
        raise Decline(
            "`and` and `or` return an operand, which may not be a bool. Compare explicitly, or use `torch.where`."
        )
    yield Rewrite(change, (Change((whole,), (bare(as_tensor(place, name, tree)),)),), BOOL, imports)


def _truth(place: Located, node: cst.BaseExpression) -> cst.BaseExpression:
    return node if is_mask(place, node) else expression("a != 0", a=node)


def _all_bool(place: Located, node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.BooleanOperation):
        return _all_bool(place, node.left) and _all_bool(place, node.right)
    return (isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not)) or is_mask(place, node)


def rewrite_decisions(place: Located) -> Ways:
    """Rewrite a chain of comparisons, `any`, `all`, `in` and the order of tensors with torch."""
    node = place.node
    if owner_of(place) is not None and isinstance(node, cst.Comparison):
        return  # the branch is written anew as a whole
    name, imports = torch_of(place)
    call = node
    parent = place.piece.parents.get(node)
    if isinstance(parent, cst.Arg):
        around = place.piece.parents.get(parent)
        if isinstance(around, cst.Call) and isinstance(around.func, cst.Name):
            call = around
    made: cst.BaseExpression | None = None
    unsafe = BOOL
    if isinstance(node, cst.Comparison):
        made = _compared(name, node)
    elif isinstance(call, cst.Call) and isinstance(call.func, cst.Name):
        if any(isinstance(arg.value, cst.GeneratorExp) for arg in call.args):
            raise Decline(UNTIL_ONE)
        made = _called(name, call)
        if call.func.value == "sorted":
            unsafe = "they must be single elements of one dtype"
        elif call.args and isinstance(call.args[0].value, cst.ListComp):
            unsafe = f"{BOOL}, and of no items at all this raises"
        node = call
    if isinstance(parent, cst.CompIf):
        raise Decline(
            "The number of items that the comprehension keeps depends on data. Keep all items, and use a mask."
        )
    if isinstance(parent, cst.GeneratorExp):
        raise Decline(UNTIL_ONE)
    if made is None:
        raise Decline(f"torch has no function for {quote(node)}. Write it with `torch.where` and reductions.")
    if not is_pure(node) and not isinstance(node, cst.Call):
        part = impure_part(node)
        assert part is not None
        raise Decline(f"{describe_effect(part)}, and would always be evaluated. Assign its result to a name first.")
    yield Rewrite("Torch evaluates it inside the graph", (Change((node,), (bare(made),)),), unsafe, imports)


def _compared(torch: str, node: cst.Comparison) -> cst.BaseExpression | None:
    if len(node.comparisons) > 1:
        return without_conversion(torch, node)
    (only,) = node.comparisons
    if isinstance(only.operator, (cst.In, cst.NotIn)):
        if isinstance(only.comparator, (cst.List, cst.Tuple, cst.Set, cst.Dict)):
            return None
        made = expression("(a == b).any()", a=only.comparator, b=node.left)
        return made if isinstance(only.operator, cst.In) else expression(f"{torch}.logical_not(a)", a=made)
    left, right = node.left, only.comparator
    if (
        isinstance(only.operator, (cst.Equal, cst.NotEqual))
        and isinstance(left, cst.Tuple)
        and isinstance(right, cst.Tuple)
        and len(left.elements) == len(right.elements) > 0
    ):
        sign, word = ("==", "and") if isinstance(only.operator, cst.Equal) else ("!=", "or")
        pairs = zip(left.elements, right.elements, strict=True)
        return joined(torch, word, (expression(f"a {sign} b", a=a.value, b=b.value) for a, b in pairs))
    return None


def _called(torch: str, call: cst.Call) -> cst.BaseExpression | None:
    if not isinstance(call.func, cst.Name) or len(call.args) != 1:
        return None
    name, given = call.func.value, call.args[0].value
    if name in ("any", "all"):
        if isinstance(given, (cst.List, cst.Tuple)):
            if len(given.elements) < 2 or any(isinstance(each, cst.StarredElement) for each in given.elements):
                return None
            return joined(torch, "or" if name == "any" else "and", (each.value for each in given.elements))
        if isinstance(given, cst.ListComp):
            is_picked = bool(given.for_in.ifs) or given.for_in.inner_for_in is not None
            return None if is_picked else expression(f"{torch}.stack(a).{name}()", a=given)
        return expression(f"a.{name}()", a=given)
    if name == "sorted" and isinstance(given, (cst.List, cst.Tuple)) and len(given.elements) > 1:
        return expression(f"list({torch}.stack(a).sort(stable=True).values.unbind())", a=given)
    return None


def rewrite_equality(place: Located) -> Ways:
    """Rewrite `torch.equal`, `allclose`, `is_nonzero` and `torch._assert` outside of a branch."""
    call = place.node
    if owner_of(place) is not None or not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return
    name, imports = torch_of(place)
    if call.func.attr.value == "_assert":
        if len(call.args) not in (1, 2) or any(arg.keyword or arg.star for arg in call.args):
            raise Decline("The condition is passed by keyword or with `*`. Pass it by position.")
        made: cst.BaseExpression = call.with_changes(func=call.func.with_changes(attr=cst.Name("_assert_async")))
        unsafe = f"it raises RuntimeError instead of AssertionError; {LATER}"
    else:
        made = without_conversion(name, call)
        unsafe = f"{BOOL}, and tensors of other shapes are an error or are broadcast"
    yield Rewrite("Torch evaluates it inside the graph", (Change((call,), (bare(made),)),), unsafe, imports)


def rewrite_while(place: Located) -> Ways:
    """Rewrite `while t:` over local tensors as `while_loop`, in compiled code."""
    loop = owner_of(place)
    if not isinstance(loop, cst.While):
        return
    name, imports, python, tensors = split_test(place, loop.test)
    body = block_of(loop.body)
    given = sorted(assigned_in(body))
    if loop.orelse is not None or any(
        not isinstance(each, cst.SimpleStatementLine)
        or any(isinstance(part, (cst.Break, cst.Continue, cst.Return)) for part in each.body)
        for each in body
    ):
        raise Decline(
            "The body of the loop contains a block, `else`, `break`, `continue` or `return`. Express these with "
            "`torch.where`.",
            rewrite=LOOP,
        )
    effect = next((part for each in body if (part := effect_in(each)) is not None), None)
    if effect is not None:
        raise Decline(
            f"{describe_effect(effect)}, and the loop body must not do that. Use a local variable, and store it "
            "after the loop.",
            rewrite=LOOP,
        )
    carried = [each for each in given if is_bound(place, loop, each)]
    if python is not None and any(times_read(python, each) for each in given):
        raise Decline(
            f"The Python part of the condition, {quote(python)}, changes in each iteration. Make it a tensor.",
            rewrite=LOOP,
        )
    if not carried or any(each not in carried and is_read_after(place, loop, each) for each in given):
        raise Decline(
            "A variable that is read after the loop, or in the next iteration, has no value before the loop. "
            "Assign one there.",
            rewrite=LOOP,
        )
    taken = place.piece.bound
    if {"is_to_go_on", "one_round"} & taken:
        raise Decline("The function already uses the names `is_to_go_on` or `one_round`. Rename them.", rewrite=LOOP)
    params = ", ".join(carried)
    row = f"({params},)" if len(carried) == 1 else f"({params})"
    condition = _inner("is_to_go_on", params, [line_of(cst.Return(as_tensor(place, name, tensors)))])
    does = _inner("one_round", params, [*body, cst.parse_statement(f"return {row}")])
    run = cst.parse_statement(f"{row} = {name}._higher_order_ops.while_loop(is_to_go_on, one_round, {row})")
    assert isinstance(run, cst.SimpleStatementLine)
    inside: cst.BaseStatement = run
    if python is not None:
        inside = cst.If(test=python, body=cst.IndentedBlock(body=[run]))
    both = where_compiled(name, [inside], loop).with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    yield Rewrite(
        "In compiled code, `while_loop` runs the iterations inside the graph",
        (Change((loop,), (condition, does, both)),),
        "`while_loop` requires iterations that keep shapes and dtypes and change nothing else",
        imports,
    )


def _inner(name: str, params: str, body: Sequence[cst.BaseStatement | cst.BaseCompoundStatement]) -> cst.FunctionDef:
    made = cst.parse_statement(f"def {name}({params}): pass")
    assert isinstance(made, cst.FunctionDef)
    return made.with_changes(body=cst.IndentedBlock(body), leading_lines=[cst.EmptyLine(indent=False)])


def rewrite_object_assert(place: Located) -> Ways:
    """Rewrite `assert rows` as `assert bool(rows)`: Dynamo does not make a tensor of a Python bool."""
    if not isinstance(owner_of(place), cst.Assert) or place.piece.parents[place.node] is not owner_of(place):
        return
    if "bool" in place.source.derive(names_in):
        raise Decline("The name `bool` is assigned to something else here. Rename that.")
    made = expression("bool(a)", a=place.node)
    yield Rewrite(
        "The asserted value is converted to a bool first, as in Python", (Change((place.node,), (made,)),), None
    )


def rewrite_check(place: Located) -> Ways:
    """Rewrite `torch._check_tensor_all(condition)` as an assertion inside the graph."""
    call = place.node
    line = place.statement
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return
    kind = call.func.attr.value
    position = {"_check_tensor_all": 0, "_check_tensor_all_with": 1}.get(kind)
    if position is None:
        return
    name, imports = torch_of(place)
    if len(call.args) <= position or any(arg.star or arg.keyword for arg in call.args[: position + 1]):
        raise Decline("The condition is passed by keyword or with `*`. Pass it by position.")
    condition = expression("a.all()", a=call.args[position].value)
    message = call.args[position + 1].value if len(call.args) > position + 1 else None
    if isinstance(message, cst.Lambda):
        message = message.body
    made = expression(f"{name}._assert_async(a)", a=condition)
    if isinstance(message, (cst.SimpleString, cst.ConcatenatedString)):
        made = expression(f"{name}._assert_async(a, b)", a=condition, b=message)
    raised = text(call.args[0].value) if position else "RuntimeError"
    only = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    if position and isinstance(only, cst.Expr) and only.value is call:
        both = where_compiled(name, [line_of(cst.Expr(made))], line)
        yield Rewrite(
            "In compiled code, the check becomes an assertion inside the graph",
            (Change((line,), (both,)),),
            f"the compiled model raises RuntimeError instead of {raised}; {LATER}",
            imports,
        )
    yield Rewrite(
        "The check becomes an assertion inside the graph",
        (Change((call,), (made,)),),
        f"it raises RuntimeError{f' instead of {raised}' if position else ''}; {LATER}",
        imports,
    )


def rewrite_nonzero_count(place: Located) -> Ways:
    """Rewrite the count of elements that `nonzero` selects without selecting them."""
    call = place.node
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return
    torch = torch_name(place)
    if torch is None or call.func.attr.value not in ("nonzero", "argwhere"):
        return
    name, imports = torch
    given = list(call.args) if text(call.func.value) == name else [cst.Arg(call.func.value), *call.args]
    parent = place.piece.parents.get(call)
    around = place.piece.parents.get(parent) if parent is not None else None
    is_length = isinstance(parent, cst.Arg) and isinstance(around, cst.Call) and text(around.func) == "len"
    is_size = isinstance(around, (cst.Call, cst.Subscript)) and text(around) in (
        f"{text(call)}.size(0)",
        f"{text(call)}.shape[0]",
    )
    if len(given) != 1 or given[0].keyword or not (is_length or is_size):
        return
    made = expression(f"{name}.count_nonzero(a)", a=given[0].value)
    yield Rewrite(
        "The elements are counted without selecting them",
        (Change((around,), (made,)),),
        "a number becomes a tensor",
        imports,
    )
