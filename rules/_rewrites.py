"""Changes that several rules suggest, on libcst's concrete tree. Imported only when one is asked for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tcready.static.concrete import Located

IMPORTS_TORCH = re.compile(r"^import torch(\s*$|\s*[,#;])", re.MULTILINE)
Change = tuple[cst.CSTNode, cst.CSTNode]


def names_torch(place: Located) -> bool:
    """The file says `import torch`, so that a change may say `torch.`."""
    return bool(IMPORTS_TORCH.search(place.source.text))


def unless_compiling(place: Located) -> Change | None:
    """A call that stands alone as a statement, put below `if not torch.compiler.is_compiling():`."""
    statement = place.statement
    if (
        not isinstance(statement, cst.SimpleStatementLine)
        or len(statement.body) != 1
        or not names_torch(place)
    ):
        return None
    only = statement.body[0]
    if not isinstance(only, cst.Expr) or only.value is not place.node:
        return None
    guarded = cst.If(
        test=cst.parse_expression("not torch.compiler.is_compiling()"),
        body=cst.IndentedBlock(body=[statement.with_changes(leading_lines=())]),
        leading_lines=statement.leading_lines,
    )
    return statement, guarded


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


def where(test: cst.BaseExpression, yes: cst.BaseExpression, no: cst.BaseExpression) -> cst.BaseExpression:
    """`torch.where(test, yes, no)`."""
    made = cst.parse_expression("torch.where(a, b, c)")
    assert isinstance(made, cst.Call)
    args = [
        arg.with_changes(value=_bare(value)) for arg, value in zip(made.args, (test, yes, no), strict=True)
    ]
    return made.with_changes(args=args)


def _bare(value: cst.BaseExpression) -> cst.BaseExpression:
    """Without the parentheses that the place it came from needed; a tuple keeps its own."""
    if isinstance(value, (cst.Tuple, cst.GeneratorExp, cst.NamedExpr)) or len(value.lpar) != 1:
        return value
    return value.with_changes(lpar=(), rpar=())


def choose_expression(place: Located) -> Change | None:
    """`a if test else b` as `torch.where(test, a, b)`, where the whole test is what was found."""
    parent = place.piece.parents.get(place.node)
    if not isinstance(parent, cst.IfExp) or parent.test is not place.node or not names_torch(place):
        return None
    if not same_shape(parent.test, parent.body, parent.orelse):
        return None
    return parent, where(parent.test, parent.body, parent.orelse)


def choose_statement(place: Located) -> Change | None:
    """An `if` whose two ways return, or assign one name, as one `torch.where`."""
    branch = place.piece.parents.get(place.node)
    if not isinstance(branch, cst.If) or branch.test is not place.node or not names_torch(place):
        return None
    block = place.piece.parents.get(branch)
    if isinstance(block, cst.If):  # an `elif`
        return None
    yes = _only(branch.body)
    if isinstance(branch.orelse, cst.Else):
        return _both_ways(branch, yes, _only(branch.orelse.body))
    if branch.orelse is not None:
        return None
    name = _assigned(yes)
    if isinstance(yes, cst.Assign) and name is not None:
        if not same_shape(branch.test, yes.value, cst.Name(name)):
            return None
        return branch, _line(branch, yes.with_changes(value=where(branch.test, yes.value, cst.Name(name))))
    if isinstance(block, cst.IndentedBlock) and isinstance(yes, cst.Return) and yes.value is not None:
        return _return_early(block, branch, yes.value)
    return None


def _both_ways(
    branch: cst.If, yes: cst.BaseSmallStatement | None, no: cst.BaseSmallStatement | None
) -> Change | None:
    if not isinstance(yes, (cst.Return, cst.Assign)) or not isinstance(no, (cst.Return, cst.Assign)):
        return None
    if not (yes.value and no.value and same_shape(branch.test, yes.value, no.value)):
        return None
    if isinstance(yes, cst.Return) and isinstance(no, cst.Return):
        return branch, _line(branch, cst.Return(value=where(branch.test, yes.value, no.value)))
    if isinstance(yes, cst.Assign) and isinstance(no, cst.Assign):
        name = _assigned(yes)
        if name is not None and name == _assigned(no):
            return branch, _line(branch, yes.with_changes(value=where(branch.test, yes.value, no.value)))
    return None


def _return_early(block: cst.IndentedBlock, branch: cst.If, value: cst.BaseExpression) -> Change | None:
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
    line = _line(branch, cst.Return(value=where(branch.test, value, last.value)))
    body: Sequence[cst.BaseStatement] = (*block.body[:position], line, *block.body[position + 2 :])
    return block, block.with_changes(body=body)


def _line(branch: cst.If, statement: cst.BaseSmallStatement) -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine(body=[statement], leading_lines=branch.leading_lines)


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
