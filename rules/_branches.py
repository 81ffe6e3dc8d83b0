"""Branches on tensors as `torch.where`, both sides worked out and one chosen, or as `torch.cond`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import libcst as cst
from tcready.rules._conditions import (
    MIXED,
    as_tensor,
    asked,
    in_python,
    is_of_python,
    is_of_tensor,
    owner_of,
    tree_of,
    value_of,
    walk,
)
from tcready.rules._rewrites import Ways, bare, expression, in_place_of, line_of
from tcready.static.rule import Change, Declined, Rewrite

if TYPE_CHECKING:
    from tcready.static.concrete import Located


ELEMENTWISE = frozenset(
    "abs absolute acos add addcdiv addcmul asin atan ceil celu clamp clamp_max clamp_min clip clone contiguous cos cosh "
    "cumsum detach div divide dropout elu eq erf exp expm1 fill floor float fmod ge gelu gt half hardswish hardtanh "
    "heaviside isfinite isinf isnan le leaky_relu lerp log log10 log1p log2 log_softmax logical_and logical_not "
    "logical_or logit logsigmoid lt masked_fill maximum minimum mish mul multiply nan_to_num ne neg negative normalize "
    "ones_like pow reciprocal relu relu6 remainder round rsqrt selu sgn sigmoid sign silu sin sinh softmax softplus "
    "softsign sqrt square sub subtract tan tanh to trunc type_as where xlogy zeros_like double bfloat16 full_like "
    "empty_like bool int long".split()
)
"""Methods and functions of torch whose result is as large as their tensors, broadcast."""
OF_FIRST = frozenset("cumsum dropout log_softmax normalize softmax to type_as".split())
"""Those whose other arguments do not make it larger."""
TO_ONE = frozenset("sum mean max min prod norm std var numel item amax amin median".split())
"""Those that make one element of a tensor when nothing but the tensor is given."""
OTHERS = frozenset(
    "all any argmax argmin cat chunk dim expand expand_as finfo flatten flip gather iinfo index_select matmul mm bmm "
    "numel ones permute repeat reshape select size split stack squeeze sort swapaxes t tensor tile topk transpose "
    "tril triu unbind unflatten unsqueeze view view_as zeros new_ones new_zeros new_full full arange linear einsum "
    "isclose isin eye linspace narrow roll cumprod bitwise_and bitwise_or count_nonzero diff outer dot".split()
)
"""What else of torch works a value out and changes nothing."""
PARTIAL = frozenset(
    "acos acosh asin atanh exp expm1 log log10 log1p log2 logit norm pow reciprocal rsqrt sqrt std xlogy".split()
)
"""Functions whose gradient is no finite number for some operands: zero times it is NaN."""
FILLERS = {"acos": "0", "asin": "0", "atanh": "0", "logit": "0.5", "acosh": "2"}
"""Operands for which their gradient is one, where 1 is none."""
NOT_PURE = frozenset(
    {"print", "append", "extend", "update", "pop", "insert", "remove", "clear", "setdefault", "warn"}
)

HOW = "`torch.where` takes the place of the branch: both sides are worked out, and one is chosen"
HOW_COND = "`torch.cond` takes the place of the branch where it is compiled"
UNSAFE = "both sides are worked out, and what comes out has the wider dtype of the two"
OTHER_SHAPE = (
    "the shapes of the two sides are not the same by their form: `torch.where` might change what comes out"
)


class Refused(Exception):  # noqa: N818  not an error
    """Why a branch cannot be one expression."""


Shape = frozenset[str]


@dataclass
class Shapes:
    """What decides the shapes of expressions: the operands, by their text, that are broadcast; none for a number."""

    place: Located
    known: dict[str, Shape] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    """How often a name was given a value."""

    @classmethod
    def at(cls, place: Located, node: cst.CSTNode) -> Shapes:
        """As the names are where a statement or an expression begins."""
        parents = place.piece.parents
        inside = node
        above: list[tuple[Sequence[cst.BaseStatement], list[str]]] = []
        while inside in parents and not isinstance(inside, cst.FunctionDef):
            parent = parents[inside]
            if isinstance(parent, (cst.IndentedBlock, cst.Module)):
                body = [each for each in parent.body if isinstance(each, cst.BaseStatement)]
                position = next((i for i, each in enumerate(body) if each is inside), len(body))
                above.append((body[:position], []))
            elif isinstance(parent, (cst.For, cst.While)):
                above.append(((), sorted(_assigned_in([parent]))))
            inside = parent
        made = cls(place)
        for statements, changed in reversed(above):
            for name in changed:
                made.forget(name)
            made.follow(statements)
        return made

    def copy(self) -> Shapes:
        return Shapes(self.place, dict(self.known), dict(self.versions))

    def forget(self, name: str) -> None:
        self.set(name, frozenset({f"{name} {self.versions.get(name, 0) + 1}"}))

    def set(self, name: str, shape: Shape) -> None:
        self.versions[name] = self.versions.get(name, 0) + 1
        self.known[name] = shape

    def follow(self, statements: Iterable[cst.BaseStatement]) -> None:
        """Goes on to what the names are behind statements."""
        for statement in statements:
            if isinstance(statement, cst.If):
                yes, no = self.copy(), self.copy()
                yes.follow(_block(statement.body))
                no.follow(_else(statement))
                for name in sorted(_assigned_in([statement])):
                    shape = yes.known.get(name)
                    if shape is not None and shape == no.known.get(name):
                        self.set(name, shape)
                    else:
                        self.forget(name)
            elif isinstance(statement, cst.SimpleStatementLine):
                for part in statement.body:
                    self._follow_one(part)
            else:
                for name in sorted(_assigned_in([statement])):
                    self.forget(name)

    def _follow_one(self, part: cst.BaseSmallStatement) -> None:
        pairs: list[tuple[str, cst.BaseExpression]] = []
        if isinstance(part, cst.Assign) and len(part.targets) == 1:
            target, value = part.targets[0].target, part.value
            if isinstance(target, (cst.Name, cst.Attribute)):
                pairs = [(text(target), value)]
            elif isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple):
                if len(target.elements) == len(value.elements):
                    both = zip(target.elements, value.elements, strict=True)
                    pairs = [(text(to.value), of.value) for to, of in both]
        elif isinstance(part, cst.AugAssign) and self.of(part.target):
            return  # in place: as large as it was
        shapes = {name: self.of(value) for name, value in pairs}
        for name in sorted(_assigned_in([part])):
            shape = shapes.get(name)
            if shape is None:
                self.forget(name)
            else:
                self.set(name, shape)

    def of(self, node: cst.BaseExpression) -> Shape | None:
        """None if the form does not tell."""
        if isinstance(node, (cst.Integer, cst.Float)):
            return frozenset()
        if isinstance(node, cst.Name):
            if node.value in ("True", "False", "None"):
                return frozenset() if node.value != "None" else None
            if node.value in self.known:
                return self.known[node.value]
            value = value_of(self.place, node.value)
            return frozenset() if value is not None and self._is_single(value) else frozenset({node.value})
        if isinstance(node, cst.Attribute):
            name = text(node)
            if name in ("math.inf", "math.pi", "torch.inf", "math.nan", "torch.nan"):
                return frozenset()
            return self.known.get(name, frozenset() if self.is_number(node) else frozenset({name}))
        if isinstance(node, cst.UnaryOperation) and not isinstance(node.operator, cst.Not):
            return self.of(node.expression)
        if isinstance(node, cst.BinaryOperation):
            if isinstance(node.operator, cst.MatrixMultiply):
                return self._atom(node)
            return self._together((node.left, node.right))
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            return self._together((node.left, node.comparisons[0].comparator))
        if isinstance(node, cst.Subscript):
            return self._atom(node)
        if isinstance(node, cst.Call):
            return self._of_call(node)
        if isinstance(node, cst.IfExp):
            yes, no = self.of(node.body), self.of(node.orelse)
            return yes if yes == no else None
        return None

    def _is_single(self, value: cst.BaseExpression) -> bool:
        """Whether a name stands for one number or one element, by the form of its value."""
        if self.is_number(value):
            return True
        names = {each.value for each in walk(value) if isinstance(each, cst.Name)}
        known = self.known | {name: frozenset({name}) for name in names if name not in self.known}
        inner = Shapes(self.place, known, self.versions)
        return not isinstance(value, cst.Name) and inner.of(value) == frozenset()

    def _of_call(self, call: cst.Call) -> Shape | None:
        if self.is_number(call):
            return frozenset()
        if not isinstance(call.func, cst.Attribute):
            return None
        name = call.func.attr.value
        of_torch = _is_torch(call.func.value)
        first = [] if of_torch else [call.func.value]
        given = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
        if name in TO_ONE and len(first) + len(call.args) == 1:
            return frozenset()
        if name.rstrip("_") != name or name not in ELEMENTWISE:
            return self._atom(call) if name in OTHERS | TO_ONE else None
        if name in OF_FIRST or name.endswith("_like"):
            return self.of((first or given)[0]) if first or given else None
        return self._together((*first, *given)) if first or given else None

    def _together(self, nodes: Iterable[cst.BaseExpression]) -> Shape | None:
        found: Shape = frozenset()
        for node in nodes:
            shape = self.of(node)
            if shape is None:
                return None
            found |= shape
        return found

    def _atom(self, node: cst.BaseExpression) -> Shape | None:
        """One whose size is that of the same expression elsewhere, as long as no name in it was given anew."""
        if not is_pure(node):
            return None
        names = {each.value for each in walk(node) if isinstance(each, cst.Name)}
        versions = ", ".join(f"{n} {self.versions[n]}" for n in sorted(names & self.versions.keys()))
        return frozenset({f"{text(node)} {versions}"})

    def is_number(self, node: cst.BaseExpression) -> bool:
        """Whether Python has it as a number by its form: sizes, limits of a dtype, numbers written down."""
        if isinstance(node, (cst.Integer, cst.Float)):
            return True
        if isinstance(node, cst.UnaryOperation):
            return self.is_number(node.expression)
        if isinstance(node, cst.BinaryOperation):
            return self.is_number(node.left) and self.is_number(node.right)
        if isinstance(node, cst.Attribute):
            return (
                node.attr.value in ("max", "min", "eps", "tiny", "smallest_normal")
                and isinstance(node.value, cst.Call)
                and isinstance(node.value.func, (cst.Attribute, cst.Name))
                and text(node.value.func).rpartition(".")[2] in ("finfo", "iinfo")
            ) or node.attr.value == "ndim"
        if isinstance(node, cst.Subscript):
            return isinstance(node.value, cst.Attribute) and node.value.attr.value == "shape"
        if isinstance(node, cst.Call):
            if isinstance(node.func, cst.Name):
                return node.func.value == "len" or (
                    node.func.value == "float" and isinstance(node.args[0].value, cst.SimpleString)
                )
            return isinstance(node.func, cst.Attribute) and (
                node.func.attr.value in ("numel", "dim")
                or (node.func.attr.value == "size" and len(node.args) == 1)
                or text(node.func).startswith("math.")
            )
        return False


def text(node: cst.CSTNode) -> str:
    """What is written, the same for what means the same but for blanks and parentheses."""
    code = cst.Module([]).code_for_node(node)
    try:
        return ast.unparse(ast.parse(f"({code})", mode="eval"))
    except SyntaxError:
        return code


def _is_torch(node: cst.BaseExpression) -> bool:
    return text(node) in (
        "torch",
        "F",
        "nn.functional",
        "torch.nn.functional",
        "torch.special",
        "torch.linalg",
    )


def is_pure(node: cst.CSTNode) -> bool:
    """Whether working it out changes nothing, by its form: every call in it is one of torch's that do not."""
    for each in walk(node):
        if isinstance(
            each, (cst.Await, cst.Yield, cst.NamedExpr, cst.Lambda, cst.GeneratorExp, cst.ListComp)
        ):
            return False
        if isinstance(each, cst.Call):
            if isinstance(each.func, cst.Name):
                if each.func.value not in (
                    "len",
                    "min",
                    "max",
                    "abs",
                    "float",
                    "int",
                    "bool",
                    "tuple",
                    "list",
                ):
                    return False
            elif isinstance(each.func, cst.Attribute):
                if each.func.attr.value not in ELEMENTWISE | TO_ONE | OTHERS and not text(
                    each.func
                ).startswith("math."):
                    return False
            else:
                return False
    return True


# one side


@dataclass
class Side:
    """What a side leaves behind: names (or attributes of self, or `return`) with the expressions of their values,
    in the names as they were before the branch."""

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
        """What statements leave behind, after what is `known`. Raises Refused."""
        side = Side(dict(known.values), dict(known.targets), in_place=known.in_place) if known else Side()
        for position, statement in enumerate(statements):
            if side.returns:
                raise Refused("something follows a `return`")
            if isinstance(statement, cst.If):
                if self.branch(side, statement, statements[position + 1 :]):
                    break
            elif isinstance(statement, cst.SimpleStatementLine):
                for part in statement.body:
                    if side.returns:
                        raise Refused("something follows a `return`")
                    self.read(side, part)
            else:
                raise Refused("a side has a block of its own")
        return side

    def branch(self, side: Side, branch: cst.If, rest: Sequence[cst.BaseStatement]) -> bool:
        """Reads a branch, and where it returns early, the rest too: whether it did."""
        yes = self.side(_block(branch.body), side)
        early = yes.returns and branch.orelse is None
        no = self.side(rest if early else _else(branch), side)
        if yes.returns != no.returns:
            raise Refused("one side returns and the other does not")
        tree = tree_of(self.place, branch.test)
        if not (is_of_tensor(tree) or is_of_python(tree)):
            raise Refused(MIXED)
        of_tensor = is_of_tensor(tree)
        test = as_tensor(self.place, self.torch, tree) if of_tensor else branch.test
        test = _filled(test, side.values)
        chooser = Chooser(self.torch, test, test, self.shapes)
        for name in dict.fromkeys([*yes.values, *no.values]):
            target = yes.targets.get(name) or no.targets.get(name)
            old = side.values.get(name) or (cst.Name(name) if target is None else target)
            assert isinstance(old, cst.BaseExpression)
            on_both = name in yes.values and name in no.values
            if not (on_both or name in side.values or _is_bound(self.place, branch, name)):
                raise Refused(f"`{name}` gets a value on one side only, and none before")
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
        if isinstance(part, cst.Pass) or (
            isinstance(part, cst.Expr) and isinstance(part.value, cst.SimpleString)
        ):
            return
        if isinstance(part, cst.Return):
            if part.value is None:
                raise Refused("a side returns nothing")
            side.values[RETURN] = _filled(part.value, side.values)
            side.returns = True
        elif isinstance(part, cst.Assign):
            value = _filled(part.value, side.values)
            for each in part.targets:
                _assign(side, each.target, value)
        elif isinstance(part, cst.AnnAssign) and part.value is not None:
            _assign(side, part.target, _filled(part.value, side.values))
        elif isinstance(part, cst.AugAssign):
            operator = _operator(part.operator)
            old = part.target
            assert isinstance(old, cst.BaseExpression)
            value = expression(
                f"a {operator} b", a=_filled(old, side.values), b=_filled(part.value, side.values)
            )
            side.in_place = True
            _assign(side, part.target, value)
        elif isinstance(part, (cst.Break, cst.Continue)):
            raise Refused("a side leaves the loop, or begins its next round: that is no value")
        elif isinstance(part, cst.Raise):
            raise Refused("a side raises")
        elif isinstance(part, cst.Expr):
            raise Refused("a side does something for its effect alone")
        else:
            raise Refused("a side is more than assignments")


def _assign(side: Side, target: cst.BaseAssignTargetExpression, value: cst.BaseExpression) -> None:
    if isinstance(target, cst.Tuple):
        if not isinstance(value, cst.Tuple) or len(value.elements) != len(target.elements):
            raise Refused("a side unpacks what a call gives")
        for to, of in zip(target.elements, value.elements, strict=True):
            if not isinstance(to, cst.Element) or not isinstance(of, cst.Element):
                raise Refused("a side unpacks with a star")
            _assign(side, to.value, of.value)  # type: ignore[arg-type]
        return
    name = text(target)
    if isinstance(target, cst.Attribute):
        if not isinstance(target.value, cst.Name) or target.value.value != "self":
            raise Refused("a side changes an object")
    elif not isinstance(target, cst.Name):
        raise Refused("a side writes into something")
    if not is_pure(value):
        raise Refused("a side calls what may have an effect: it would have it always")
    side.values[name] = value
    side.targets[name] = target


def _operator(operator: cst.BaseAugOp) -> str:
    return cst.Module([]).code_for_node(operator).strip().removesuffix("=")


def _filled(node: cst.BaseExpression, values: Mapping[str, cst.BaseExpression]) -> cst.BaseExpression:
    """An expression with what was assigned in place of the names. Raises Refused if that would be worked out twice."""
    used = {name: value for name, value in values.items() if name != RETURN and _reads(node, name)}
    if not used:
        return node
    for name, value in used.items():
        if "." in name:
            raise Refused("a side reads an attribute that it changed")
        if (
            not isinstance(value, (cst.Name, cst.Attribute, cst.Integer, cst.Float))
            and _reads(node, name) > 1
        ):
            raise Refused(f"`{name}` is used more than once where it would have to be worked out in place")
    return expression(text(node), **used)


def _reads(node: cst.CSTNode, name: str) -> int:
    """How often a name (`x`, `self.x`) is read in it."""
    if "." in name:
        return sum(isinstance(each, cst.Attribute) and text(each) == name for each in walk(node))
    found = 0
    pending = [node]
    while pending:
        each = pending.pop()
        if isinstance(each, cst.Name):
            found += each.value == name
        elif isinstance(each, (cst.Attribute, cst.Arg)):
            pending.append(each.value)
        else:
            pending += each.children
    return found


# choosing


@dataclass
class Chooser:
    """Makes `torch.where` expressions for one condition, which stands there as `named`."""

    torch: str
    test: cst.BaseExpression
    named: cst.BaseExpression
    shapes: Shapes
    of_yes: Shapes | None = None
    """Of the side taken, where the names in it mean something else than in the other."""

    def choose(self, yes: cst.BaseExpression, no: cst.BaseExpression) -> cst.BaseExpression:
        """Raises Refused where the two might differ in shape or kind."""
        if text(yes) == text(no) and self.of_yes is None:
            return yes
        if isinstance(yes, cst.Tuple) and isinstance(no, cst.Tuple) and len(yes.elements) == len(no.elements):
            made = [
                a.with_changes(value=self.choose(a.value, b.value))
                for a, b in zip(yes.elements, no.elements, strict=True)
            ]
            return yes.with_changes(elements=made)
        for side in (yes, no):
            if not is_pure(side):
                raise Refused("a side calls what may have an effect: it would have it always")
            if isinstance(side, (cst.Tuple, cst.List, cst.Dict, cst.SimpleString, cst.ListComp)):
                raise Refused("a side is no tensor")
        special = mean_of_selected(self.torch, self.test, yes, no)
        if special is not None:
            return special
        a, b = (self.of_yes or self.shapes).of(yes), self.shapes.of(no)
        if a is None or b is None or a != b:
            raise Refused(OTHER_SHAPE)
        return expression(
            f"{self.torch}.where(test, yes, no)",
            test=self.named,
            yes=self.guarded(yes, True),
            no=self.guarded(no, False),
        )

    def guarded(self, node: Node, taken: bool) -> Node:
        """A side whose operands are harmless where it is not taken: no NaN or infinity reaches the gradient of the
        other."""
        return node.visit(_Guard(self, taken))  # type: ignore[return-value]  # a node in place of a node

    def with_condition(self, made: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        """Statements with the condition in place of its name, or below its assignment where it is asked twice."""
        if self.named is self.test or not isinstance(self.named, cst.Name):
            return made
        name = self.named.value
        asked = [each for each in made if _reads(each, name)]
        if sum(_reads(each, name) for each in asked) == 1:
            at = made.index(asked[0])
            if not any(_reads(self.test, each) for each in _assigned_in(made[:at]) | _written(made[:at])):
                return [put(each, self.named, self.test) for each in made]
        if not asked:
            return made
        return [line_of(cst.Assign([cst.AssignTarget(self.named)], self.test)), *made]


Node = TypeVar("Node", bound=cst.CSTNode)


def condition_name(place: Located, test: cst.BaseExpression) -> cst.BaseExpression:
    """A name for a condition that is asked more than once; the condition itself if it is a name."""
    if isinstance(test, cst.Name):
        return test
    taken = place.piece.bound
    return cst.Name(next(n for n in ("condition", "_condition", "condition_") if n not in taken))


def put(statement: cst.BaseStatement, name: cst.Name, value: cst.BaseExpression) -> cst.BaseStatement:
    made = statement.visit(_Put(name.value, value))
    assert isinstance(made, cst.BaseStatement)
    return made


class _Put(cst.CSTTransformer):
    """Puts an expression in place of a name among the arguments of calls."""

    def __init__(self, name: str, value: cst.BaseExpression) -> None:
        super().__init__()
        self.name, self.value = name, value

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:  # noqa: N802  libcst's name
        value = updated_node.value
        if isinstance(value, cst.Name) and value.value == self.name:
            return updated_node.with_changes(value=bare(self.value))
        return updated_node


def _written(statements: Iterable[cst.CSTNode]) -> set[str]:
    """Names of tensors that statements write into."""
    found: set[str] = set()
    for node in (each for statement in statements for each in walk(statement)):
        targets: list[cst.CSTNode] = [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
        if isinstance(node, cst.AugAssign):
            targets = [node.target]
        if (
            isinstance(node, cst.Call)
            and isinstance(node.func, cst.Attribute)
            and node.func.attr.value.endswith("_")
        ):
            targets = [node.func.value]
        for target in targets:
            of = target
            while isinstance(of, cst.Subscript):
                of = of.value
            found.add(text(of))
    return found


def mean_of_selected(
    torch: str, test: cst.BaseExpression, yes: cst.BaseExpression, no: cst.BaseExpression
) -> cst.BaseExpression | None:
    """`x[m].mean() if m.any() else 0` as a sum over the mask and its count."""
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
    mask = asked_of_any(test)
    if mask is None or text(mask) != text(index.value) or float(no.value) != 0:
        return None
    total = f"{torch}.where(m, x, 0).sum()"
    if call.func.attr.value == "mean":
        total += " / m.sum().clamp(min=1)"
    return expression(total, m=index.value, x=taken.value)


def asked_of_any(test: cst.BaseExpression) -> cst.BaseExpression | None:
    """The mask in `mask.any()` and `torch.any(mask)`."""
    if isinstance(test, cst.Call) and isinstance(test.func, cst.Attribute) and test.func.attr.value == "any":
        if not _is_torch(test.func.value):
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
        """A number that is not zero, or one of Python's, which raises where it is."""
        return _harmless(node) or (
            not isinstance(node, (cst.Integer, cst.Float)) and self.chooser.shapes.is_number(node)
        )

    def leave_BinaryOperation(  # noqa: N802  libcst's name
        self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation
    ) -> cst.BaseExpression:
        operator = updated_node.operator
        if isinstance(operator, (cst.Divide, cst.FloorDivide, cst.Modulo)) and not self.harmless(
            updated_node.right
        ):
            return updated_node.with_changes(right=self.safe(updated_node.right))
        if isinstance(operator, cst.Power) and not (
            isinstance(updated_node.right, cst.Integer)
            or isinstance(updated_node.left, (cst.Integer, cst.Float))
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
            position = 1 if _is_torch(func.value) else 0
            if len(args) > position and not self.harmless(args[position].value):
                return _with_arg(updated_node, position, self.safe(args[position].value))
            return updated_node
        if name not in PARTIAL or text(func).startswith("math."):
            return updated_node
        filler = FILLERS.get(name, "1")
        if _is_torch(func.value):
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
    """A number that is not zero, or what came out of a `where` of ours."""
    if isinstance(node, cst.UnaryOperation):
        return _harmless(node.expression)
    if isinstance(node, (cst.Integer, cst.Float)):
        return node.evaluated_value != 0
    return text(node).startswith("math.")


# the rewrites


def choosing_expression(place: Located) -> Ways:
    """`a if test else b` as `torch.where(test, a, b)`."""
    whole = owner_of(place)
    if not isinstance(whole, cst.IfExp):
        return
    found = asked(place, whole.test)
    if isinstance(found, Declined):
        yield found
        return
    name, imports, python, tensors = found
    test = as_tensor(place, name, tensors)
    yes, no = whole.body, whole.orelse
    if (text(yes), text(no)) in (("True", "False"), ("False", "True")):
        made = (
            as_tensor(place, name, tree_of(place, whole.test, text(yes) == "False"))
            if python is None
            else None
        )
        if made is None:
            yield Declined(MIXED)
        else:
            yield Rewrite(
                "The condition stays a tensor",
                (Change((whole,), (made,)),),
                "a bool becomes a tensor",
                imports,
            )
        return
    try:
        made = Chooser(name, test, test, Shapes.at(place, whole)).choose(yes, no)
    except Refused as reason:
        yield Declined(str(reason))
    else:
        if python is not None:
            made = expression("a if p else b", a=made, p=python, b=no)
        yield Rewrite(
            HOW,
            (Change((whole,), (_as_before(whole, made),)),),
            _unsafe(Shapes.at(place, whole), yes, no),
            imports,
        )
    if python is None:
        yield from _cond_of_expression(whole, name, imports, test)


def _as_before(old: cst.BaseExpression, made: cst.BaseExpression) -> cst.BaseExpression:
    """A call needs no parentheses; any other expression keeps those that stood around the old one."""
    return bare(made) if isinstance(made, cst.Call) else made.with_changes(lpar=old.lpar, rpar=old.rpar)


def _unsafe(shapes: Shapes, yes: cst.BaseExpression, no: cst.BaseExpression) -> str:
    if shapes.of(yes) == shapes.of(no) == frozenset():
        return "a number becomes a tensor"
    return UNSAFE


def _cond_of_expression(
    whole: cst.IfExp, torch: str, imports: tuple[str, ...], test: cst.BaseExpression
) -> Ways:
    """`torch.cond` of two functions without parameters, where a side calls something."""
    sides = (whole.body, whole.orelse)
    if not any(isinstance(each, cst.Call) for side in sides for each in walk(side)):
        return
    if any(
        isinstance(side, (cst.Tuple, cst.List, cst.Integer, cst.Float)) or text(side) == "None"
        for side in sides
    ):
        return
    if any(_has_effect(side) for side in sides):
        return
    yes, no = (_fresh(side) for side in sides)
    made = expression(f"{torch}.cond(test, lambda: yes, lambda: no)", test=test, yes=bare(yes), no=bare(no))
    kept = expression(
        "made if compiling else whole", made=made, compiling=_compiling(torch), whole=_grouped(whole)
    )
    yield Rewrite(
        HOW_COND,
        (Change((whole,), (_grouped(kept) if whole.lpar else kept,)),),
        "`torch.cond` asks for sides that agree in shape and dtype, and change nothing",
        imports,
    )


def _grouped(node: cst.BaseExpression) -> cst.BaseExpression:
    return node if node.lpar else node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _compiling(torch: str) -> cst.BaseExpression:
    return cst.parse_expression(f"{torch}.compiler.is_compiling()")


VIEWS = frozenset(
    "view reshape transpose permute t unsqueeze squeeze expand expand_as flatten contiguous to detach narrow select "
    "chunk split unbind float double half".split()
)


def _fresh(value: cst.BaseExpression) -> cst.BaseExpression:
    """A copy of what may be an input of a side, or a view of one: `torch.cond` gives back none."""
    if isinstance(value, (cst.Name, cst.Attribute, cst.Subscript)) or (
        isinstance(value, cst.Call)
        and isinstance(value.func, cst.Attribute)
        and value.func.attr.value in VIEWS
    ):
        return expression("a.clone()", a=value)
    return value


def _has_effect(node: cst.CSTNode, in_place: bool = False) -> bool:
    """Whether it writes anywhere but to local names, as far as its form tells. `in_place`: names may be changed so."""
    for each in walk(node):
        if isinstance(
            each, (cst.Await, cst.Yield, cst.NamedExpr, cst.Raise, cst.Global, cst.Nonlocal, cst.Del)
        ):
            return True
        if isinstance(each, (cst.Assign, cst.AugAssign, cst.AnnAssign)):
            targets = [t.target for t in each.targets] if isinstance(each, cst.Assign) else [each.target]
            for target in targets:
                if any(isinstance(inner, (cst.Attribute, cst.Subscript)) for inner in walk(target)):
                    return True
            if isinstance(each, cst.AugAssign) and not in_place:
                return True
        if isinstance(each, cst.Call):
            name = text(each.func).rpartition(".")[2]
            if name in NOT_PURE or (name.endswith("_") and not name.endswith("__")):
                return True
    return False


def choosing_statement(place: Located) -> Ways:
    """An `if` whose sides assign or return, as `torch.where`."""
    branch = owner_of(place)
    if not isinstance(branch, cst.If):
        return
    found = asked(place, branch.test)
    if isinstance(found, Declined):
        yield found
        return
    name, imports, python, tensors = found
    test = as_tensor(place, name, tensors)
    try:
        yield from _as_where(place, branch, name, imports, python, test)
    except Refused as reason:
        yield Declined(str(reason))
    yield from _as_cond(place, branch, name, imports, python, test, in_python(tensors))


def _block(suite: cst.BaseSuite) -> tuple[cst.BaseStatement, ...]:
    if isinstance(suite, cst.IndentedBlock):
        return tuple(suite.body)
    assert isinstance(suite, cst.SimpleStatementSuite)
    return (cst.SimpleStatementLine(suite.body),)


def _else(branch: cst.If) -> tuple[cst.BaseStatement, ...]:
    if branch.orelse is None:
        return ()
    return _block(branch.orelse.body) if isinstance(branch.orelse, cst.Else) else (branch.orelse,)


def _rest(place: Located, branch: cst.If) -> tuple[cst.BaseStatement, ...]:
    """The statements behind it in its block."""
    block = place.piece.parents.get(branch)
    body = block.body if isinstance(block, (cst.IndentedBlock, cst.Module)) else ()
    position = next((i for i, each in enumerate(body) if each is branch), len(body))
    return tuple(body[position + 1 :])


def _returns(statements: Sequence[cst.BaseStatement]) -> bool:
    last = statements[-1] if statements else None
    if isinstance(last, cst.If):
        return _returns(_block(last.body)) and _returns(_else(last))
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Return)


def _as_where(
    place: Located,
    branch: cst.If,
    torch: str,
    imports: tuple[str, ...],
    python: cst.BaseExpression | None,
    test: cst.BaseExpression,
) -> Ways:
    yes, no = _block(branch.body), _else(branch)
    if _returns(yes) and not no:
        yield from _returning_early(place, branch, torch, imports, python, test, yes)
        return
    if _returns(yes) != _returns(no):
        raise Refused("one side returns and the other does not")
    if python is not None and len(no) > SHORT:
        raise Refused("what Python decides would need the other side a second time")
    made, unsafe = _chosen(place, branch, torch, test, yes, no)
    made = _where_python(python, made, no)
    yield Rewrite(HOW, (in_place_of(place, branch, tuple(made)),), unsafe, imports)


SHORT = 2
"""Statements that may be written twice."""


def _where_python(
    python: cst.BaseExpression | None, made: list[cst.BaseStatement], no: Sequence[cst.BaseStatement]
) -> list[cst.BaseStatement]:
    """Statements where Python asks for the tensors at all, and the other side where it does not."""
    if python is None:
        return made
    other = cst.Else(body=cst.IndentedBlock(body=no)) if no else None
    made = [made[0].with_changes(leading_lines=()), *made[1:]]
    return [cst.If(test=python, body=cst.IndentedBlock(body=made), orelse=other)]


def _chosen(
    place: Located,
    branch: cst.If,
    torch: str,
    test: cst.BaseExpression,
    yes: Sequence[cst.BaseStatement],
    no: Sequence[cst.BaseStatement],
) -> tuple[list[cst.BaseStatement], str]:
    """Statements that do what both sides do, and why they may differ. Raises Refused."""
    first: list[cst.BaseStatement] = []
    yes, kept = _without_private(place, branch, yes, no)
    first += kept
    no, kept = _without_private(place, branch, no, yes)
    first += kept
    shapes = Shapes.at(place, branch)
    shapes.follow(first)
    reader = Reader(place, torch, shapes)
    one, other = reader.side(yes), reader.side(no)
    names = list(dict.fromkeys([*one.values, *other.values]))
    if RETURN in names:
        if any("." in name for name in names):
            raise Refused("a side sets an attribute and returns")
        names = [RETURN]  # what a side assigns is lost when it returns
    if not names:
        raise Refused("no side has a value")
    chooser = Chooser(torch, test, condition_name(place, test), shapes)
    made: list[tuple[str, cst.BaseExpression]] = []
    unsafe = UNSAFE
    for name in names:
        target = one.targets.get(name) or other.targets.get(name)
        missing = cst.Name(name) if target is None or isinstance(target, cst.Name) else target
        if (name not in one.values or name not in other.values) and not _is_bound(place, branch, name):
            raise Refused(f"`{name}` gets a value on one side only, and none before")
        assert isinstance(missing, cst.BaseExpression)
        pair = one.values.get(name, missing), other.values.get(name, missing)
        made.append((name, chooser.choose(*pair)))
        if shapes.of(pair[0]) == shapes.of(pair[1]) == frozenset():
            unsafe = "a number becomes a tensor"
    if one.in_place or other.in_place:
        unsafe += "; a tensor that was changed in place becomes another"
    if names == [RETURN]:
        return chooser.with_condition([*first, line_of(cst.Return(value=made[0][1]))]), unsafe
    if any("." in name for name in names):
        unsafe += "; an attribute is set every time"
    targets = {name: one.targets.get(name) or other.targets[name] for name in names}
    return chooser.with_condition([*first, *_in_order(made, targets)]), unsafe


def _in_order(
    made: Sequence[tuple[str, cst.BaseExpression]], targets: Mapping[str, cst.BaseAssignTargetExpression]
) -> list[cst.BaseStatement]:
    """Assignments, together where a later one reads what an earlier one sets."""
    for position, (name, _) in enumerate(made):
        if any(_reads(value, name) for _, value in made[position + 1 :]):
            whole = cst.Assign(
                targets=[
                    cst.AssignTarget(cst.Tuple([cst.Element(targets[n]) for n, _ in made], lpar=(), rpar=()))
                ],
                value=cst.Tuple([cst.Element(value) for _, value in made], lpar=(), rpar=()),
            )
            return [line_of(whole)]
    return [line_of(cst.Assign(targets=[cst.AssignTarget(targets[n])], value=value)) for n, value in made]


def _without_private(
    place: Located, branch: cst.If, side: Sequence[cst.BaseStatement], other: Sequence[cst.BaseStatement]
) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
    """A side without the names that it alone uses, and their assignments, which may as well come before the branch."""
    left: list[cst.BaseStatement] = []
    kept: list[cst.BaseStatement] = []
    given: set[str] = set()
    for statement in side:
        part = (
            statement.body[0]
            if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1
            else None
        )
        if isinstance(part, cst.Assign) and len(part.targets) == 1 and is_pure(part.value):
            target = part.targets[0].target
            if (
                isinstance(target, cst.Name)
                and not any(_reads(part.value, name) for name in given)
                and _is_private(place, branch, target.value, other)
                and not _is_partial(part.value)
            ):
                kept.append(statement)
                continue
        left.append(statement)
        given |= _assigned_in([statement])
    return left, kept


def _is_partial(node: cst.CSTNode) -> bool:
    """Whether it may have no finite gradient: it must not be worked out where it was not."""
    return any(
        (
            isinstance(each, cst.BinaryOperation)
            and isinstance(each.operator, (cst.Divide, cst.FloorDivide, cst.Power))
        )
        or (isinstance(each, cst.Call) and text(each.func).rpartition(".")[2] in PARTIAL | {"div", "divide"})
        for each in walk(node)
    )


def _is_private(place: Located, branch: cst.If, name: str, other: Sequence[cst.BaseStatement]) -> bool:
    """Whether what one side of a branch gives a name is read in that side alone."""
    within = {id(each) for each in walk(branch)}
    beside = {id(each) for statement in (branch.test, *other) for each in walk(statement)}
    if name in _assigned_in(other) or sum(name in _assigned_in([each]) for each in _block(branch.body)) != 1:
        return False
    return all(
        id(each) in within and id(each) not in beside
        for each in place.piece.parents
        if isinstance(each, cst.Name) and each.value == name and _may_read(place, branch, each)
    )


def _may_read(place: Located, branch: cst.If | cst.While, node: cst.Name) -> bool:
    """Whether a name that stands somewhere may have the value that a branch gave it: not where it is an attribute or
    given a value, nor below an assignment that every way to it goes through."""
    parents = place.piece.parents
    if _is_attribute_name(place, node) or isinstance(parents.get(node), cst.AssignTarget):
        return False
    around = {id(branch)}
    above: cst.CSTNode = branch
    while above in parents:
        above = parents[above]
        around.add(id(above))
    if any(each is branch for each in _upwards(place, node)):
        return True
    inside: cst.CSTNode = node
    for parent in _upwards(place, node):
        if isinstance(parent, cst.IndentedBlock):
            position = next((i for i, each in enumerate(parent.body) if each is inside), 0)
            for each in reversed(parent.body[:position]):
                if id(each) in around:
                    return True
                if isinstance(each, cst.SimpleStatementLine) and node.value in _assigned_in([each]):
                    return False
        inside = parent
    return True


def _upwards(place: Located, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    while node in place.piece.parents:
        node = place.piece.parents[node]
        yield node


def _is_attribute_name(place: Located, node: cst.Name) -> bool:
    parent = place.piece.parents.get(node)
    return (isinstance(parent, cst.Attribute) and parent.attr is node) or (
        isinstance(parent, cst.Arg) and parent.keyword is node
    )


def _assigned_in(statements: Iterable[cst.CSTNode]) -> set[str]:
    """Names and attributes of self that are given a value."""
    found: set[str] = set()
    for statement in statements:
        for node in walk(statement):
            targets: list[cst.CSTNode] = []
            if isinstance(node, cst.Assign):
                targets = [t.target for t in node.targets]
            elif isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.For, cst.NamedExpr, cst.CompFor)):
                targets = [node.target]
            elif isinstance(node, cst.AsName):
                targets = [node.name]
            for target in targets:
                pending = [target]
                while pending:
                    each = pending.pop()
                    if isinstance(each, cst.Name):
                        found.add(each.value)
                    elif isinstance(each, cst.Attribute):
                        found.add(text(each))
                    elif not isinstance(each, cst.Subscript):
                        pending += each.children
    return found


def _is_bound(place: Located, branch: cst.CSTNode, name: str) -> bool:
    """Whether a name has a value before the branch: a parameter, or assigned above it in a block around it."""
    if "." in name:
        return True
    node: cst.CSTNode = branch
    parents = place.piece.parents
    while node in parents:
        parent = parents[node]
        if isinstance(parent, (cst.IndentedBlock, cst.Module)):
            for each in parent.body:
                if each is node:
                    break
                if isinstance(each, cst.SimpleStatementLine) and name in _assigned_in([each]):
                    return True
                if isinstance(each, cst.With) and name in _assigned_in([each]):
                    return True
                if isinstance(each, cst.If) and _on_all_sides(each, name):
                    return True
        if isinstance(parent, cst.For) and name in _assigned_in(
            [parent.with_changes(body=cst.IndentedBlock([]))]
        ):
            return True
        if isinstance(parent, cst.FunctionDef):
            return any(
                isinstance(each, cst.Param) and each.name.value == name for each in walk(parent.params)
            )
        node = parent
    return False


def _is_none_before(place: Located, branch: cst.CSTNode, name: str) -> bool:
    """Whether the assignment above the branch gives a name no tensor but None."""
    inside = branch
    for parent in _upwards(place, branch):
        if isinstance(parent, cst.IndentedBlock):
            position = next((i for i, each in enumerate(parent.body) if each is inside), 0)
            for each in reversed(parent.body[:position]):
                if name in _assigned_in([each]):
                    values = _last_values([each]) if isinstance(each, cst.SimpleStatementLine) else {}
                    value = values.get(name)
                    return value is not None and text(value) == "None"
        inside = parent
    return False


def _on_all_sides(branch: cst.If, name: str) -> bool:
    if not any(name in _assigned_in([each]) for each in _block(branch.body)):
        return False
    if isinstance(branch.orelse, cst.If):
        return _on_all_sides(branch.orelse, name)
    return isinstance(branch.orelse, cst.Else) and name in _assigned_in(_block(branch.orelse.body))


def _returning_early(
    place: Located,
    branch: cst.If,
    torch: str,
    imports: tuple[str, ...],
    python: cst.BaseExpression | None,
    test: cst.BaseExpression,
    yes: Sequence[cst.BaseStatement],
) -> Ways:
    """`if test: return a`, some statements, `return b`."""
    rest = _rest(place, branch)
    if not _returns(rest):
        raise Refused("it returns early, and what follows ends in no `return` of its own")
    value = Reader(place, torch, Shapes.at(place, branch)).side(yes).values[RETURN]
    if python is not None and len(rest) > 1:
        raise Refused("what Python decides would need the other side a second time")
    if any(isinstance(each, cst.If) for each in rest):
        if not isinstance(place.piece.parents.get(branch), cst.IndentedBlock):
            raise Refused("it is an `elif` that returns early")
        whole, unsafe = _chosen(place, branch, torch, test, yes, rest)
        yield Rewrite(HOW, (Change((branch, *rest), tuple(whole)),), unsafe, imports)
        return
    last = rest[-1]
    assert isinstance(last, cst.SimpleStatementLine)
    final = last.body[-1]
    assert isinstance(final, cst.Return)
    if len(last.body) > 1 or final.value is None:
        raise Refused("a side returns nothing")
    between = rest[:-1]
    if not isinstance(place.piece.parents.get(branch), cst.IndentedBlock):
        raise Refused("it is an `elif` that returns early")
    for statement in between:
        if not isinstance(statement, cst.SimpleStatementLine) or _has_effect(statement, in_place=True):
            raise Refused("between the early `return` and the last one stands what may have an effect")
    changed = _assigned_in(between)
    if any(_reads(node, each) for node in (test, value) for each in _written(between) - changed):
        raise Refused("what it returns, or asks, is changed behind it")
    chooser = Chooser(torch, test, condition_name(place, test), Shapes.at(place, branch))
    of_yes = chooser.shapes.copy()
    chooser.shapes.follow(between)
    before: list[cst.BaseStatement] = []
    if any(_reads(value, each) for each in changed):
        if isinstance(value, cst.Tuple) or any(_changed_in_place(each) for each in between):
            raise Refused("what it returns is changed behind it")
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
    whole = _where_python(python, chooser.with_condition(made), ())
    yield Rewrite(
        HOW, (Change((branch, *rest), (*whole, *(rest if python is not None else ()))),), unsafe, imports
    )


def _changed_in_place(statement: cst.BaseStatement) -> bool:
    return any(isinstance(each, cst.AugAssign) for each in walk(statement))


# torch.cond


def _as_cond(
    place: Located,
    branch: cst.If,
    torch: str,
    imports: tuple[str, ...],
    python: cst.BaseExpression | None,
    test: cst.BaseExpression,
    tensor_test: cst.BaseExpression,
) -> Ways:
    """Both sides as functions, for `torch.cond` where it is compiled and for an `if` of old elsewhere."""
    if isinstance(branch.orelse, cst.If):
        return
    yes = _block(branch.body)
    no = _block(branch.orelse.body) if isinstance(branch.orelse, cst.Else) else ()
    returning = _returns(yes)
    rest: tuple[cst.BaseStatement, ...] = ()
    if returning and not no:
        no = rest = _rest(place, branch)
    if python is not None and (rest or len(no) > SHORT):
        return
    if returning != _returns(no):
        return
    if any(_has_effect(each) for each in (*yes, *no)):
        yield Declined("a side writes to what is not its own: `torch.cond` takes no such side")
        return
    inner = [*yes, *no][:-1] if not returning else [*yes[:-1], *no[:-1]]
    if any(isinstance(each, (cst.Return, cst.Break, cst.Continue)) for part in inner for each in walk(part)):
        yield Declined("a side leaves in the middle")
        return
    if not isinstance(place.piece.parents.get(branch), cst.IndentedBlock):
        return
    given = _assigned_in(yes) | _assigned_in(no)
    if returning:
        results: list[str] = []
        given = set()
    else:
        results = sorted(name for name in given if _is_read_after(place, branch, name))
        if not results:
            yield Declined("nothing that a side works out is read behind it")
            return
        for name in results:
            on_both = name in _assigned_in(yes) and name in _assigned_in(no)
            if not on_both and not _is_bound(place, branch, name):
                yield Declined(f"`{name}` gets a value on one side only, and none before")
                return
            if not on_both and _is_none_before(place, branch, name):
                yield Declined("a side gives no tensor")
                return
    if _reads_super(branch):
        return
    last = [_last_values(side).get(name) for side in (yes, no) for name in results]
    if any(isinstance(each, NO_TENSOR) or (each is not None and text(each) == "None") for each in last):
        yield Declined("a side gives no tensor")
        return
    changed = _assigned_in(yes) | _assigned_in(no)
    params = sorted(
        name
        for name in changed
        if (
            "." not in name
            and _is_bound(place, branch, name)
            and any(_reads(part, name) for part in (*yes, *no))
        )
        or (name in results and not (name in _assigned_in(yes) and name in _assigned_in(no)))
    )
    taken = place.piece.bound
    names = [
        next(n for n in (base, f"_{base}", f"{base}_side") if n not in taken)
        for base in ("if_true", "if_false")
    ]
    functions = [
        _function(name, params, side, results, returning) for name, side in zip(names, (yes, no), strict=True)
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
        test=_compiling(torch),
        body=cst.IndentedBlock([ending(call)]),
        orelse=cst.Else(body=cst.IndentedBlock([ending(plain)])),
        leading_lines=[cst.EmptyLine(indent=False)],
    )
    yield Rewrite(
        HOW_COND,
        (Change((branch, *rest), tuple(_where_python(python, [*functions, both], no))),),
        "`torch.cond` asks for sides that agree in shape and dtype, and change nothing",
        imports,
    )


NO_TENSOR = (cst.Integer, cst.Float, cst.SimpleString, cst.FormattedString, cst.List, cst.Dict, cst.Tuple)


def _reads_super(branch: cst.If) -> bool:
    return any(isinstance(each, cst.Name) and each.value == "super" for each in walk(branch))


def _function(
    name: str,
    params: Sequence[str],
    side: Sequence[cst.BaseStatement],
    results: Sequence[str],
    returning: bool,
) -> cst.BaseStatement:
    body = list(side)
    if returning:
        last = body[-1]
        assert isinstance(last, cst.SimpleStatementLine)
        final = last.body[-1]
        assert isinstance(final, cst.Return)
        if final.value is not None and not isinstance(final.value, cst.Tuple):
            body[-1] = last.with_changes(
                body=[*last.body[:-1], final.with_changes(value=_fresh(final.value))]
            )
    else:
        values = _last_values(side)
        parts = [
            f"{result}.clone()"
            if result not in values
            or (values[result] is not None and _fresh(values[result]) is not values[result])  # type: ignore[arg-type]
            else result
            for result in results
        ]
        body.append(cst.parse_statement(f"return {', '.join(parts)}"))
    made = cst.parse_statement(f"def {name}({', '.join(params)}): pass")
    blank = [cst.EmptyLine(indent=False)]
    return made.with_changes(body=cst.IndentedBlock(body), leading_lines=blank)


def _last_values(side: Sequence[cst.BaseStatement]) -> dict[str, cst.BaseExpression | None]:
    found: dict[str, cst.BaseExpression | None] = dict.fromkeys(_assigned_in(side))
    for statement in side:
        for part in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            if isinstance(part, cst.Assign) and isinstance(part.targets[0].target, cst.Name):
                found[part.targets[0].target.value] = part.value
    return found


def _is_read_after(place: Located, branch: cst.If | cst.While, name: str) -> bool:
    """Whether a name is read outside of the branch, behind it or, in a loop, before it."""
    within = {id(each) for each in walk(branch)}
    end = place.piece.positions[branch].end
    in_loop = False
    node: cst.CSTNode = branch
    while node in place.piece.parents:
        node = place.piece.parents[node]
        in_loop = in_loop or isinstance(node, (cst.For, cst.While))
    for each in place.piece.parents:
        if isinstance(each, cst.Name) and each.value == name and id(each) not in within:
            if each not in place.piece.positions or not _may_read(place, branch, each):
                continue
            start = place.piece.positions[each].start
            if in_loop or (start.line, start.column) >= (end.line, end.column):
                return True
    return False
