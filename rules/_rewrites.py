"""Changes that several rules suggest, on libcst's concrete tree. Imported only when one is asked for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst
from tcready.static.rule import Change, Declined, Rewrite

if TYPE_CHECKING:
    from tcready.static.concrete import Located

Ways = Iterator[Rewrite | Declined]


def torch_name(place: Located) -> tuple[str, tuple[str, ...]] | None:
    """What the file calls torch, and the import that it lacks; None if the name means something else around the place."""
    names = [
        alias.asname or alias.name
        for statement in place.source.tree.body
        if isinstance(statement, ast.Import)
        for alias in statement.names
        if alias.name == "torch" or (alias.asname is None and alias.name.startswith("torch."))
    ]
    name, needed = (names[0].partition(".")[0], ()) if names else ("torch", ("import torch",))
    bound = place.piece.bound if names else frozenset(_bound(place.source.tree))
    return None if name in bound else (name, needed)


def _bound(tree: ast.Module) -> Iterator[str]:
    """Every name that is given a value anywhere in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]


def expression(code: str, **parts: cst.BaseExpression) -> cst.BaseExpression:
    """An expression of which some names stand for other expressions: `expression("a > 0", a=node)`.

    A part is put in parentheses where it needs them there.
    """
    made = cst.parse_expression(code).visit(_Fill(parts))
    assert isinstance(made, cst.BaseExpression)
    return made


class _Fill(cst.CSTTransformer):
    def __init__(self, parts: dict[str, cst.BaseExpression]) -> None:
        super().__init__()
        self.parts = parts

    def visit_Attribute_attr(self, node: cst.Attribute) -> None:  # noqa: N802  libcst's name
        self.kept = node.attr

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:  # noqa: N802
        part = self.parts.get(original_node.value)
        return updated_node if part is None else in_parentheses(part)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:  # noqa: N802
        # an argument stands between commas: it needs no parentheses of its own
        return updated_node.with_changes(value=bare(updated_node.value), keyword=original_node.keyword)

    def leave_Attribute(  # noqa: N802
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)


TIGHT = (
    cst.Name,
    cst.Attribute,
    cst.Call,
    cst.Subscript,
    cst.Integer,
    cst.Float,
    cst.SimpleString,
    cst.FormattedString,
    cst.List,
    cst.Dict,
    cst.Set,
)
"""What needs no parentheses beside any operator."""


def in_parentheses(value: cst.BaseExpression) -> cst.BaseExpression:
    """In parentheses, unless it needs none beside any operator."""
    if value.lpar or isinstance(value, TIGHT):
        return value
    return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def bare(value: cst.BaseExpression) -> cst.BaseExpression:
    """Without the parentheses that the place it came from needed; a tuple keeps its own."""
    if isinstance(value, (cst.Tuple, cst.GeneratorExp, cst.NamedExpr)) or len(value.lpar) != 1:
        return value
    return value.with_changes(lpar=(), rpar=())


def unless_compiling(place: Located) -> Ways:
    """A call that stands alone as a statement, put below `if not torch.compiler.is_compiling():`."""
    statement = place.statement
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return
    only = statement.body[0]
    if not isinstance(only, cst.Expr) or only.value is not place.node:
        yield Declined("its value is used")
        return
    torch = torch_name(place)
    if torch is None:
        yield Declined("`torch` means something else here")
        return
    assert isinstance(place.node, cst.Call)
    name, imports = torch
    guarded = cst.If(
        test=cst.parse_expression(f"not {name}.compiler.is_compiling()"),
        body=cst.IndentedBlock(body=[statement.with_changes(leading_lines=())]),
    )
    yield Rewrite(
        "It is done where nothing is compiled, and left out of what is compiled",
        (Change((statement,), (guarded,)),),
        None
        if all(is_pure(arg.value) for arg in place.node.args)
        else "an argument is a call, whose effect is lost",
        imports,
    )


def is_pure(value: cst.CSTNode) -> bool:
    """Whether working it out changes nothing: no call, no await, no assignment in it."""
    if isinstance(value, (cst.Call, cst.Await, cst.Yield, cst.NamedExpr)):
        return False
    return all(is_pure(child) for child in value.children)


ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)


def same_shape(test: cst.BaseExpression, yes: cst.BaseExpression, no: cst.BaseExpression) -> bool:
    """Whether both ways are arithmetic on the same names, the tensor that the test asks among them.

    `torch.where` broadcasts, and makes a tensor of a number: any other pair might fail or quietly change what
    comes out.
    """
    used, other = _operands(yes), _operands(no)
    return bool(used) and used == other and bool(_asked(test) & (used or set()))


def _operands(value: cst.BaseExpression) -> set[str] | None:
    """The names an elementwise expression is made of; None if it is not arithmetic on names and numbers."""
    if isinstance(value, cst.Name):
        return {value.value}
    if isinstance(value, (cst.Integer, cst.Float)):
        return set()
    if isinstance(value, cst.UnaryOperation) and isinstance(value.operator, cst.Minus):
        return _operands(value.expression)
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, ARITHMETIC):
        left, right = _operands(value.left), _operands(value.right)
        return None if left is None or right is None else left | right
    return None


def _asked(test: cst.CSTNode) -> set[str]:
    """Names whose methods a test calls: `y` in `y.sum() > 0`."""
    found = {name for child in test.children for name in _asked(child)}
    if (
        isinstance(test, cst.Call)
        and isinstance(test.func, cst.Attribute)
        and isinstance(test.func.value, cst.Name)
    ):
        found.add(test.func.value.value)
    return found


def where(
    torch: str, test: cst.BaseExpression, yes: cst.BaseExpression, no: cst.BaseExpression
) -> cst.BaseExpression:
    """`torch.where(test, yes, no)`."""
    return expression(f"{torch}.where(test, yes, no)", test=test, yes=yes, no=no)


WHERE = "`torch.where` takes the place of the branch: both sides are worked out, and one is chosen"
BOTH_SIDES = "both sides are worked out, so that a value of one that is not finite, or another dtype, may reach the other"
OTHER_SHAPE = "the two sides are not arithmetic on the same names: `torch.where` might change what comes out"


def choose_expression(place: Located) -> Ways:
    """`a if test else b` as `torch.where(test, a, b)`, where the whole test is what was found."""
    parent = place.piece.parents.get(place.node)
    if not isinstance(parent, cst.IfExp) or parent.test is not place.node:
        return
    torch = torch_name(place)
    if torch is None:
        yield Declined("`torch` means something else here")
    elif not same_shape(parent.test, parent.body, parent.orelse):
        yield Declined(OTHER_SHAPE)
    else:
        made = where(torch[0], parent.test, parent.body, parent.orelse)
        yield Rewrite(WHERE, (Change((parent,), (made,)),), BOTH_SIDES, torch[1])


def choose_statement(place: Located) -> Ways:
    """An `if` whose two ways return, or assign one name, as one `torch.where`."""
    branch = place.piece.parents.get(place.node)
    if not isinstance(branch, cst.If) or branch.test is not place.node:
        return
    torch = torch_name(place)
    if torch is None:
        yield Declined("`torch` means something else here")
        return
    block = place.piece.parents.get(branch)
    if isinstance(block, cst.If):
        yield Declined("it is an `elif`")
        return
    change = _as_where(torch[0], block, branch)
    if change is None:
        yield Declined(OTHER_SHAPE)
    else:
        yield Rewrite(WHERE, (change,), BOTH_SIDES, torch[1])


def _as_where(torch: str, block: cst.CSTNode | None, branch: cst.If) -> Change | None:
    yes = _only(branch.body)
    if isinstance(branch.orelse, cst.Else):
        return _both_ways(torch, branch, yes, _only(branch.orelse.body))
    if branch.orelse is not None:
        return None
    name = _assigned(yes)
    if isinstance(yes, cst.Assign) and name is not None:
        if not same_shape(branch.test, yes.value, cst.Name(name)):
            return None
        made = where(torch, branch.test, yes.value, cst.Name(name))
        return Change((branch,), (_line(yes.with_changes(value=made)),))
    if isinstance(block, cst.IndentedBlock) and isinstance(yes, cst.Return) and yes.value is not None:
        return _return_early(torch, block, branch, yes.value)
    return None


def _both_ways(
    torch: str, branch: cst.If, yes: cst.BaseSmallStatement | None, no: cst.BaseSmallStatement | None
) -> Change | None:
    if not isinstance(yes, (cst.Return, cst.Assign)) or not isinstance(no, (cst.Return, cst.Assign)):
        return None
    if not (yes.value and no.value and same_shape(branch.test, yes.value, no.value)):
        return None
    made = where(torch, branch.test, yes.value, no.value)
    if isinstance(yes, cst.Return) and isinstance(no, cst.Return):
        return Change((branch,), (_line(cst.Return(value=made)),))
    if isinstance(yes, cst.Assign) and isinstance(no, cst.Assign):
        name = _assigned(yes)
        if name is not None and name == _assigned(no):
            return Change((branch,), (_line(yes.with_changes(value=made)),))
    return None


def _return_early(
    torch: str, block: cst.IndentedBlock, branch: cst.If, value: cst.BaseExpression
) -> Change | None:
    """`if test: return a` followed by `return b`."""
    position = next(i for i, s in enumerate(block.body) if s is branch)
    following = block.body[position + 1] if position + 1 < len(block.body) else None
    if not isinstance(following, cst.SimpleStatementLine) or len(following.body) != 1:
        return None
    last = following.body[0]
    if (
        not isinstance(last, cst.Return)
        or last.value is None
        or not same_shape(branch.test, value, last.value)
    ):
        return None
    made = where(torch, branch.test, value, last.value)
    return Change((branch, following), (_line(cst.Return(value=made)),))


def _line(statement: cst.BaseSmallStatement) -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine(body=[statement])


def _only(body: cst.BaseSuite) -> cst.BaseSmallStatement | None:
    """The one simple statement a block consists of, or None."""
    if isinstance(body, cst.SimpleStatementSuite):
        return body.body[0] if len(body.body) == 1 else None
    if len(body.body) == 1 and isinstance(body.body[0], cst.SimpleStatementLine):
        line = body.body[0]
        return line.body[0] if len(line.body) == 1 else None
    return None


def _assigned(statement: cst.BaseSmallStatement | None) -> str | None:
    """The plain name that is assigned, or None."""
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
        return target.value if isinstance(target, cst.Name) else None
    return None
