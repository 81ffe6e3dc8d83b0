"""Derive the shape of a value from its form, and decide whether evaluating it changes anything."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.conditions import value_of, walk
from tcready.fixes.rewriters.statements import assigned_in, block_of, else_of, is_torch, text, values_given

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located


ELEMENTWISE = frozenset(
    "abs absolute acos add addcdiv addcmul asin atan ceil celu clamp clamp_max clamp_min clip clone contiguous cos cosh "
    "cumsum detach div divide dropout elu eq erf exp expm1 fill floor float fmod ge gelu gt half hardswish hardtanh "
    "heaviside isfinite isinf isnan le leaky_relu lerp log log10 log1p log2 log_softmax logical_and logical_not "
    "logical_or logit logsigmoid lt masked_fill maximum minimum mish mul multiply nan_to_num ne neg negative normalize "
    "ones_like pow reciprocal relu relu6 remainder round rsqrt selu sgn sigmoid sign silu sin sinh softmax softplus "
    "softsign sqrt square sub subtract tan tanh to trunc type_as where xlogy zeros_like double bfloat16 full_like "
    "empty_like bool int long".split()
)
"""Methods and functions of torch with a result as large as their tensors, broadcast."""


OF_FIRST = frozenset("cumsum dropout log_softmax normalize softmax to type_as".split())
"""Those with other arguments that do not make it larger."""
TO_ONE = frozenset("sum mean max min prod norm vector_norm std var numel item amax amin median".split())
"""Those that return one element for a tensor without further arguments."""
OTHERS = frozenset(
    "all any argmax argmin cat chunk dim expand expand_as finfo flatten flip gather iinfo index_select matmul mm bmm "
    "numel ones permute repeat reshape select size split stack squeeze sort swapaxes t tensor tile topk transpose "
    "tril triu unbind unflatten unsqueeze view view_as zeros new_ones new_zeros new_full full arange linear einsum "
    "isclose isin eye linspace narrow roll cumprod bitwise_and bitwise_or count_nonzero diff outer dot".split()
)
"""Other functions of torch that return a value and change nothing."""


Shape = frozenset[str]


@dataclass
class Shapes:
    """The operands, by their text, that are broadcast in expressions; none for a number."""

    place: Located
    known: dict[str, Shape] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    """Number of assignments to each name."""

    @classmethod
    def at(cls, place: Located, node: cst.CSTNode) -> Shapes:
        """Return the shapes at the beginning of a statement or an expression."""
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
                above.append(((), sorted(assigned_in([parent]))))
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
        """Update the names for statements."""
        for statement in statements:
            if isinstance(statement, cst.If):
                yes, no = self.copy(), self.copy()
                yes.follow(block_of(statement.body))
                no.follow(else_of(statement))
                for name in sorted(assigned_in([statement])):
                    shape = yes.known.get(name)
                    if shape is not None and shape == no.known.get(name):
                        self.set(name, shape)
                    else:
                        self.forget(name)
            elif isinstance(statement, cst.SimpleStatementLine):
                for part in statement.body:
                    self._follow_one(part)
            else:
                for name in sorted(assigned_in([statement])):
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
        for name in sorted(assigned_in([part])):
            shape = shapes.get(name)
            if shape is None:
                self.forget(name)
            else:
                self.set(name, shape)

    def of(self, node: cst.BaseExpression) -> Shape | None:
        """Return the shape; None if the form does not show it."""
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
        """Return True if a name is one number or one element, by the form of its value."""
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
            return frozenset() if text(call.func) in ("bool", "float", "int") else None
        name = call.func.attr.value
        of_torch = is_torch(call.func.value)
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
        """Return an atom that equals that of the same expression elsewhere, as long as no name in it was reassigned."""
        if not is_pure(node):
            return None
        names = {each.value for each in walk(node) if isinstance(each, cst.Name)}
        versions = ", ".join(f"{n} {self.versions[n]}" for n in sorted(names & self.versions.keys()))
        return frozenset({f"{text(node)} {versions}"})

    def _is_number_of_self(self, node: cst.Attribute) -> bool:
        """Return True if the class assigns only numbers to an attribute of self, by literals and by parameters that
        are numbers by their defaults or annotations."""
        around = self.place.class_around
        if around is None or text(node.value) != "self":
            return False
        stores = list(values_given(ast.walk(around), text(node)))
        return bool(stores) and all(_is_number_given(around, each) for each in stores)

    def is_number(self, node: cst.BaseExpression) -> bool:
        """Return True if it is a Python number by its form: sizes, limits of a dtype, literals."""
        if isinstance(node, (cst.Integer, cst.Float)):
            return True
        if isinstance(node, cst.UnaryOperation):
            return self.is_number(node.expression)
        if isinstance(node, cst.BinaryOperation):
            return self.is_number(node.left) and self.is_number(node.right)
        if isinstance(node, cst.Attribute):
            return (
                self._is_number_of_self(node)
                or (
                    node.attr.value in ("max", "min", "eps", "tiny", "smallest_normal")
                    and isinstance(node.value, cst.Call)
                    and isinstance(node.value.func, (cst.Attribute, cst.Name))
                    and text(node.value.func).rpartition(".")[2] in ("finfo", "iinfo")
                )
                or node.attr.value == "ndim"
            )
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


def _is_number_given(around: ast.ClassDef, value: ast.expr) -> bool:
    """Return True if a value that a class assigns to an attribute is a number."""
    if isinstance(value, ast.Name):
        for each in ast.walk(around):
            for arg, default in _parameters(each) if isinstance(each, ast.FunctionDef) else ():
                if arg.arg == value.id:
                    annotated = arg.annotation is not None and ast.unparse(arg.annotation) in ("int", "float")
                    return annotated or (default is not None and _is_number_given(around, default))
        return False
    if isinstance(value, ast.UnaryOp):
        return _is_number_given(around, value.operand)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def _parameters(function: ast.FunctionDef) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Return the parameters of a function with their defaults."""
    args = [*function.args.posonlyargs, *function.args.args]
    missing = [None] * (len(args) - len(function.args.defaults))
    yield from zip(args, [*missing, *function.args.defaults], strict=True)
    yield from zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)


def is_pure(node: cst.CSTNode) -> bool:
    """Return True if evaluating it changes nothing, by its form: every call in it is one of torch's pure functions."""
    return impure_part(node) is None


def impure_part(node: cst.CSTNode) -> cst.CSTNode | None:
    """Return the first code in it for which that is not so."""
    for each in walk(node):
        if isinstance(each, (cst.Await, cst.Yield, cst.NamedExpr, cst.Lambda, cst.GeneratorExp, cst.ListComp)):
            return each
        if isinstance(each, cst.Call):
            if isinstance(each.func, cst.Name):
                if each.func.value not in ("len", "min", "max", "abs", "float", "int", "bool", "tuple", "list"):
                    return each
            elif isinstance(each.func, cst.Attribute):
                if each.func.attr.value not in ELEMENTWISE | TO_ONE | OTHERS and not text(each.func).startswith(
                    "math."
                ):
                    return each
            else:
                return each
    return None
