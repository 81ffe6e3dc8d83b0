"""Conditions on tensors: split the test of a branch into a part that Python decides and a part that becomes one bool
tensor."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import libcst as cst
from tcready.fixes.rewriters.rewrites import Decline, expression, in_parentheses, joined, torch_of
from tcready.static.diagnostics.rule import Change, Declined, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located

Owner: TypeAlias = "cst.If | cst.IfExp | cst.While | cst.Assert"

OF_BOOL = frozenset(
    "all any bool eq ge gt isclose isfinite isin isinf isnan isneginf isposinf isreal le logical_and logical_not "
    "logical_or logical_xor lt ne not_equal signbit".split()
)
"""Methods and functions of torch that give a bool tensor."""
OF_NUMBERS = frozenset(
    "abs amax amin argmax argmin count_nonzero item max mean median min norm prod std sum var".split()
)
OF_PYTHON = frozenset({"allclose", "equal", "is_nonzero"})
"""Those that return a Python bool, for which they read the tensor."""
PLAIN = frozenset({"callable", "hasattr", "isinstance", "issubclass", "len"})
"""Built-in functions that return a Python value for any argument."""
NOT_TORCH = frozenset({"math", "np", "numpy", "operator", "builtins"})
MIXED = (
    "The condition mixes tensors and Python values, so neither part can be evaluated alone. Use an `if` for each part."
)


@dataclass(frozen=True)
class Leaf:
    """One operand of a test. `negated`: its opposite is tested."""

    node: cst.BaseExpression
    of_tensor: bool
    negated: bool


@dataclass(frozen=True)
class Joined:
    """`and` (`every`) or `or` of several, in their order."""

    parts: tuple[Tree, ...]
    every: bool


Tree: TypeAlias = "Leaf | Joined"


def owner_of(place: Located) -> Owner | None:
    """Return the statement or expression with a test that contains the finding as an operand."""
    node: cst.CSTNode = place.node
    while True:
        parent = place.piece.parents.get(node)
        if isinstance(parent, (cst.If, cst.IfExp, cst.While, cst.Assert)):
            return parent if parent.test is node else None
        if isinstance(parent, (cst.Arg, cst.ComparisonTarget)):
            node, parent = parent, place.piece.parents.get(parent)
        if (
            isinstance(parent, (cst.BooleanOperation, cst.UnaryOperation, cst.Comparison))
            or (isinstance(parent, cst.Call) and _strips(parent))
            or (isinstance(parent, cst.Attribute) and parent.attr.value == "item")
        ):
            node = parent
        else:
            return None


def _strips(call: cst.Call) -> bool:
    """Return True if a call only converts a tensor to a Python value: `bool(t)`, `t.item()`."""
    if isinstance(call.func, cst.Name):
        return call.func.value in ("bool", "float", "int") and len(call.args) == 1
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "item" and not call.args


def tree_of(place: Located, test: cst.BaseExpression, negated: bool = False) -> Tree:
    """Return a test as `and` and `or` of its operands, with every `not` pushed to these."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return tree_of(place, test.expression, not negated)
    if isinstance(test, cst.BooleanOperation):
        parts: list[Tree] = []
        every = isinstance(test.operator, cst.And) != negated
        for side in (test.left, test.right):
            part = tree_of(place, side, negated)
            parts += part.parts if isinstance(part, Joined) and part.every == every else (part,)
        return Joined(tuple(parts), every)
    return Leaf(test, _is_of_tensor(place, test), negated)


def opposite(tree: Tree) -> Tree:
    if isinstance(tree, Leaf):
        return Leaf(tree.node, tree.of_tensor, not tree.negated)
    return Joined(tuple(map(opposite, tree.parts)), not tree.every)


def is_of_tensor(tree: Tree) -> bool:
    """Return True if every operand is a tensor."""
    return tree.of_tensor if isinstance(tree, Leaf) else all(map(is_of_tensor, tree.parts))


def is_of_python(tree: Tree) -> bool:
    """Return True if no operand is a tensor."""
    return not tree.of_tensor if isinstance(tree, Leaf) else all(map(is_of_python, tree.parts))


def split_by_python(tree: Tree) -> tuple[cst.BaseExpression | None, Tree] | None:
    """Split a test into the part that Python decides first, and the tensors' part; None if they are mixed with `or`.

    A Python operand after one of tensors is then evaluated first: it must not call anything.
    """
    if is_of_tensor(tree):
        return None, tree
    if isinstance(tree, Leaf) or not tree.every:
        return None
    python: list[Tree] = []
    tensors: list[Tree] = []
    for part in tree.parts:
        if is_of_tensor(part):
            tensors.append(part)
        elif is_of_python(part):
            if tensors and not _may_be_evaluated_early(part):
                return None
            python.append(part)
        else:
            return None
    if not tensors:
        return None
    return in_python(_joined(python)), _joined(tensors)


def _joined(parts: Sequence[Tree]) -> Tree:
    return parts[0] if len(parts) == 1 else Joined(tuple(parts), every=True)


def _may_be_evaluated_early(tree: Tree) -> bool:
    if isinstance(tree, Joined):
        return all(map(_may_be_evaluated_early, tree.parts))
    return not any(isinstance(node, (cst.Call, cst.Subscript, cst.Await)) for node in walk(tree.node))


def in_python(tree: Tree) -> cst.BaseExpression:
    """Return a test as a Python expression."""
    if isinstance(tree, Joined):
        made = in_python(tree.parts[0])
        for part in tree.parts[1:]:
            made = cst.BooleanOperation(
                _operand(made), cst.And() if tree.every else cst.Or(), _operand(in_python(part))
            )
        return made
    if not tree.negated:
        return tree.node
    if isinstance(tree.node, cst.Comparison) and len(tree.node.comparisons) == 1:
        (only,) = tree.node.comparisons
        for there, turned in ((cst.Is, cst.IsNot), (cst.IsNot, cst.Is)):
            if isinstance(only.operator, there):
                return tree.node.with_changes(comparisons=[only.with_changes(operator=turned())])
    return expression("not a", a=tree.node)


def _operand(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return an operand in parentheses, unless `and` and `or` bind less."""
    return node if isinstance(node, (cst.Comparison, cst.UnaryOperation, cst.BinaryOperation)) else in_parentheses(node)


def as_tensor(place: Located, torch: str, tree: Tree, beside: cst.BaseExpression | None = None) -> cst.BaseExpression:
    """Return a test of tensors as one bool tensor; operands that are made on the CPU go to the device of `beside`."""
    if isinstance(tree, Joined):
        parts = (as_tensor(place, torch, part, beside) for part in tree.parts)
        return joined(torch, "and" if tree.every else "or", parts)
    made = without_conversion(torch, tree.node)
    if tree.negated:
        made = expression(f"{torch}.logical_not(a)", a=made)
    elif not is_mask(place, made):
        made = expression("a.bool()", a=made)
    if beside is not None and is_made_on_cpu(place, torch, tree.node):
        made = expression("a.to(b.device)", a=made, b=beside)
    return made


FACTORIES = frozenset(
    "arange empty eye full linspace normal ones rand randint randn randperm scalar_tensor tensor zeros".split()
)
"""Functions of torch that make a tensor on the CPU by default."""
STORED = (cst.AssignTarget, cst.AnnAssign, cst.For, cst.NamedExpr, cst.Element)
NO_DEVICE = (
    "The condition is computed on the CPU, and no tensor with a name shows the device that it has to move to. "
    "Create it on the device of the values (`device=x.device`)."
)


def test_beside(place: Located, torch: str, tree: Tree, *nodes: cst.CSTNode) -> cst.BaseExpression | None:
    """Return a test of tensors as one bool tensor on the device of the tensors in `nodes`, for use in one operator
    of torch. None if it would have to be moved there, and these have no name."""
    leaves = _leaves(tree)
    on_cpu = [is_made_on_cpu(place, torch, leaf.node) for leaf in leaves]
    if not any(on_cpu):
        return as_tensor(place, torch, tree)
    others = [leaf.node for leaf, made in zip(leaves, on_cpu, strict=True) if not made]
    beside = next((name for node in (*nodes, *others) for name in _tensor_names(place, torch, node)), None)
    return None if beside is None else as_tensor(place, torch, tree, beside)


def _leaves(tree: Tree) -> list[Leaf]:
    return [tree] if isinstance(tree, Leaf) else [leaf for part in tree.parts for leaf in _leaves(part)]


def is_made_on_cpu(place: Located, torch: str, node: cst.BaseExpression, deep: int = 3) -> bool:
    """Return True if an expression creates its tensors itself, without a device: `torch.rand(1) < self.rate`."""
    made = False
    for each in walk(node):
        if isinstance(each, cst.Name):
            value = value_of(place, each.value) if deep else None
            made = made or (value is not None and is_made_on_cpu(place, torch, value, deep - 1))
        if not isinstance(each, cst.Call) or not isinstance(each.func, cst.Attribute):
            continue
        of_torch = isinstance(each.func.value, cst.Name) and each.func.value.value == torch
        if of_torch and each.func.attr.value in FACTORIES:
            if any(arg.keyword is not None and arg.keyword.value == "device" for arg in each.args):
                return False
            made = True
        elif any(_is_of_name(part, torch) for part in (each.func.value, *(arg.value for arg in each.args))):
            return False  # of a tensor that was there before
    return made


def _is_of_name(node: cst.BaseExpression, torch: str) -> bool:
    """Return True for a name or an attribute, except torch and its modules."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
    return isinstance(node, cst.Name) and node.value != torch


def _tensor_names(place: Located, torch: str, node: cst.CSTNode) -> Iterator[cst.Name]:
    """Return the local names that are operands in a node and have a value before it, in order, without numbers."""
    begins = place.piece.positions[place.statement].start.line
    known = {
        each.value
        for each, parent in place.piece.parents.items()
        if isinstance(each, cst.Name)
        and (
            isinstance(parent, cst.Param)
            or (isinstance(parent, STORED) and place.piece.positions[each].start.line < begins)
        )
    }
    for each in in_order(node):
        parent = place.piece.parents.get(each)
        if not isinstance(each, cst.Name) or each.value in (torch, "self"):
            continue
        is_word = isinstance(parent, cst.Arg) and parent.keyword is each
        is_called = isinstance(parent, cst.Call) and parent.func is each
        is_part = isinstance(parent, cst.Attribute) and parent.attr is each
        if is_word or is_called or is_part or each.value not in known:
            continue
        value = value_of(place, each.value)
        if value is None or not (_is_plain(value) or is_made_on_cpu(place, torch, value)):
            yield each


def in_order(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a node and all its descendants, in the order of the source."""
    yield node
    for child in node.children:
        yield from in_order(child)


def without_conversion(torch: str, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return an operand without its conversion to a Python value, and a chain of comparisons as `logical_and`."""
    if isinstance(node, cst.Call) and _strips(node):
        inner = node.args[0].value if isinstance(node.func, cst.Name) else node.func.value  # type: ignore[attr-defined]
        return without_conversion(torch, inner)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        name = node.func.attr.value
        of_math = isinstance(node.func.value, cst.Name) and node.func.value.value == "math"
        if of_math and name in OF_BOOL and len(node.args) == 1:
            return expression(f"{torch}.{name}(a)", a=without_conversion(torch, node.args[0].value))
        if name == "allclose":
            turned = node.with_changes(func=node.func.with_changes(attr=cst.Name("isclose")))
            return expression("a.all()", a=turned)
        if name == "equal":
            turned = node.with_changes(func=node.func.with_changes(attr=cst.Name("eq")))
            return expression("a.all()", a=turned)
        if name == "is_nonzero" and len(node.args) == 1:
            return expression("a != 0", a=node.args[0].value)
        return node
    if isinstance(node, cst.Comparison):
        values = [node.left, *(each.comparator for each in node.comparisons)]
        operands = [_read_exactly(torch, number, values) for number in range(len(values))]
        links = zip(operands, node.comparisons, operands[1:], strict=False)
        parts = (cst.Comparison(left, [each.with_changes(comparator=right)]) for left, each, right in links)
        made = joined(torch, "and", parts)
        return made.with_changes(lpar=node.lpar, rpar=node.rpar) if len(values) == 2 else made
    return node


def _read_exactly(torch: str, number: int, values: Sequence[cst.BaseExpression]) -> cst.BaseExpression:
    """Return an operand of a comparison, kept as a tensor and compared like the number read from it: Python compares
    numbers of 64 bits, torch rounds a number to the type of the tensor."""
    value = values[number]
    tensor = without_conversion(torch, value)
    if not isinstance(value, cst.Call) or not _strips(value):
        return tensor
    name = value.func.value if isinstance(value.func, cst.Name) else "item"
    beside = [*values[max(number - 1, 0) : number], *values[number + 1 : number + 2]]
    if name == "int":
        return tensor if _counts(tensor) else expression("a.long()", a=tensor)
    if name == "bool" or all(is_exact(each) or _is_read(each) for each in beside):
        return tensor
    return expression("a.double()", a=tensor)


def _is_read(node: cst.BaseExpression) -> bool:
    """Return True for a tensor from which a number is read: both keep their types."""
    return isinstance(node, cst.Call) and _strips(node)


def is_exact(node: cst.BaseExpression) -> bool:
    """Return True for a number that every floating type represents exactly: of eight bits, and not too large."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        return is_exact(node.expression)
    if not isinstance(node, (cst.Integer, cst.Float)):
        return False
    value = float(node.evaluated_value)
    small = 2.0**-14
    return value == 0 or (small <= value <= LARGEST and (math.frexp(value)[0] * 2**FEWEST_BITS).is_integer())


LARGEST = 65504.0
"""The largest number of `torch.float16`."""
FEWEST_BITS = 8
"""Significant bits of a number in `torch.bfloat16`, including the implicit one."""
COUNTING = frozenset({"argmax", "argmin", "count_nonzero", "numel", "size", "dim"})


def _counts(node: cst.BaseExpression) -> bool:
    """Return True if it is a whole number by its form: the number of true elements of a mask, an index."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    of = node.func.value
    is_tested = isinstance(of, cst.Comparison) or (
        isinstance(of, cst.Call) and isinstance(of.func, cst.Attribute) and of.func.attr.value in OF_BOOL
    )
    return node.func.attr.value in COUNTING or (node.func.attr.value == "sum" and is_tested)


def overridable(place: Located, tree: Tree) -> Declined | None:
    """Return why an operand may not be a tensor: a method returns it that a subclass may override."""
    if isinstance(tree, Joined):
        return next((why for part in tree.parts if (why := overridable(place, part)) is not None), None)
    if not tree.of_tensor:
        return None
    values = [tree.node]
    if isinstance(tree.node, cst.Comparison):
        values = [tree.node.left, *(each.comparator for each in tree.node.comparisons)]
    for value in values:
        if (
            isinstance(value, cst.Call)
            and isinstance(value.func, cst.Attribute)
            and isinstance(value.func.value, cst.Name)
            and value.func.value.value == "self"
        ):
            name = value.func.attr.value
            methods = [
                each
                for kind in place.source.nodes
                if isinstance(kind, ast.ClassDef)
                for each in kind.body
                if isinstance(each, ast.FunctionDef) and each.name == name
            ]
            if any("Tensor" not in ast.dump(each.returns or ast.Constant(None)) for each in methods):
                return Declined(
                    f"`self.{name}` has no return annotation `torch.Tensor`, so a subclass may return a bool. Add "
                    "the annotation."
                )
    return None


def given_otherwise(place: Located, tree: Tree) -> Declined | None:
    """Return why a parameter in a test may not be a tensor: a call in the file passes a constant."""
    if isinstance(tree, Joined):
        return next((why for part in tree.parts if (why := given_otherwise(place, part)) is not None), None)
    if not isinstance(tree.node, cst.Name):
        return None
    line = place.piece.lines(place.node)[0]
    around = [
        each
        for each in place.source.nodes
        if isinstance(each, ast.FunctionDef) and each.lineno <= line <= (each.end_lineno or line)
    ]
    function = max(around, key=lambda each: each.lineno, default=None)
    params = [each.arg for each in (*function.args.posonlyargs, *function.args.args)] if function else []
    name = tree.node.value
    if function is None or name not in params:
        return None
    for call in place.source.nodes:
        if not isinstance(call, ast.Call) or ast.unparse(call.func).rpartition(".")[2] != function.name:
            continue
        is_bound = isinstance(call.func, ast.Attribute) and params[0] in ("self", "cls")
        at = params.index(name) - is_bound
        values = [each.value for each in call.keywords if each.arg == name]
        values += call.args[at : at + 1] if at >= 0 else []
        if any(isinstance(value, (ast.Constant, ast.List, ast.Tuple, ast.Dict)) for value in values):
            return Declined(
                f"`{name}` is not always a tensor: a call in this file passes a constant for it. Pass a tensor there."
            )
    return None


STATE_QUERIES = frozenset({"is_compiling", "is_dynamo_compiling", "is_scripting", "is_tracing", "is_available"})
"""Functions on how the code is being run."""


def python_first(branch: cst.If) -> Iterator[Rewrite]:
    """Return the operands of a test with those first that Python decides alone, before those that may need a
    tensor's value."""
    operands: list[cst.BaseExpression] = []

    def gather(node: cst.BaseExpression) -> None:
        if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, kind):
            gather(node.left)
            gather(node.right)
        else:
            operands.append(node)

    def filled(node: cst.BaseExpression) -> cst.BaseExpression:
        """Return the same test with other operands; comments and line ends stay."""
        if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, kind):
            left = filled(node.left)
            return node.with_changes(left=left, right=filled(node.right))
        return next(turned)

    if not isinstance(branch.test, cst.BooleanOperation):
        return
    kind = type(branch.test.operator)
    gather(branch.test)
    order = sorted(operands, key=lambda each: not _is_decided(each))
    if order == operands:
        return
    turned = iter(order)
    yield Rewrite(
        "Python's own condition is evaluated first, and the tensor's value only if that does not decide",
        (Change((branch.test,), (filled(branch.test).with_changes(lpar=(), rpar=()),)),),
        "a test of a tensor that may raise is not evaluated if Python's condition decides",
    )


def _is_decided(node: cst.BaseExpression) -> bool:
    """Return True if Python decides an operand alone, and evaluating it earlier cannot raise."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        return _is_decided(node.expression)
    if isinstance(node, cst.Comparison):
        return _is_plain(node) and _is_known(node.left) and all(_is_known(c.comparator) for c in node.comparisons)
    if isinstance(node, cst.Call):
        name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
        if isinstance(name, cst.Name) and name.value in STATE_QUERIES:
            return not node.args
        return _is_plain(node) and all(_is_known(each.value) for each in node.args)
    return isinstance(node, cst.Attribute) and _is_known(node)


def _is_known(node: cst.BaseExpression) -> bool:
    """Return True for a name, a literal, or an attribute of `self` or of a package."""
    if isinstance(node, cst.Attribute):
        whole = node.value
        while isinstance(whole, cst.Attribute):
            whole = whole.value
        return isinstance(whole, cst.Name) and (node.value is whole or whole.value != "self")
    return isinstance(node, (cst.Name, cst.BaseNumber, cst.BaseString))


class SplitTest(NamedTuple):
    """A split test, and what its rewrite needs."""

    torch: str
    """The file's name for torch."""
    imports: tuple[str, ...]
    """The imports that the file lacks for it."""
    python: cst.BaseExpression | None
    tensors: Tree


def split_test(place: Located, test: cst.BaseExpression) -> SplitTest:
    """Return a split test. Raises Decline if it cannot be split, or torch cannot be named there."""
    torch = torch_of(place)
    parts = split_by_python(tree_of(place, test))
    if parts is None:
        raise Decline(MIXED)
    if why := overridable(place, parts[1]) or given_otherwise(place, parts[1]):
        raise Decline(why)
    return SplitTest(*torch, *parts)


def is_mask(place: Located, node: cst.BaseExpression, deep: int = 3) -> bool:
    """Return True if its value is a bool, or a bool tensor, by its form."""
    if isinstance(node, cst.Comparison):
        return True
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.attr.value in OF_BOOL
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.BitInvert):
        return is_mask(place, node.expression, deep)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.BitAnd, cst.BitOr, cst.BitXor)):
        return is_mask(place, node.left, deep) and is_mask(place, node.right, deep)
    if isinstance(node, cst.Subscript):
        return is_mask(place, node.value, deep)
    if isinstance(node, cst.Name) and deep:
        value = value_of(place, node.value)
        return value is not None and is_mask(place, value, deep - 1)
    return False


def _is_of_tensor(place: Located, node: cst.BaseExpression) -> bool:
    if _is_plain(node):
        return False  # whatever of it was found
    return any(each is place.node for each in walk(node)) or _looks_like_tensor(place, node)


def _is_plain(node: cst.BaseExpression) -> bool:
    """Return True if its value is a Python value by its form: `x is None`, `k in d`, `isinstance(x, T)`, a literal, a
    size, or a comparison of these."""
    if isinstance(node, cst.Comparison):
        operands = (node.left, *(each.comparator for each in node.comparisons))
        return all(map(_is_plain, operands)) or any(
            isinstance(each.operator, (cst.Is, cst.IsNot, cst.In, cst.NotIn)) for each in node.comparisons
        )
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.attr.value in ("numel", "nelement", "dim", "ndimension", "size")
    if isinstance(node, (cst.Attribute, cst.Subscript)):
        return (isinstance(node, cst.Attribute) and node.attr.value in ("shape", "ndim")) or (
            isinstance(node, cst.Subscript) and _is_plain(node.value)
        )
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        return _is_plain(node.expression)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
        return node.func.value in PLAIN
    return isinstance(node, (cst.BaseNumber, cst.BaseString)) or (
        isinstance(node, cst.Name) and node.value in ("True", "False", "None")
    )


def _looks_like_tensor(place: Located, node: cst.BaseExpression, deep: int = 3) -> bool:
    if _is_plain(node):
        return False
    if isinstance(node, cst.Comparison):
        values = [node.left, *(each.comparator for each in node.comparisons)]
        return any(_looks_like_tensor(place, value, deep) for value in values)
    if isinstance(node, cst.Call):
        if _strips(node) and isinstance(node.func, cst.Name):
            return _looks_like_tensor(place, node.args[0].value, deep)
        if not isinstance(node.func, cst.Attribute):
            return False
        of = node.func.value
        if isinstance(of, cst.Name) and of.value in NOT_TORCH:
            return False
        return node.func.attr.value in OF_BOOL | OF_NUMBERS | OF_PYTHON
    if isinstance(node, cst.UnaryOperation):
        return _looks_like_tensor(place, node.expression, deep)
    if isinstance(node, cst.BinaryOperation):
        return _looks_like_tensor(place, node.left, deep) or _looks_like_tensor(place, node.right, deep)
    if isinstance(node, cst.Subscript):
        return _looks_like_tensor(place, node.value, deep)
    if isinstance(node, cst.Name) and deep:
        value = value_of(place, node.value)
        return value is not None and _looks_like_tensor(place, value, deep - 1)
    return False


def value_of(place: Located, name: str) -> cst.BaseExpression | None:
    """Return the value of a name, if the function assigns it once."""
    found: list[cst.BaseExpression | None] = []
    for node in place.piece.parents:
        if isinstance(node, cst.Assign):
            for target in node.targets:
                if isinstance(target.target, cst.Name) and target.target.value == name:
                    found.append(node.value)
                elif any(isinstance(each, cst.Name) and each.value == name for each in walk(target.target)):
                    found.append(None)
        elif isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.For, cst.CompFor, cst.NamedExpr)):
            if any(isinstance(each, cst.Name) and each.value == name for each in walk(node.target)):
                found.append(None)
        elif isinstance(node, (cst.Param, cst.AsName)):
            if any(isinstance(each, cst.Name) and each.value == name for each in walk(node.name)):
                found.append(None)
    return found[0] if len(found) == 1 else None


def walk(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Yield a node and all its descendants."""
    found, pending = [], [node]
    while pending:
        each = pending.pop()
        found.append(each)
        pending += each.children
    return found
