"""Rewrite branches on tensors as `torch.cond` in compiled code."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.conditions import SplitTest, as_tensor, in_python, walk
from tcready.fixes.rewriters.rewrites import Decline, Ways, bare, expression, is_compiling, line_of
from tcready.fixes.rewriters.sides import HAS_EFFECT, NO_RESULT, NOT_BOUND
from tcready.fixes.rewriters.statements import (
    assigned_in,
    block_of,
    describe_effect,
    effect_in,
    ends_in_return,
    has_effect,
    is_bound,
    is_none_before,
    is_read_after,
    last_values,
    quote,
    rest_of,
    text,
    times_read,
    values_given,
)
from tcready.static.diagnostics.rule import Change, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located


COND = "torch.cond"
HOW_COND = "In compiled code, `torch.cond` replaces the branch"
NO_TENSOR = (cst.Integer, cst.Float, cst.SimpleString, cst.FormattedString, cst.List, cst.Dict, cst.Tuple)
NO_TENSOR_RETURNED = "A branch returns {}, and each branch must return tensors. Use a tensor for that."
SHORT = 2
"""Maximum number of statements that may be duplicated."""


def where_python(
    python: cst.BaseExpression | None, made: list[cst.BaseStatement], no: Sequence[cst.BaseStatement]
) -> list[cst.BaseStatement]:
    """Return statements that apply if Python evaluates the tensors at all, with the other side if it does not."""
    if python is None:
        return made
    other = cst.Else(body=cst.IndentedBlock(body=no)) if no else None
    made = [made[0].with_changes(leading_lines=()), *made[1:]]
    return [cst.If(test=python, body=cst.IndentedBlock(body=made), orelse=other)]


VIEWS = frozenset(
    "view reshape transpose permute t unsqueeze squeeze expand expand_as flatten contiguous to detach narrow select "
    "chunk split unbind float double half".split()
)


def _fresh(value: cst.BaseExpression) -> cst.BaseExpression:
    """Return a copy of a value that may be an input of a side, or a view of one: `torch.cond` cannot return these."""
    if isinstance(value, (cst.Name, cst.Attribute, cst.Subscript)) or (
        isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.attr.value in VIEWS
    ):
        return expression("a.clone()", a=value)
    return value


def _fresh_where_compiled(value: cst.BaseExpression, torch: str) -> cst.BaseExpression:
    """Return the same in compiled code: eager code returns what it did, which may be no tensor."""
    made = _fresh(value)
    if made is value:
        return value
    return cst.IfExp(body=made, test=is_compiling(torch), orelse=value)


def _from_elsewhere(place: Located, sides: Sequence[cst.BaseStatement]) -> str | None:
    """Return a method or module of self that a side calls, and that a subclass in the file overrides, or the
    constructor takes."""
    around = place.class_around
    for node in (each for side in sides for each in walk(side)):
        func = node.func if isinstance(node, cst.Call) else None
        if around is None or not isinstance(func, cst.Attribute) or text(func.value) != "self":
            continue
        name = func.attr.value
        others = [each for each in place.source.classes if _derives(each, around.name, place.source.classes)]
        if any(getattr(member, "name", "") == name for each in others for member in each.body):
            return name
        stores = [*values_given(ast.walk(around), f"self.{name}")]
        if any(not isinstance(each, ast.Call) for each in stores):
            return name
        init = place.method("__init__")
        given = {each.arg for each in ast.walk(init[0].args) if isinstance(each, ast.arg)} if init else set()
        if any(ast.unparse(each.func) in given for each in stores if isinstance(each, ast.Call)):
            return name
    return None


def _derives(cls: ast.ClassDef, base: str, classes: Sequence[ast.ClassDef], deep: int = 8) -> bool:
    names = {ast.unparse(each).rpartition(".")[2] for each in cls.bases}
    above = [each for each in classes if each.name in names and each is not cls]
    return base in names or (deep > 0 and any(_derives(each, base, classes, deep - 1) for each in above))


def _grouped(node: cst.BaseExpression) -> cst.BaseExpression:
    return node if node.lpar else node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def cond_of_expression(whole: cst.IfExp, torch: str, imports: tuple[str, ...], test: cst.BaseExpression) -> Ways:
    """Return `torch.cond` of two functions without parameters, if a side calls something."""
    sides = (whole.body, whole.orelse)
    if not any(isinstance(each, cst.Call) for side in sides for each in walk(side)):
        return
    if any(isinstance(side, (cst.Tuple, cst.List, cst.Integer, cst.Float)) or text(side) == "None" for side in sides):
        return
    if any(has_effect(side) for side in sides):
        return
    yes, no = (_fresh(side) for side in sides)
    made = expression(f"{torch}.cond(test, lambda: yes, lambda: no)", test=test, yes=bare(yes), no=bare(no))
    alias = expression("made if compiling else whole", made=made, compiling=is_compiling(torch), whole=_grouped(whole))
    yield Rewrite(
        HOW_COND,
        (Change((whole,), (_grouped(alias) if whole.lpar else alias,)),),
        "`torch.cond` requires branches that agree in shape and dtype and have no side effects",
        imports,
    )


def cond_of_statement(place: Located, branch: cst.If, split: SplitTest) -> Ways:
    """Rewrite both sides as functions, for `torch.cond` in compiled code and for the old `if` elsewhere."""
    torch, imports, python, tensors = split
    test, tensor_test = as_tensor(place, torch, tensors), in_python(tensors)
    if isinstance(branch.orelse, cst.If):
        return
    yes = block_of(branch.body)
    no = block_of(branch.orelse.body) if isinstance(branch.orelse, cst.Else) else ()
    returning = ends_in_return(yes)
    rest: tuple[cst.BaseStatement, ...] = ()
    if returning and not no:
        no = rest = rest_of(place, branch)
    if python is not None and (rest or len(no) > SHORT):
        return
    if returning != ends_in_return(no):
        return
    if (name := _from_elsewhere(place, (*yes, *no))) is not None:
        raise Decline(
            f"A subclass or an argument of `__init__` may define `self.{name}`, whose side effects are not known. "
            "If it has "
            "none, call `torch.cond` yourself.",
            rewrite=COND,
        )
    effect = next((found for each in (*yes, *no) if (found := effect_in(each)) is not None), None)
    if effect is not None:
        raise Decline(HAS_EFFECT.format(describe_effect(effect)))
    inner = [*yes, *no][:-1] if not returning else [*yes[:-1], *no[:-1]]
    if any(isinstance(each, (cst.Return, cst.Break, cst.Continue)) for part in inner for each in walk(part)):
        raise Decline(
            "A branch contains a `return`, `break` or `continue` before its end. Assign the result in each branch, "
            "and return it after the `if`.",
            rewrite=COND,
        )
    if not isinstance(place.piece.parents.get(branch), cst.IndentedBlock):
        return
    given = assigned_in(yes) | assigned_in(no)
    if returning:
        results: list[str] = []
        given = set()
    else:
        results = sorted(name for name in given if is_read_after(place, branch, name))
        if not results:
            raise Decline(NO_RESULT, rewrite=COND)
        for name in results:
            on_both = name in assigned_in(yes) and name in assigned_in(no)
            if not on_both and not is_bound(place, branch, name):
                raise Decline(NOT_BOUND.format(name), rewrite=COND)
            if not on_both and is_none_before(place, branch, name):
                raise Decline(NO_TENSOR_RETURNED.format("`None`"), rewrite=COND)
    if any(isinstance(each, cst.Name) and each.value == "super" for each in walk(branch)):
        return
    last = [last_values(side).get(name) for side in (yes, no) for name in results]
    for value in last:
        if value is not None and (isinstance(value, NO_TENSOR) or text(value) == "None"):
            raise Decline(NO_TENSOR_RETURNED.format(quote(value)), rewrite=COND)
    changed = assigned_in(yes) | assigned_in(no)
    params = sorted(
        name
        for name in changed
        if ("." not in name and is_bound(place, branch, name) and any(times_read(part, name) for part in (*yes, *no)))
        or (name in results and not (name in assigned_in(yes) and name in assigned_in(no)))
    )
    taken = place.piece.bound
    names = [next(n for n in (base, f"_{base}", f"{base}_side") if n not in taken) for base in ("if_true", "if_false")]
    functions = [
        _function(name, params, side, results, returning, torch) for name, side in zip(names, (yes, no), strict=True)
    ]
    operands = f"({''.join(f'{p}, ' for p in params)})".replace(", )", ",)" if len(params) == 1 else ")")
    call = expression(f"{torch}.cond(test, {names[0]}, {names[1]}, {operands})", test=test)
    chosen = _grouped(cst.IfExp(tensor_test, cst.Name(names[0]), cst.Name(names[1])))
    plain = cst.Call(chosen, [cst.Arg(cst.Name(each)) for each in params])

    def ending(value: cst.BaseExpression) -> cst.BaseStatement:
        if returning:
            return line_of(cst.Return(value=value))
        return line_of(cst.Assign([cst.AssignTarget(cst.parse_expression(", ".join(results)))], value))  # type: ignore[arg-type]

    both = cst.If(
        test=is_compiling(torch),
        body=cst.IndentedBlock([ending(call)]),
        orelse=cst.Else(body=cst.IndentedBlock([ending(plain)])),
        leading_lines=[cst.EmptyLine(indent=False)],
    )
    yield Rewrite(
        HOW_COND,
        (Change((branch, *rest), tuple(where_python(python, [*functions, both], no))),),
        "`torch.cond` requires branches that agree in shape and dtype and have no side effects",
        imports,
    )


def _function(
    name: str,
    params: Sequence[str],
    side: Sequence[cst.BaseStatement],
    results: Sequence[str],
    returning: bool,
    torch: str,
) -> cst.BaseStatement:
    body = list(side)
    if returning:
        last = body[-1]
        assert isinstance(last, cst.SimpleStatementLine)
        final = last.body[-1]
        assert isinstance(final, cst.Return)
        if final.value is not None and not isinstance(final.value, cst.Tuple):
            value = _fresh_where_compiled(final.value, torch)
            body[-1] = last.with_changes(body=[*last.body[:-1], final.with_changes(value=value)])
    else:
        values = last_values(side)
        parts = [
            _fresh_where_compiled(cst.Name(result), torch)
            if result not in values or (values[result] is not None and _fresh(values[result]) is not values[result])  # type: ignore[arg-type]
            else cst.Name(result)
            for result in results
        ]
        several = [cst.Element(_grouped(each) if isinstance(each, cst.IfExp) else each) for each in parts]
        whole = parts[0] if len(parts) == 1 else cst.Tuple(several, lpar=(), rpar=())
        body.append(line_of(cst.Return(value=whole)))
    made = cst.parse_statement(f"def {name}({', '.join(params)}): pass")
    blank = [cst.EmptyLine(indent=False)]
    return made.with_changes(body=cst.IndentedBlock(body), leading_lines=blank)
