"""Read one side of a branch, and combine both sides in one expression that chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import libcst as cst
from tcready.fixes.rewriters.conditions import (
    MIXED,
    NO_DEVICE,
    is_exact,
    is_of_python,
    is_of_tensor,
    test_beside,
    tree_of,
)
from tcready.fixes.rewriters.rewrites import Decline, bare, expression, line_of
from tcready.fixes.rewriters.shapes import Shapes, impure_part
from tcready.fixes.rewriters.statements import (
    assigned_in,
    block_of,
    describe_effect,
    else_of,
    is_bound,
    is_torch,
    names_written,
    quote,
    text,
    times_read,
)

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located


PARTIAL = frozenset(
    "acos acosh asin atanh exp expm1 log log10 log1p log2 logit norm pow reciprocal rsqrt sqrt std xlogy".split()
)
"""Functions with a gradient that is not finite for some operands: zero times it is NaN."""


FILLERS = {"acos": "0", "asin": "0", "atanh": "0", "logit": "0.5", "acosh": "2"}
"""Operands with a finite gradient, for functions without one at 1."""
OTHER_SHAPE = (
    "The code does not show that {} and {} have the same shape, and `torch.where` would broadcast them. If they "
    "do, write `torch.where` there yourself."
)
WHERE = "torch.where"
NO_RESULT = "No branch computes a value that is used after the `if`. Remove the `if`, or use its values."
AFTER_RETURN = "A branch has code after its `return`. Remove that code."
ONE_RETURNS = "One branch returns and the other does not. Assign the result in both, and return it after the `if`."
NOT_BOUND = "`{0}` is assigned in one branch only, and has no value before the `if`. Assign `{0}` in front of it."
HAS_EFFECT = (
    "{}, but `torch.where` would run both branches, and `torch.cond` allows no side effects in a branch. Move that "
    "in front of the `if`, or after it."
)
RETURNS_NONE = "A branch returns no value, and `torch.where` selects between tensors. Return a tensor in each branch."
BLOCKS = {
    cst.For: "for",
    cst.While: "while",
    cst.With: "with",
    cst.Try: "try",
    cst.TryStar: "try",
    cst.Match: "match",
    cst.FunctionDef: "def",
    cst.ClassDef: "class",
}
HAS_BLOCK = (
    "A branch contains a `{}` block, and the value of each branch has to be one expression. Compute the values in "
    "front of the `if`, and choose one of them in it."
)


class Refused(Decline):
    """A branch cannot be one expression; the message is the reason."""

    def __init__(self, reason: str, rewrite: str = WHERE) -> None:
        super().__init__(reason, rewrite)


@dataclass
class Side:
    """The result of a side: names (or attributes of self, or `return`) with the expressions of their values, in
    terms of the names before the branch."""

    values: dict[str, cst.BaseExpression] = field(default_factory=dict)
    targets: dict[str, cst.BaseAssignTargetExpression] = field(default_factory=dict)
    returns: bool = False
    in_place: bool = False


RETURN = "return"


@dataclass
class Reader:
    """Reads sides: straight-line code, and branches in it."""

    place: Located
    torch: str
    shapes: Shapes

    def side(self, statements: Sequence[cst.BaseStatement], known: Side | None = None) -> Side:
        """Return the result of statements, after what is `known`. Raises Refused."""
        side = Side(dict(known.values), dict(known.targets), in_place=known.in_place) if known else Side()
        for position, statement in enumerate(statements):
            if side.returns:
                raise Refused(AFTER_RETURN)
            if isinstance(statement, cst.If):
                if self.branch(side, statement, statements[position + 1 :]):
                    break
            elif isinstance(statement, cst.SimpleStatementLine):
                for part in statement.body:
                    if side.returns:
                        raise Refused(AFTER_RETURN)
                    self.read(side, part)
            else:
                raise Refused(HAS_BLOCK.format(BLOCKS.get(type(statement), "compound")))
        return side

    def branch(self, side: Side, branch: cst.If, rest: Sequence[cst.BaseStatement]) -> bool:
        """Read a branch, and if it returns early, the rest too; return True in that case."""
        yes = self.side(block_of(branch.body), side)
        early = yes.returns and branch.orelse is None
        no = self.side(rest if early else else_of(branch), side)
        if yes.returns != no.returns:
            raise Refused(ONE_RETURNS)
        tree = tree_of(self.place, branch.test)
        if not (is_of_tensor(tree) or is_of_python(tree)):
            raise Refused(MIXED)
        of_tensor = is_of_tensor(tree)
        test = test_beside(self.place, self.torch, tree, branch.body, *rest) if of_tensor else branch.test
        if test is None:
            raise Refused(NO_DEVICE)
        test = _filled(test, side.values)
        chooser = Chooser(self.torch, test, test, self.shapes)
        for name in dict.fromkeys([*yes.values, *no.values]):
            target = yes.targets.get(name) or no.targets.get(name)
            old = side.values.get(name) or (cst.Name(name) if target is None else target)
            assert isinstance(old, cst.BaseExpression)
            on_both = name in yes.values and name in no.values
            if not (on_both or name in side.values or is_bound(self.place, branch, name)):
                raise Refused(NOT_BOUND.format(name))
            pair = yes.values.get(name, old), no.values.get(name, old)
            if of_tensor:
                side.values[name] = chooser.choose(*pair)
            else:
                side.values[name] = expression("yes if test else no", test=test, yes=pair[0], no=pair[1])
            if target is not None:
                side.targets[name] = target
        side.returns = yes.returns
        side.in_place = side.in_place or yes.in_place or no.in_place
        return early

    def read(self, side: Side, part: cst.BaseSmallStatement) -> None:
        if isinstance(part, cst.Pass) or (isinstance(part, cst.Expr) and isinstance(part.value, cst.SimpleString)):
            return
        if isinstance(part, cst.Return):
            if part.value is None:
                raise Refused(RETURNS_NONE)
            side.values[RETURN] = _filled(part.value, side.values)
            side.returns = True
        elif isinstance(part, cst.Assign):
            value = _filled(part.value, side.values)
            for each in part.targets:
                _assign(side, each.target, value, part)
        elif isinstance(part, cst.AnnAssign) and part.value is not None:
            _assign(side, part.target, _filled(part.value, side.values), part)
        elif isinstance(part, cst.AugAssign):
            operator = operator_of(part.operator)
            old = part.target
            assert isinstance(old, cst.BaseExpression)
            value = expression(f"a {operator} b", a=_filled(old, side.values), b=_filled(part.value, side.values))
            side.in_place = True
            _assign(side, part.target, value, part)
        elif isinstance(part, (cst.Break, cst.Continue)):
            raise Refused(f"A branch ends in {quote(part)}, and a graph cannot leave a loop depending on a tensor.")
        elif isinstance(part, cst.Raise):
            raise Refused(
                "A branch raises an exception, and both branches would run. Put the check into an `if` of its own."
            )
        elif isinstance(part, cst.Expr):
            raise Refused(HAS_EFFECT.format(describe_effect(part.value)), rewrite="")
        else:
            raise Refused(f"A branch contains {quote(part)}, which is no assignment. Move it out of the branches.")


def _assign(
    side: Side, target: cst.BaseAssignTargetExpression, value: cst.BaseExpression, part: cst.BaseSmallStatement
) -> None:
    """Add what the statement `part` assigns to one target. Raises Refused."""
    if isinstance(target, cst.Tuple):
        if not isinstance(value, cst.Tuple) or len(value.elements) != len(target.elements):
            raise Refused(f"A branch unpacks {quote(value)} into several names. Assign each of them separately.")
        for to, of in zip(target.elements, value.elements, strict=True):
            if not isinstance(to, cst.Element) or not isinstance(of, cst.Element):
                raise Refused("A branch unpacks with `*`. Assign each name separately.")
            _assign(side, to.value, of.value, part)  # type: ignore[arg-type]
        return
    name = text(target)
    if isinstance(target, cst.Attribute):
        if not isinstance(target.value, cst.Name) or target.value.value != "self":
            raise Refused(HAS_EFFECT.format(describe_effect(part)), rewrite="")
    elif not isinstance(target, cst.Name):
        raise Refused(HAS_EFFECT.format(describe_effect(part)), rewrite="")
    if (impure := impure_part(value)) is not None:
        raise Refused(HAS_EFFECT.format(describe_effect(impure)), rewrite="")
    side.values[name] = value
    side.targets[name] = target


def operator_of(operator: cst.BaseAugOp) -> str:
    return cst.Module([]).code_for_node(operator).strip().removesuffix("=")


def _filled(node: cst.BaseExpression, values: Mapping[str, cst.BaseExpression]) -> cst.BaseExpression:
    """Return an expression with names replaced by their assigned values. Raises Refused if one would be evaluated
    twice."""
    used = {name: value for name, value in values.items() if name != RETURN and times_read(node, name)}
    if not used:
        return node
    for name, value in used.items():
        if "." in name:
            raise Refused(f"A branch reads `{name}` after assigning it. Use a local variable for the new value.")
        if not isinstance(value, (cst.Name, cst.Attribute, cst.Integer, cst.Float)) and times_read(node, name) > 1:
            raise Refused(
                f"`{name}` is used more than once in a branch, and {quote(value)} would be computed as often. "
                "Compute it in front of the `if`."
            )
    return expression(text(node), **used)


@dataclass
class Chooser:
    """Makes `torch.where` expressions for one condition, named `named` there."""

    torch: str
    test: cst.BaseExpression
    named: cst.BaseExpression
    shapes: Shapes
    of_yes: Shapes | None = None
    """Names of the taken side that mean something else than in the other."""

    def choose(self, yes: cst.BaseExpression, no: cst.BaseExpression) -> cst.BaseExpression:
        """Return the choice. Raises Refused if the two might differ in shape or kind."""
        if text(yes) == text(no) and self.of_yes is None:
            return yes
        if isinstance(yes, cst.Tuple) and isinstance(no, cst.Tuple) and len(yes.elements) == len(no.elements):
            made = [
                a.with_changes(value=self.choose(a.value, b.value))
                for a, b in zip(yes.elements, no.elements, strict=True)
            ]
            return yes.with_changes(elements=made)
        for side in (yes, no):
            if (part := impure_part(side)) is not None:
                raise Refused(HAS_EFFECT.format(describe_effect(part)), rewrite="")
            if isinstance(side, (cst.Tuple, cst.List, cst.Dict, cst.SimpleString, cst.ListComp)):
                raise Refused(f"{quote(side)} is not a tensor, and `torch.where` selects between tensors.")
        special = mean_of_selected(self.torch, self.test, yes, no)
        if special is not None:
            return special
        a, b = (self.of_yes or self.shapes).of(yes), self.shapes.of(no)
        if a is None or b is None or a != b:
            raise Refused(OTHER_SHAPE.format(quote(yes), quote(no)))
        scaled = self._scaled(yes, no, True) or self._scaled(no, yes, False)
        if scaled is not None:
            return scaled
        yes, no = self.guarded(yes, True), self.guarded(no, False)
        if not a and self.shapes.is_number(yes) and self.shapes.is_number(no):
            yes = number_as_tensor(self.torch, yes, no)
        return expression(f"{self.torch}.where(test, yes, no)", test=self.named, yes=yes, no=no)

    def _scaled(self, changed: cst.BaseExpression, plain: cst.BaseExpression, taken: bool) -> cst.BaseExpression | None:
        """Return `x * torch.where(test, factor, 1)` in place of `x * factor`, on the side `taken`, and `x` on the
        other: the side not chosen adds no NaN to a gradient. Likewise for a quotient; None for another side, and for
        a Python factor."""
        if not isinstance(changed, cst.BinaryOperation) or self.of_yes is not None:
            return None
        factor = changed.right
        if (
            not isinstance(changed.operator, (cst.Multiply, cst.Divide))
            or text(changed.left) != text(plain)
            or self.shapes.is_number(factor)
        ):
            return None
        order = "factor, 1" if taken else "1, factor"
        chosen = expression(
            f"{self.torch}.where(test, {order})", test=self.named, factor=bare(self.guarded(factor, taken))
        )
        return changed.with_changes(right=chosen)

    def guarded(self, node: Node, taken: bool) -> Node:
        """Return a side with harmless operands where it is not taken: no NaN or infinity reaches the gradient of the
        other."""
        return node.visit(_Guard(self, taken))  # type: ignore[return-value]  # a node in place of a node

    def with_condition(self, made: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        """Return statements with the condition in place of its name, or after its assignment if it is used twice."""
        if self.named is self.test or not isinstance(self.named, cst.Name):
            return made
        name = self.named.value
        uses = [each for each in made if times_read(each, name)]
        if sum(times_read(each, name) for each in uses) == 1:
            at = made.index(uses[0])
            if not any(times_read(self.test, each) for each in assigned_in(made[:at]) | names_written(made[:at])):
                return [put(each, self.named, self.test) for each in made]
        if not uses:
            return made
        return [line_of(cst.Assign([cst.AssignTarget(self.named)], self.test)), *made]


def number_as_tensor(torch: str, number: cst.BaseExpression, *others: cst.BaseExpression) -> cst.BaseExpression:
    """Return a number that becomes a tensor together with others, with all digits of Python's; the number itself if
    torch's default dtype represents all of them exactly."""
    if all(map(is_exact, (number, *others))):
        return number
    return expression(f"{torch}.tensor(a, dtype={torch}.float64)", a=number)


Node = TypeVar("Node", bound=cst.CSTNode)


def condition_name(place: Located, test: cst.BaseExpression) -> cst.BaseExpression:
    """Return a name for a condition that is used more than once; the condition itself if it is a name."""
    if isinstance(test, cst.Name):
        return test
    taken = place.piece.bound
    return cst.Name(next(n for n in ("condition", "_condition", "condition_") if n not in taken))


def put(statement: cst.BaseStatement, name: cst.Name, value: cst.BaseExpression) -> cst.BaseStatement:
    made = statement.visit(_Put(name.value, value))
    assert isinstance(made, cst.BaseStatement)
    return made


class _Put(cst.CSTTransformer):
    """Replaces a name by an expression among the arguments of calls."""

    def __init__(self, name: str, value: cst.BaseExpression) -> None:
        super().__init__()
        self.name, self.value = name, value

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:  # noqa: N802  libcst's name
        value = updated_node.value
        if isinstance(value, cst.Name) and value.value == self.name:
            return updated_node.with_changes(value=bare(self.value))
        return updated_node


def mean_of_selected(
    torch: str, test: cst.BaseExpression, yes: cst.BaseExpression, no: cst.BaseExpression
) -> cst.BaseExpression | None:
    """Rewrite `x[m].mean() if m.any() else 0` as a sum over the mask and its count."""
    call = yes
    if not (
        isinstance(no, (cst.Integer, cst.Float))
        and isinstance(call, cst.Call)
        and isinstance(call.func, cst.Attribute)
        and call.func.attr.value in ("mean", "sum")
        and not call.args
        and isinstance(call.func.value, cst.Subscript)
    ):
        return None
    taken = call.func.value
    index = taken.slice[0].slice if len(taken.slice) == 1 else None
    if not isinstance(index, cst.Index):
        return None
    mask = mask_of_test(test, "any")
    if mask is None or text(mask) != text(index.value) or float(no.value) != 0:
        return None
    total = f"{torch}.where(m, x, 0).sum()"
    if call.func.attr.value == "mean":
        total += " / m.sum().clamp(min=1)"
    return expression(total, m=index.value, x=taken.value)


def mask_of_test(test: cst.BaseExpression, name: str) -> cst.BaseExpression | None:
    """Return the mask in `mask.any()` and `torch.any(mask)`, or in those of `all`."""
    if isinstance(test, cst.Call) and isinstance(test.func, cst.Attribute) and test.func.attr.value == name:
        if not is_torch(test.func.value):
            return test.func.value if not test.args else None
        return test.args[0].value if len(test.args) == 1 else None
    return None


class _Guard(cst.CSTTransformer):
    def __init__(self, chooser: Chooser, taken: bool) -> None:
        super().__init__()
        self.chooser, self.taken = chooser, taken

    def safe(self, node: cst.BaseExpression, filler: str = "1") -> cst.BaseExpression:
        order = f"node, {filler}" if self.taken else f"{filler}, node"
        return expression(f"{self.chooser.torch}.where(test, {order})", test=self.chooser.named, node=node)

    def harmless(self, node: cst.BaseExpression) -> bool:
        """Return True for a number that is not zero, or a Python number, which raises if it is."""
        return _harmless(node) or (
            not isinstance(node, (cst.Integer, cst.Float)) and self.chooser.shapes.is_number(node)
        )

    def leave_BinaryOperation(  # noqa: N802  libcst's name
        self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation
    ) -> cst.BaseExpression:
        operator = updated_node.operator
        if isinstance(operator, (cst.Divide, cst.FloorDivide, cst.Modulo)) and not self.harmless(updated_node.right):
            return updated_node.with_changes(right=self.safe(updated_node.right))
        if isinstance(operator, cst.Power) and not (
            isinstance(updated_node.right, cst.Integer) or isinstance(updated_node.left, (cst.Integer, cst.Float))
        ):
            return updated_node.with_changes(left=self.safe(updated_node.left))
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:  # noqa: N802
        func = updated_node.func
        if not isinstance(func, cst.Attribute):
            return updated_node
        name = func.attr.value
        args = updated_node.args
        if name in ("div", "divide", "fmod", "remainder", "true_divide", "floor_divide"):
            position = 1 if is_torch(func.value) else 0
            if len(args) > position and not self.harmless(args[position].value):
                return _with_arg(updated_node, position, self.safe(args[position].value))
            return updated_node
        if name not in PARTIAL or text(func).startswith("math."):
            return updated_node
        filler = FILLERS.get(name, "1")
        if is_torch(func.value):
            if not args or self.harmless(args[0].value):
                return updated_node
            return _with_arg(updated_node, 0, self.safe(args[0].value, filler))
        if self.harmless(func.value):
            return updated_node
        return updated_node.with_changes(func=func.with_changes(value=self.safe(func.value, filler)))


def _with_arg(call: cst.Call, position: int, value: cst.BaseExpression) -> cst.Call:
    args = list(call.args)
    args[position] = args[position].with_changes(value=value)
    return call.with_changes(args=args)


def _harmless(node: cst.BaseExpression) -> bool:
    """Return True for a number that is not zero, or the result of one of our `where`."""
    if isinstance(node, cst.UnaryOperation):
        return _harmless(node.expression)
    if isinstance(node, (cst.Integer, cst.Float)):
        return node.evaluated_value != 0
    return text(node).startswith("math.")
