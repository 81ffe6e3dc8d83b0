"""Rewrite work that a mask guards (`if mask.any(): x[mask] = 0`) so that it is always done, if it changes nothing
otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.branches import UNSAFE, is_partial, is_private
from tcready.fixes.rewriters.conditions import (
    NO_DEVICE,
    Leaf,
    Tree,
    is_mask,
    owner_of,
    split_test,
    test_beside,
    value_of,
    without_conversion,
)
from tcready.fixes.rewriters.rewrites import Ways, expression, in_place_of
from tcready.fixes.rewriters.shapes import ELEMENTWISE, Shapes, is_pure
from tcready.fixes.rewriters.sides import Chooser, Refused, condition_name, mask_of_test, operator_of
from tcready.fixes.rewriters.statements import block_of, quote, text
from tcready.static.diagnostics.rule import Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located


AS_LARGE = frozenset(
    "unsqueeze view reshape expand expand_as bool flatten squeeze transpose repeat to float type_as".split()
)
ORDINARY = "The branch contains other code than the statements that a mask guards."
"""The reason for which `choosing_statement` has the rewrite, or a better reason."""
NEUTRAL_OF = {"add": "0", "sub": "0", "mul": "1", "div": "1"}
NEUTRAL = {"+": "0", "-": "0", "*": "1", "/": "1"}


def rewrite_guarded(place: Located) -> Ways:
    """Rewrite an `if` without `else` so that its statements always run, and change nothing if the test is false."""
    branch = owner_of(place)
    if not isinstance(branch, cst.If) or branch.orelse is not None:
        return
    name, imports, python, tensors = split_test(place, branch.test)
    made, how, unsafe = _Unguarded(place, branch, name, tensors).statements()
    if python is not None:
        made = [cst.If(test=python, body=cst.IndentedBlock(made))]
    yield Rewrite(how, (in_place_of(place, branch, tuple(made)),), unsafe, imports)


class _Unguarded:
    def __init__(self, place: Located, branch: cst.If, torch: str, tensors: Tree) -> None:
        self.place, self.branch, self.torch = place, branch, torch
        test = test_beside(place, torch, tensors, branch.body)
        if test is None:
            raise Refused(NO_DEVICE)
        self.test = test
        self.off, self.on = _masks(place, torch, tensors)
        self.uses = 0
        self.named = condition_name(place, self.test)
        self.chooser = Chooser(torch, self.test, self.named, Shapes.at(place, branch))

    def statements(self) -> tuple[list[cst.BaseStatement], str, str]:
        """Return the statements, how they were made and why they may differ. Raises Refused."""
        made: list[cst.BaseStatement] = []
        identical = special = False
        for statement in block_of(self.branch.body):
            if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
                raise Refused(ORDINARY)
            part = statement.body[0]
            if self.is_private(part) or self._is_identity(part):
                identical = identical or not self.is_private(part)
                made.append(statement)
            else:
                new = self._conditional(part)
                special = (
                    special or not isinstance(part, cst.Assign) or not isinstance(part.targets[0].target, cst.Name)
                )
                made.append(statement.with_changes(body=[new]))
            self.chooser.shapes.follow([statement])
        if not identical and not special:
            raise Refused(ORDINARY)
        if not self.uses:
            return (
                made,
                "The guarded code always runs: if the condition is false, it changes nothing",
                "it always runs, and must change nothing if the condition is false",
            )
        made = self.chooser.with_condition(made)
        return made, "The guarded code always runs, with `torch.where` on the condition", UNSAFE

    def is_private(self, part: cst.BaseSmallStatement) -> bool:
        target = part.targets[0].target if isinstance(part, cst.Assign) and len(part.targets) == 1 else None
        return (
            isinstance(target, cst.Name)
            and isinstance(part, cst.Assign)
            and is_pure(part.value)
            and not is_partial(part.value)
            and is_private(self.place, self.branch, target.value, ())
        )

    # what changes nothing where the mask has nothing

    def _is_identity(self, part: cst.BaseSmallStatement) -> bool:
        if isinstance(part, cst.Expr) and isinstance(part.value, cst.Call):
            return self._keeps(part.value, in_place=True) is not None
        if not isinstance(part, cst.Assign) or len(part.targets) != 1 or not is_pure(part.value):
            return False
        target, value = part.targets[0].target, part.value
        if isinstance(target, cst.Subscript):
            return is_pure(target) and any(self._is_off(index) for index in _indexes(target))
        if not isinstance(target, (cst.Name, cst.Attribute)):
            return False
        same = text(target)
        if isinstance(value, cst.Call):
            unchanged = self._keeps(value, in_place=False)
            return unchanged is not None and text(unchanged) == same
        if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Multiply):
            pair = (value.left, value.right)
            return any(text(a) == same and self._is_on(b) for a, b in (pair, pair[::-1]))
        if isinstance(value, cst.Subscript):
            return text(value.value) == same and any(self._is_on(index) for index in _indexes(value))
        return False

    def _keeps(self, call: cst.Call, in_place: bool) -> cst.BaseExpression | None:
        """Return the tensor that a call returns or leaves unchanged."""
        if not isinstance(call.func, cst.Attribute):
            return None
        name, of = call.func.attr.value, call.func.value
        values = [arg.value for arg in call.args if arg.keyword is None]
        keywords = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
        if in_place:
            if not name.endswith("_") or not is_pure(of) or not all(map(is_pure, call.args)):
                return None
            name = name[:-1]
        if text(of) == "torch" and values:
            of, values = values[0], values[1:]
            if name == "where" and len(values) == 2:
                mask, (yes, no) = of, values
                return no if self._is_off(mask) else yes if self._is_on(mask) else None
        if name == "masked_fill" and values:
            return of if self._is_off(values[0]) else None
        if name in ("clamp", "clip") and not values and len(keywords) == 1:
            (bound, limit), sign = *keywords.items(), None
            sign = {"max": ">", "min": "<"}.get(bound)
            return of if sign and self.off == text(expression(f"a {sign} b", a=of, b=limit)) else None
        return None

    def _is_off(self, mask: cst.BaseExpression) -> bool:
        """Return True if a mask has no true element when the test is false."""
        return self._is_kind(mask, self.off)

    def _is_on(self, mask: cst.BaseExpression) -> bool:
        """Return True if a mask has no false element when the test is false."""
        return self._is_kind(mask, self.on)

    def _is_kind(self, mask: cst.BaseExpression, kind: str, deep: int = 4) -> bool:
        if not kind or not deep:
            return False
        if text(mask) == kind:
            return True
        if isinstance(mask, cst.Name):
            value = value_of(self.place, mask.value)
            return value is not None and self._is_kind(value, kind, deep - 1)
        if isinstance(mask, cst.Subscript):
            return all(_is_plain(index) for index in _indexes(mask)) and self._is_kind(mask.value, kind, deep - 1)
        if isinstance(mask, cst.Call) and isinstance(mask.func, cst.Attribute) and mask.func.attr.value in AS_LARGE:
            return self._is_kind(mask.func.value, kind, deep - 1)
        if kind == self.off and isinstance(mask, cst.BinaryOperation) and isinstance(mask.operator, cst.BitAnd):
            return self._is_kind(mask.left, kind, deep - 1) or self._is_kind(mask.right, kind, deep - 1)
        return False

    # what the condition is put into

    def _conditional(self, part: cst.BaseSmallStatement) -> cst.BaseSmallStatement:
        """Make a statement conditional. Raises Refused."""
        self.uses += 1
        torch, test = self.torch, self.named
        if isinstance(part, cst.AugAssign) and is_pure(part.value) and is_pure(part.target):
            neutral = NEUTRAL.get(operator_of(part.operator))
            if neutral is None or self.chooser.shapes.of(part.value) in (None, frozenset()):
                raise Refused(
                    f"{quote(part)} would always run, and the code does not show which operand changes nothing. Assign "
                    "`torch.where(test, new, old)` instead."
                )
            value = expression(f"{torch}.where(test, a, {neutral})", test=test, a=part.value)
            return part.with_changes(value=value)
        if isinstance(part, cst.Assign) and len(part.targets) == 1 and is_pure(part.value):
            target = part.targets[0].target
            if isinstance(target, cst.Subscript) and is_pure(target):
                return self._into(part, target)
            if isinstance(target, (cst.Name, cst.Attribute)):
                old = target
                value = self.chooser.choose(part.value, old)
                return part.with_changes(value=value)
        if isinstance(part, cst.Expr) and isinstance(part.value, cst.Call):
            return part.with_changes(value=self._in_place(part.value))
        raise Refused(ORDINARY)

    def _in_place(self, call: cst.Call) -> cst.Call:
        """Return `x.add_(v)` and similar calls under a condition. Raises Refused."""
        torch, test, func = self.torch, self.named, call.func
        if not isinstance(func, cst.Attribute) or not func.attr.value.endswith("_") or not is_pure(func.value):
            raise Refused(ORDINARY)
        name = func.attr.value[:-1]
        if not all(is_pure(arg.value) for arg in call.args):
            raise Refused(ORDINARY)
        if name == "masked_fill" and call.args:
            mask = expression(f"{torch}.logical_and(a, test)", a=call.args[0].value, test=test)
            return call.with_changes(args=[call.args[0].with_changes(value=mask), *call.args[1:]])
        if name in ("zero", "fill") and len(call.args) == (name == "fill"):
            value = call.args[0].value if call.args else cst.Integer("0")
            made = expression("x.masked_fill_(test, v)", x=func.value, test=test, v=value)
        elif name == "copy" and len(call.args) == 1:
            made = expression(f"x.copy_({torch}.where(test, v, x))", x=func.value, test=test, v=call.args[0].value)
        elif name in NEUTRAL_OF and len(call.args) == 1:
            value = expression(f"{torch}.where(test, v, {NEUTRAL_OF[name]})", test=test, v=call.args[0].value)
            return call.with_changes(args=[call.args[0].with_changes(value=value)])
        elif name in ELEMENTWISE:
            of = expression("x.clone()", x=func.value)  # a gradient may need the old value
            new = call.with_changes(func=func.with_changes(value=of, attr=cst.Name(name)))
            made = expression(f"x.copy_({torch}.where(test, v, x))", x=func.value, test=test, v=new)
        else:
            raise Refused(ORDINARY)
        assert isinstance(made, cst.Call)
        return made

    def _into(self, part: cst.Assign, target: cst.Subscript) -> cst.BaseSmallStatement:
        """Return `x[i] = v` under a condition."""
        torch, test = self.torch, self.named
        indexes = _indexes(target)
        if all(_is_plain(index) for index in indexes):
            value = expression(f"{torch}.where(test, a, old)", test=test, a=part.value, old=target)
            return part.with_changes(value=value)
        (index,) = indexes if len(indexes) == 1 else (None,)
        number = self.chooser.shapes.of(part.value) == frozenset()
        if index is not None and is_mask(self.place, index) and number:
            mask = expression(f"{torch}.logical_and(a, test)", a=index, test=test)
            new = target.with_changes(slice=[cst.SubscriptElement(cst.Index(mask))])
            return part.with_changes(targets=[cst.AssignTarget(new)])
        raise Refused(
            f"`{text(target)}` may select any number of items, so a value of that size is not known. Assign "
            "`torch.where(mask, new, old)` to the whole tensor."
        )


def _masks(place: Located, torch: str, tensors: Tree) -> tuple[str, str]:
    """Return the text of the mask that has no true element if the test is false, and of the one that has no false one.

    Only for booleans: an integer mask that is nonzero everywhere need not be 1 everywhere, one with sum zero need not
    be zero everywhere, and `~` of one is no mask.
    """
    if not isinstance(tensors, Leaf):
        return "", ""
    node = without_conversion(torch, tensors.node)
    if isinstance(node, cst.Name):
        node = value_of(place, node.value) or node
        node = without_conversion(torch, node)
    if tensors.negated:
        mask = mask_of_test(node, "all")
        return _pair(mask)[::-1] if mask is not None and is_mask(place, mask) else ("", "")
    found = mask_of_test(node, "any")
    if found is not None:
        return _pair(found) if is_mask(place, found) else (text(found), "")
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        (only,) = node.comparisons
        left = node.left
        if isinstance(left, cst.Call) and isinstance(left.func, cst.Attribute) and not left.args:
            name, of = left.func.attr.value, left.func.value
            if (
                name == "sum"
                and isinstance(only.operator, (cst.GreaterThan, cst.NotEqual))
                and text(only.comparator) == "0"
            ):
                return _pair(of) if is_mask(place, of) else ("", "")
            greater = isinstance(only.operator, (cst.GreaterThan, cst.GreaterThanEqual))
            less = isinstance(only.operator, (cst.LessThan, cst.LessThanEqual))
            if (name == "max" and greater) or (name == "min" and less):
                return _pair(node.with_changes(left=of, lpar=(), rpar=()))
    return "", ""


def _pair(mask: cst.BaseExpression) -> tuple[str, str]:
    if isinstance(mask, cst.UnaryOperation) and isinstance(mask.operator, cst.BitInvert):
        return text(mask), text(mask.expression)
    return text(mask), text(expression("~a", a=mask))


def _indexes(node: cst.Subscript) -> list[cst.BaseExpression]:
    return [each.slice.value for each in node.slice if isinstance(each.slice, cst.Index)]


def _is_plain(index: cst.BaseExpression) -> bool:
    """Return True for a position, `...` or None; indexes contain no slices."""
    if isinstance(index, cst.UnaryOperation):
        return _is_plain(index.expression)
    return isinstance(index, (cst.Integer, cst.Ellipsis)) or (isinstance(index, cst.Name) and index.value == "None")
