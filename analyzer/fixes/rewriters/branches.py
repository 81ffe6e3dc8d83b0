"""Rewrite branches on tensors as `torch.where`, with both sides evaluated and one chosen, or as `torch.cond`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.cond import SHORT, cond_of_expression, cond_of_statement, where_python
from tcready.fixes.rewriters.conditions import (
    MIXED,
    NO_DEVICE,
    SplitTest,
    as_tensor,
    owner_of,
    split_test,
    test_beside,
    tree_of,
    walk,
)
from tcready.fixes.rewriters.rewrites import Decline, Ways, attempt, bare, expression, in_place_of, line_of
from tcready.fixes.rewriters.shapes import Shapes, is_pure
from tcready.fixes.rewriters.sides import (
    NO_RESULT,
    NOT_BOUND,
    ONE_RETURNS,
    PARTIAL,
    RETURN,
    WHERE,
    Chooser,
    Reader,
    Refused,
    condition_name,
)
from tcready.fixes.rewriters.statements import (
    assigned_in,
    block_of,
    describe_effect,
    effect_in,
    else_of,
    ends_in_return,
    is_bound,
    may_read,
    names_written,
    quote,
    rest_of,
    text,
    times_read,
)
from tcready.static.diagnostics.rule import Change, Declined, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located


HOW = "`torch.where` replaces the `if`: both branches are computed, and one result is selected"
TWO_CONDITIONS = (
    "The condition has a Python part and a tensor part, and the other branch would be written twice. Use an `if` "
    "for each part."
)
EARLY_ELIF = "An `elif` returns early. Assign the result in each branch, and return it after the `if`."
CHANGED_LATER = (
    "The code after the early `return` changes {} or the condition, and would run before one is selected. Assign the new "
    "values to other names."
)
UNSAFE = "both branches are computed, and the result has the wider dtype of the two"


def choosing_expression(place: Located) -> Ways:
    """Rewrite `a if test else b` as `torch.where(test, a, b)`."""
    whole = owner_of(place)
    if not isinstance(whole, cst.IfExp):
        return
    name, imports, python, tensors = split_test(place, whole.test)
    yes, no = whole.body, whole.orelse
    if (text(yes), text(no)) in (("True", "False"), ("False", "True")):
        made = as_tensor(place, name, tree_of(place, whole.test, text(yes) == "False")) if python is None else None
        if made is None:
            yield Declined(MIXED)
        else:
            yield Rewrite(
                "The condition stays a tensor", (Change((whole,), (made,)),), "a bool becomes a tensor", imports
            )
        return
    test = test_beside(place, name, tensors, yes, no)
    if test is None:
        raise Decline(NO_DEVICE, rewrite=WHERE)
    try:
        made = Chooser(name, test, test, Shapes.at(place, whole)).choose(yes, no)
    except Refused as reason:
        yield reason.declined
    else:
        if python is not None:
            made = expression("a if p else b", a=made, p=python, b=no)
        # the parentheses around the old expression stay, unless the new one is a call
        made = bare(made) if isinstance(made, cst.Call) else made.with_changes(lpar=whole.lpar, rpar=whole.rpar)
        yield Rewrite(HOW, (Change((whole,), (made,)),), _unsafe(Shapes.at(place, whole), yes, no), imports)
    if python is None:
        yield from cond_of_expression(whole, name, imports, test)


def _unsafe(shapes: Shapes, yes: cst.BaseExpression, no: cst.BaseExpression) -> str:
    if shapes.of(yes) == shapes.of(no) == frozenset():
        return "a number becomes a tensor"
    return UNSAFE


def choosing_statement(place: Located) -> Ways:
    """Rewrite an `if` with sides that assign or return, as `torch.where`."""
    branch = owner_of(place)
    if not isinstance(branch, cst.If):
        return
    split = split_test(place, branch.test)
    yield from attempt(_as_where(place, branch, split))
    yield from cond_of_statement(place, branch, split)


def _as_where(place: Located, branch: cst.If, split: SplitTest) -> Ways:
    sides = (branch.body, *([branch.orelse] if branch.orelse is not None else []), *rest_of(place, branch))
    test = test_beside(place, split.torch, split.tensors, *sides)
    if test is None:
        raise Refused(NO_DEVICE)
    yes, no = block_of(branch.body), else_of(branch)
    if ends_in_return(yes) and not no:
        yield from _returning_early(place, branch, split, test, yes)
        return
    if ends_in_return(yes) != ends_in_return(no):
        raise Refused(ONE_RETURNS)
    if split.python is not None and len(no) > SHORT:
        raise Refused(TWO_CONDITIONS)
    made, unsafe = _chosen(place, branch, split.torch, test, yes, no)
    made = where_python(split.python, made, no)
    yield Rewrite(HOW, (in_place_of(place, branch, tuple(made)),), unsafe, split.imports)


def _chosen(
    place: Located,
    branch: cst.If,
    torch: str,
    test: cst.BaseExpression,
    yes: Sequence[cst.BaseStatement],
    no: Sequence[cst.BaseStatement],
) -> tuple[list[cst.BaseStatement], str]:
    """Return statements that do what both sides do, and why they may differ. Raises Refused."""
    first: list[cst.BaseStatement] = []
    yes, before = _without_private(place, branch, yes, no)
    first += before
    no, before = _without_private(place, branch, no, yes)
    first += before
    shapes = Shapes.at(place, branch)
    shapes.follow(first)
    reader = Reader(place, torch, shapes)
    one, other = reader.side(yes), reader.side(no)
    names = list(dict.fromkeys([*one.values, *other.values]))
    if RETURN in names:
        if any("." in name for name in names):
            raise Refused(
                f"A branch assigns `{next(name for name in names if '.' in name)}` and returns. Assign it in "
                "front of the `if`."
            )
        names = [RETURN]  # what a side assigns is lost when it returns
    if not names:
        raise Refused(NO_RESULT)
    chooser = Chooser(torch, test, condition_name(place, test), shapes)
    made: list[tuple[str, cst.BaseExpression]] = []
    unsafe = UNSAFE
    for name in names:
        target = one.targets.get(name) or other.targets.get(name)
        missing = cst.Name(name) if target is None or isinstance(target, cst.Name) else target
        if (name not in one.values or name not in other.values) and not is_bound(place, branch, name):
            raise Refused(NOT_BOUND.format(name))
        assert isinstance(missing, cst.BaseExpression)
        pair = one.values.get(name, missing), other.values.get(name, missing)
        made.append((name, chooser.choose(*pair)))
        if shapes.of(pair[0]) == shapes.of(pair[1]) == frozenset():
            unsafe = "a number becomes a tensor"
    if one.in_place or other.in_place:
        unsafe += "; a tensor that was changed in place becomes a new tensor"
    if names == [RETURN]:
        return chooser.with_condition([*first, line_of(cst.Return(value=made[0][1]))]), unsafe
    if any("." in name for name in names):
        unsafe += "; an attribute is set every time"
    targets = {name: one.targets.get(name) or other.targets[name] for name in names}
    return chooser.with_condition([*first, *_in_order(made, targets)]), unsafe


def _in_order(
    made: Sequence[tuple[str, cst.BaseExpression]], targets: Mapping[str, cst.BaseAssignTargetExpression]
) -> list[cst.BaseStatement]:
    """Order assignments, combined if a later one reads what an earlier one sets."""
    for position, (name, _) in enumerate(made):
        if any(times_read(value, name) for _, value in made[position + 1 :]):
            whole = cst.Assign(
                targets=[cst.AssignTarget(cst.Tuple([cst.Element(targets[n]) for n, _ in made], lpar=(), rpar=()))],
                value=cst.Tuple([cst.Element(value) for _, value in made], lpar=(), rpar=()),
            )
            return [line_of(whole)]
    return [line_of(cst.Assign(targets=[cst.AssignTarget(targets[n])], value=value)) for n, value in made]


def _without_private(
    place: Located, branch: cst.If, side: Sequence[cst.BaseStatement], other: Sequence[cst.BaseStatement]
) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
    """Return a side without the names that only it uses, and their assignments, which can be moved before the
    branch."""
    left: list[cst.BaseStatement] = []
    remaining: list[cst.BaseStatement] = []
    given: set[str] = set()
    for statement in side:
        part = (
            statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
        )
        if isinstance(part, cst.Assign) and len(part.targets) == 1 and is_pure(part.value):
            target = part.targets[0].target
            if (
                isinstance(target, cst.Name)
                and not any(times_read(part.value, name) for name in given)
                and is_private(place, branch, target.value, other)
                and not is_partial(part.value)
            ):
                remaining.append(statement)
                continue
        left.append(statement)
        given |= assigned_in([statement])
    return left, remaining


def is_partial(node: cst.CSTNode) -> bool:
    """Return True if it may have no finite gradient: it must not be evaluated where it was not before."""
    return any(
        (isinstance(each, cst.BinaryOperation) and isinstance(each.operator, (cst.Divide, cst.FloorDivide, cst.Power)))
        or (isinstance(each, cst.Call) and text(each.func).rpartition(".")[2] in PARTIAL | {"div", "divide"})
        for each in walk(node)
    )


def is_private(place: Located, branch: cst.If, name: str, other: Sequence[cst.BaseStatement]) -> bool:
    """Return True if a value assigned on one side of a branch is read on that side only."""
    within = {id(each) for each in walk(branch)}
    beside = {id(each) for statement in (branch.test, *other) for each in walk(statement)}
    if name in assigned_in(other) or sum(name in assigned_in([each]) for each in block_of(branch.body)) != 1:
        return False
    return all(
        id(each) in within and id(each) not in beside
        for each in place.piece.parents
        if isinstance(each, cst.Name) and each.value == name and may_read(place, branch, each)
    )


def _returning_early(
    place: Located, branch: cst.If, split: SplitTest, test: cst.BaseExpression, yes: Sequence[cst.BaseStatement]
) -> Ways:
    """Rewrite `if test: return a`, some statements, `return b`."""
    torch, imports, python, _ = split
    rest = rest_of(place, branch)
    if not ends_in_return(rest):
        raise Refused(
            "The branch returns early, and the code after it does not end in a `return` of its block. Return "
            "once, at the end."
        )
    value = Reader(place, torch, Shapes.at(place, branch)).side(yes).values[RETURN]
    if python is not None and len(rest) > 1:
        raise Refused(TWO_CONDITIONS)
    if any(isinstance(each, cst.If) for each in rest):
        if not isinstance(place.piece.parents.get(branch), cst.IndentedBlock):
            raise Refused(EARLY_ELIF)
        whole, unsafe = _chosen(place, branch, torch, test, yes, rest)
        yield Rewrite(HOW, (Change((branch, *rest), tuple(whole)),), unsafe, imports)
        return
    last = rest[-1]
    assert isinstance(last, cst.SimpleStatementLine)
    final = last.body[-1]
    assert isinstance(final, cst.Return)
    if len(last.body) > 1 or final.value is None:
        raise Refused(
            "The last `return` has no value, or shares its line. Return a tensor there, on a line of its own."
        )
    between = rest[:-1]
    if not isinstance(place.piece.parents.get(branch), cst.IndentedBlock):
        raise Refused(EARLY_ELIF)
    for statement in between:
        if not isinstance(statement, cst.SimpleStatementLine):
            raise Refused(
                "A block is between the early `return` and the last one, and would always run. Move it in front "
                "of the `if`."
            )
        if (part := effect_in(statement, in_place=True)) is not None:
            raise Refused(
                f"Code between the early `return` and the last one would always run, and {describe_effect(part)}. "
                "Move that in front of the `if`."
            )
    changed = assigned_in(between)
    if any(times_read(node, each) for node in (test, value) for each in names_written(between) - changed):
        raise Refused(CHANGED_LATER.format(quote(value)))
    chooser = Chooser(torch, test, condition_name(place, test), Shapes.at(place, branch))
    of_yes = chooser.shapes.copy()
    chooser.shapes.follow(between)
    before: list[cst.BaseStatement] = []
    if any(times_read(value, each) for each in changed):
        if isinstance(value, cst.Tuple) or any(_changed_in_place(each) for each in between):
            raise Refused(CHANGED_LATER.format(quote(value)))
        chooser.of_yes = of_yes
        name = next(n for n in ("early", "_early", "early_") if n not in place.piece.bound)
        # what is returned early is worked out while its names mean what they meant
        before.append(line_of(cst.Assign([cst.AssignTarget(cst.Name(name))], chooser.guarded(value, True))))
        early = cst.Name(name)
        chosen = chooser.choose(value, final.value)
        assert isinstance(chosen, cst.Call)
        args = [chosen.args[0], chosen.args[1].with_changes(value=early), *chosen.args[2:]]
        chosen = chosen.with_changes(args=args)
    else:
        chosen = chooser.choose(value, final.value)
    made = [*before, *(chooser.guarded(each, False) for each in between), line_of(cst.Return(value=chosen))]
    unsafe = _unsafe(chooser.of_yes or chooser.shapes, value, final.value) if not between else UNSAFE
    whole = where_python(python, chooser.with_condition(made), ())
    yield Rewrite(HOW, (Change((branch, *rest), (*whole, *(rest if python is not None else ()))),), unsafe, imports)


def _changed_in_place(statement: cst.BaseStatement) -> bool:
    return any(isinstance(each, cst.AugAssign) for each in walk(statement))
