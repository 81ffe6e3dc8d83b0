"""The models that patches are made from, and what all kinds of patches share.

A kind of patch is a function that is given a `Site`, a node of the source, and yields what may replace it: the code
of one expression, statement or function, or a `Whole` file.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import construct_samples
import libcst as cst
from libcst import matchers
from tcready.fixes import patching

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
OF_THE_HARNESS = ("get_inputs", "get_init_inputs", "get_example_inputs")
"""Functions that give inputs: a patch that changes these changes what is compared."""
FUNCTION_MODULES = ("torch", "F", "nn.functional", "torch.nn.functional")


@dataclass(frozen=True)
class Model:
    """A file with a model `Model` or `model`, and `get_inputs`."""

    name: str
    text: str

    @property
    def target(self) -> str:
        return "model.py::Model" if "class Model" in self.text else "model.py::model"


def models() -> Iterator[Model]:
    """The models of the fixtures that compile without a break, or lose their breaks by a patch of `fixtures/prove`."""
    for folder in ("tricky", "models"):
        for path in sorted((FIXTURES / folder).glob("clean_*.py")):
            text = path.read_text("utf-8")
            if "def get_inputs" in text and "class Model" in text:
                yield Model(f"{folder}/{path.stem}", text)
    for case in sorted((FIXTURES / "prove").iterdir()):
        patch = (case / "change.patch").read_text("utf-8")
        (file,) = patching.apply_patch(patch, case.name, case.joinpath)
        yield Model(f"prove/{case.name}", file.before)
        if re.match(r"r[_\d]", case.name):
            yield Model(f"prove/{case.name} after", file.after)
    for number, sample in enumerate(construct_samples.samples()):
        if not {"config", "mode", "like"} & sample.keys.keys() and "# expect" not in sample.text:
            inputs = sample.keys.get("inputs", "(torch.randn(4, 8),)")
            text = f"{sample.text.strip()}\n\n\ndef get_inputs():\n    return list({inputs})\n"
            yield Model(f"constructs/{number} {sample.row}", text)


@dataclass(frozen=True)
class Whole:
    """The text of a whole file."""

    text: str


@dataclass(frozen=True)
class Site:
    """A node of a source, the function and the class around it, and whether its value is used as a statement."""

    node: cst.CSTNode
    parent: cst.CSTNode
    function: cst.FunctionDef | None
    owner: cst.ClassDef | None
    module: cst.Module

    @cached_property
    def code(self) -> str:
        return self.code_of(self.node)

    def code_of(self, node: cst.CSTNode) -> str:
        return self.module.code_for_node(node)

    @property
    def in_init(self) -> bool:
        return self.function is not None and self.function.name.value == "__init__"

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters of the function around."""
        if self.function is None:
            return ()
        given = self.function.params
        return tuple(each.name.value for each in (*given.posonly_params, *given.params, *given.kwonly_params))

    @cached_property
    def locals(self) -> tuple[str, ...]:
        """Names that the function around assigns."""
        found: dict[str, None] = {}

        if self.function is not None:
            for each in matchers.findall(self.function.body, matchers.AssignTarget(target=matchers.Name())):
                found[cst.ensure_type(cst.ensure_type(each, cst.AssignTarget).target, cst.Name).value] = None
        return tuple(found)

    def replaced(self, other: str) -> str:
        """The file with other code in place of the node."""
        return replaced(self.module, self.node, other).code

    def statements(self) -> list[cst.CSTNode]:
        """The statements of the function around."""
        return list(self.function.body.body) if self.function is not None else []


Rewrite = Callable[[Site], Iterator["str | Whole"]]


@dataclass(frozen=True)
class Call:
    """A method of a tensor, or the function of torch by the same name, called on `subject`."""

    name: str
    subject: str
    arguments: tuple[str, ...]
    module: str | None
    """`torch` or `F`, of a function."""

    def keyword(self, name: str) -> str | None:
        for each in self.arguments:
            key, _, value = each.partition("=")
            if key.strip() == name and not value.startswith("="):
                return value.strip()
        return None

    def with_arguments(self, arguments: tuple[str, ...], name: str | None = None) -> str:
        name = name or self.name
        if self.module is None:
            return f"{self.subject}.{name}({', '.join(arguments)})"
        return f"{self.module}.{name}({', '.join((self.subject, *arguments))})"


def call_of(site: Site) -> Call | None:
    """The call that a node is, if it is one of a tensor's."""
    node = site.node
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    receiver, name = site.code_of(node.func.value), node.func.attr.value
    arguments = tuple(site.code_of(each.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for each in node.args)
    if receiver in FUNCTION_MODULES:
        if not arguments or "=" in arguments[0] or arguments[0].startswith("*"):
            return None
        return Call(name, arguments[0], arguments[1:], receiver)
    return Call(name, receiver, arguments, None)


def arguments_of(site: Site, call: cst.Call) -> list[str]:
    return [site.code_of(each.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for each in call.args]


def sites(text: str) -> Iterator[Site]:
    """Every node of the functions of a file, outermost first, without those that give inputs."""
    module = cst.parse_module(text)
    yield from _below(module, module, None, None, module)


def _below(
    node: cst.CSTNode,
    parent: cst.CSTNode,
    function: cst.FunctionDef | None,
    owner: cst.ClassDef | None,
    module: cst.Module,
) -> Iterator[Site]:
    if isinstance(node, cst.FunctionDef) and node.name.value in OF_THE_HARNESS:
        return
    if isinstance(node, cst.Import | cst.ImportFrom | cst.Annotation):
        return
    yield Site(node, parent, function, owner, module)
    if isinstance(node, cst.FunctionDef) and function is None:
        function = node
    elif isinstance(node, cst.ClassDef):
        owner, function = node, None
    for child in node.children:
        yield from _below(child, node, function, owner, module)


def replaced(module: cst.Module, node: cst.CSTNode, code: str) -> cst.Module:
    """A module with other code in place of a node. Raises cst.ParserSyntaxError if the code is none."""
    if isinstance(node, cst.BaseExpression):
        parsed = cst.parse_expression(code)
        if isinstance(parsed, NEED_PARENTHESES) and not parsed.lpar:
            parsed = parsed.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        new: cst.CSTNode | cst.FlattenSentinel[cst.CSTNode] = parsed
    else:
        body = cst.parse_module(code if code.strip() else "pass\n").body
        new = cst.FlattenSentinel(body)
        if isinstance(node, cst.BaseSmallStatement) and isinstance(body[0], cst.SimpleStatementLine):
            new = body[0].body[0]

    class Replacing(cst.CSTTransformer):
        def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode):  # type: ignore[no-untyped-def]
            return new if original_node is node else updated_node

    changed = module.visit(Replacing())
    assert isinstance(changed, cst.Module)
    return changed


NEED_PARENTHESES = (
    cst.BinaryOperation,
    cst.UnaryOperation,
    cst.BooleanOperation,
    cst.Comparison,
    cst.IfExp,
    cst.Lambda,
    cst.Tuple,
    cst.NamedExpr,
)


def candidates(text: str, kinds: Mapping[str, Rewrite]) -> Iterator[tuple[str, Site, str | Whole]]:
    """Each kind of rewriting at each place that takes it."""
    for site in sites(text):
        for kind, rewrite in kinds.items():
            for other in rewrite(site):
                yield kind, site, other


def carried_out(site: Site, other: str | Whole) -> str | None:
    """The whole new file; None if it is no Python, or the same."""
    before = site.module.code
    try:
        new = other.text if isinstance(other, Whole) else site.replaced(other)
        compile(new, "model.py", "exec")
    except (cst.ParserSyntaxError, cst.CSTValidationError, SyntaxError, TypeError):
        return None
    return new if new != before else None


def patch_between(before: str, after: str) -> str:
    """A unified diff of `model.py`."""
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), "a/model.py", "b/model.py", n=3)
    return "".join(lines)


def with_method(text: str, owner: str, method: str) -> str:
    """A file with one more method at the end of a class."""
    module = cst.parse_module(text)
    found = next(each for each in module.body if isinstance(each, cst.ClassDef) and each.name.value == owner)
    added = cst.parse_module("\n" + method).body
    body = found.body.with_changes(body=[*found.body.body, *added])
    return module.deep_replace(found, found.with_changes(body=body)).code  # type: ignore[union-attr]


def with_line_of_module(text: str, line: str) -> str:
    """A file with a line behind its last import."""
    module = cst.parse_module(text)
    last = max(
        (
            number
            for number, each in enumerate(module.body)
            if isinstance(each, cst.SimpleStatementLine) and isinstance(each.body[0], cst.Import | cst.ImportFrom)
        ),
        default=-1,
    )
    body = list(module.body)
    return module.with_changes(body=[*body[: last + 1], *cst.parse_module(line).body, *body[last + 1 :]]).code


def with_line_of_init(text: str, owner: str, line: str) -> str | None:
    """A file with one more line at the end of the constructor of a class; None if there is none."""
    module = cst.parse_module(text)
    for each in module.body:
        if isinstance(each, cst.ClassDef) and each.name.value == owner:
            for method in each.body.body:
                if isinstance(method, cst.FunctionDef) and method.name.value == "__init__":
                    body = method.body.with_changes(body=[*method.body.body, *cst.parse_module(line).body])
                    return module.deep_replace(method, method.with_changes(body=body)).code  # type: ignore[union-attr]
    return None
