"""The module hierarchy below an entry, according to the source."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tcready.schema.enums import BREAKING, Mode
from tcready.schema.static import Finding, StaticModule, StaticTarget
from tcready.static.diagnostics.call_graph import CallPath
from tcready.static.diagnostics.diagnose import Place
from tcready.static.domain.facts import Call, extent
from tcready.static.domain.values import UNKNOWN, Class, External, ExternalInstance, Instance, Value, options
from tcready.static.domain.values import Mapping as Dict
from tcready.static.domain.values import Sequence as Items
from tcready.static.entry_analysis import Interpretation
from tcready.static.frontend.index import FunctionInfo
from tcready.static.interp.interfaces import Context
from tcready.static.interp.interpreter import Interpreter
from tcready.static.library.semantics import CONTAINERS, is_module_class

MAX_TREE_DEPTH = 24
MAX_NODES = 5000


@dataclass(frozen=True)
class TreeNode:
    """A module of the hierarchy: dotted name from the root (`*` for members of a list), what may be there."""

    name: str
    values: tuple[Instance | ExternalInstance, ...]
    sure: bool
    """Whether there is such a module under every configuration."""


@dataclass(frozen=True)
class _Child:
    """A module that an object holds under one name."""

    name: str
    modules: tuple[Instance | ExternalInstance, ...]
    sure: bool


def static_targets(
    interpretation: Interpretation, findings: Mapping[Place, Finding], codes: Sequence[str], modes: tuple[Mode, ...]
) -> Iterator[StaticTarget]:
    """Yield the module hierarchy of every analysed root, with the breaking findings each module runs.

    `codes` are those of the rules that claim anything.
    """
    breaking = _breaking(interpretation.interpreter, findings, codes)
    for analysis, reached in zip(interpretation.analyses, interpretation.ways, strict=True):
        if analysis.root is None:
            every = sorted({fingerprint for found in breaking.contexts.values() for fingerprint in found})
            unknown = tuple(dict.fromkeys(_unknown_members(interpretation.interpreter, reached)))
            members, kind = tuple(member for _, member in unknown), unknown[0][0] if unknown else "function"
            modules = [StaticModule("", kind, None, None, tuple(every), members)]
        else:
            nodes = list(module_tree(interpretation.interpreter, analysis.root))
            below = _idents_below(nodes)
            modules = [_static_module(interpretation, node, below[node.name], reached, breaking) for node in nodes]
        yield StaticTarget(
            analysis.target,
            tuple(modules),
            modes,
            dtype=interpretation.interpreter.dtype or "",
            is_read=analysis.is_read,
            compiled_at=analysis.compiled_at,
        )


@dataclass(frozen=True)
class _Breaking:
    """Fingerprints of breaking findings."""

    contexts: Mapping[int, set[str]]
    """By the context of the code."""
    called: Mapping[int, Mapping[int, set[str]]]
    """By the module without source that breaks when called, and the context of the call: no graph can contain it."""


def _breaking(interpreter: Interpreter, findings: Mapping[Place, Finding], codes: Sequence[str]) -> _Breaking:
    contexts: dict[int, set[str]] = {}
    called: dict[int, dict[int, set[str]]] = {}
    starts: dict[tuple[str, int, int], list[str]] = {}
    for place, finding in findings.items():
        if place[3] in codes and finding.effect in BREAKING and finding.confidence != "low":
            starts.setdefault(place[:3], []).append(finding.fingerprint)
    for fact in interpreter.facts:
        begins, _ = extent(fact)
        start = (fact.where.path, begins.lineno, begins.col_offset)
        broken = starts.get(start)
        if broken is None:
            continue
        contexts.setdefault(fact.where.context, set()).update(broken)
        if isinstance(fact, Call) and fact.method in (None, "__call__", "forward"):
            for callee in (fact.function, fact.receiver):
                if isinstance(callee, (Instance, ExternalInstance)) and callee.ident:
                    calls = called.setdefault(callee.ident, {})
                    calls.setdefault(fact.where.context, set()).update(broken)
    return _Breaking(contexts, called)


def _own_forward(interpreter: Interpreter, value: Instance | ExternalInstance) -> list[FunctionInfo]:
    """Return the definitions of a module's forward with source; none if it is torch's."""
    return interpreter.classes.mro(value.cls).functions("forward") if isinstance(value, Instance) else []


def _idents_below(nodes: Sequence[TreeNode]) -> dict[str, set[int]]:
    """Return the modules below each name."""
    below: dict[str, set[int]] = {node.name: set() for node in nodes}
    for node in reversed(nodes):  # children before their parents
        if node.name:
            parent = below[node.name.rpartition(".")[0]]
            parent.update(below[node.name], (value.ident for value in node.values))
    return below


def _static_module(
    interpretation: Interpretation,
    node: TreeNode,
    below: set[int],
    reached: Mapping[int, CallPath],
    breaking: _Breaking,
) -> StaticModule:
    """Return a node of the hierarchy; `below` are the modules under it, which answer for themselves. Of its contexts
    those count that the model reaches: another may hold the same module."""
    interpreter = interpretation.interpreter
    found: set[str] = set()
    unknown: dict[str, None] = {}
    path, line = None, None
    for value in node.values:
        for context, broken in breaking.called.get(value.ident, {}).items():
            found |= broken if context in reached else set()
        if not isinstance(value, Instance):
            continue
        for context in sorted(interpretation.graph.run_by(value.ident, below) & reached.keys()):
            found |= breaking.contexts.get(context, set())
            for callee in interpreter.unknown_callees.get(context, ()):
                if _is_made_elsewhere(interpreter, interpreter.contexts[context], callee):
                    unknown[ast.unparse(callee)] = None
    forwards = [forward for value in node.values for forward in _own_forward(interpreter, value)[:1]]
    if forwards:
        path = interpreter.program.shown(forwards[0].module.path)
        line = forwards[0].node.lineno
    names = (v.cls.name if isinstance(v, Instance) else v.name.rpartition(".")[2] for v in node.values)
    types = " | ".join(dict.fromkeys(names))
    return StaticModule(node.name, types, path, line, tuple(sorted(found)), unknown=tuple(unknown), sure=node.sure)


def _unknown_members(interpreter: Interpreter, reached: Mapping[int, CallPath]) -> Iterator[tuple[str, str]]:
    """Yield the members that methods of plain objects call and of which nothing is known: the class, and the member as
    source text."""
    for context in sorted(reached):
        function = interpreter.contexts[context].function
        owner = function.owner if function is not None else None
        if function is None or owner is None or interpreter.classes.mro(owner).is_module:
            continue
        own = next(iter(_parameters(function)), None)
        for callee in interpreter.unknown_callees.get(context, ()):
            base = callee
            while isinstance(base, ast.Attribute):
                base = base.value
            if base is not callee and isinstance(base, ast.Name) and base.id == own:
                yield owner.name, ast.unparse(callee)


def _is_made_elsewhere(interpreter: Interpreter, context: Context, callee: ast.expr) -> bool:
    """Return whether code calls a member of its module that was made by a helper which could not be followed,
    `self.backbone` after `self.backbone = load(config)`: it may be any code. A value from a parameter or a table, an
    activation or the class of a norm, is small and says less."""
    owner = context.arguments[0] if context.arguments else None
    if context.function is None or not isinstance(owner, Instance) or not interpreter.classes.is_module(owner):
        return False
    own = next(iter(_parameters(context.function)), None)
    name = ""
    while isinstance(callee, ast.Attribute):
        name, callee = callee.attr, callee.value
    if not (name and isinstance(callee, ast.Name) and callee.id == own):
        return False
    mro = interpreter.classes.mro(owner.cls)
    if any(_modules(interpreter, interpreter.heap[owner].attributes.get(name, UNKNOWN))):
        return False  # one way of making it is known
    methods = [info for cls in mro.classes for found in cls.functions.values() for info in found]
    return bool(mro.functions(name)) or any(
        _is_a_helpers(interpreter, value, info)
        for info in methods
        for value in _assigned_values(info, lambda target: isinstance(target, ast.Attribute) and target.attr == name)
    )


def _is_a_helpers(interpreter: Interpreter, value: ast.expr, info: FunctionInfo) -> bool:
    """Return whether a call that no parameter supplies makes the value, directly or by way of a variable."""

    def variable(name: str) -> list[ast.expr]:
        return [*_assigned_values(info, lambda target: isinstance(target, ast.Name) and target.id == name)]

    if isinstance(value, ast.IfExp):
        return any(_is_a_helpers(interpreter, each, info) for each in (value.body, value.orelse))
    if isinstance(value, ast.Name):
        named = (each for each in variable(value.id) if not isinstance(each, ast.Name))
        return any(_is_a_helpers(interpreter, each, info) for each in named)
    if not isinstance(value, ast.Call):
        return False
    function = value.func
    while isinstance(function, ast.Attribute):
        function = function.value
    if not isinstance(function, ast.Name) or function.id in _parameters(info)[1:] or variable(function.id):
        return False
    named_globally = interpreter.names.global_value(info.module, function.id)
    if isinstance(named_globally, External):
        return not named_globally.name.startswith("torch")
    if isinstance(named_globally, Dict):
        return False  # a table
    return not (isinstance(named_globally, Class) and isinstance(value.func, ast.Name))


def _assigned_values(info: FunctionInfo, wanted: Callable[[ast.expr], bool]) -> Iterator[ast.expr]:
    """Return the values that a function assigns to the wanted targets."""
    for node in info.nodes:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(map(wanted, targets)):
                yield node.value


def _parameters(info: FunctionInfo) -> list[str]:
    spec = info.node.args
    return [arg.arg for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]


def module_tree(interpreter: Interpreter, root: Instance) -> Iterator[TreeNode]:
    """Return the modules below `root`, parents first; one held at two names is listed at both (two modules may be one
    object to the interpreter). Ends after MAX_NODES."""
    yield from itertools.islice(_walk(interpreter, TreeNode("", (root,), True), (), 0), MAX_NODES)


def _walk(interpreter: Interpreter, node: TreeNode, above: tuple[int, ...], depth: int) -> Iterator[TreeNode]:
    yield node
    if depth > MAX_TREE_DEPTH:
        return
    found: dict[str, list[tuple[int, _Child]]] = {}
    for value in node.values:
        for child in _children(interpreter, value) if value.ident not in above else ():
            found.setdefault(child.name, []).append((value.ident, child))
    if "*" in found:  # the members of one list are unknown, so positions in another say no more
        for name in [name for name in found if name.isdigit()]:
            found["*"] += found.pop(name)
    everyone = {value.ident for value in node.values}
    inner = (*above, *everyone)
    for name, children in found.items():
        every = (module for _, child in children for module in child.modules)
        modules = tuple(dict.fromkeys(module for module in every if module.ident not in above))
        if modules:
            in_all = {holder for holder, _ in children} == everyone
            sure = node.sure and in_all and all(child.sure for _, child in children)
            # one line does not compile both what has a forward of its own and what has torch's
            sure = sure and len({bool(_own_forward(interpreter, module)) for module in modules}) == 1
            path = f"{node.name}.{name}" if node.name else name
            yield from _walk(interpreter, TreeNode(path, modules, sure), inner, depth + 1)


def _children(interpreter: Interpreter, value: Instance | ExternalInstance) -> Iterator[_Child]:
    if isinstance(value, ExternalInstance) and not value.ident:
        return
    known = interpreter.heap[value]
    for name, attribute in known.attributes.items():
        modules = tuple(_modules(interpreter, attribute))
        if modules:
            yield _Child(name, modules, name in known.sure and _is_module_whatever(modules, attribute))
    members = known.members
    if isinstance(members, Items):
        if members.items is None:
            yield _member(interpreter, "*", members.element)
        else:
            for index, item in enumerate(members.items):
                yield _member(interpreter, "*" if known.uncounted else str(index), item)
    elif isinstance(members, Dict):
        for key, item in members.entries:
            name = key if isinstance(key, str) and key and "." not in key else "*"  # torch refuses any other
            yield _member(interpreter, name, item)
        if members.element is not None:
            yield _member(interpreter, "*", members.element)


def _member(interpreter: Interpreter, name: str, item: Value) -> _Child:
    modules = tuple(_modules(interpreter, item))
    every = len(modules) == len(options(item)) if name == "*" else _is_module_whatever(modules, item)
    return _Child(name, modules, every)


def _is_module_whatever(modules: Sequence[Value], value: Value) -> bool:
    """Return whether a value is a module, other than an identity, under every configuration."""
    named = (module.name for module in modules if isinstance(module, ExternalInstance))
    return len(modules) == len(options(value)) and (len(modules) == 1 or "torch.nn.Identity" not in named)


def _modules(interpreter: Interpreter, value: Value) -> Iterable[Instance | ExternalInstance]:
    for option in options(value):
        if (isinstance(option, Instance) and interpreter.classes.is_module(option)) or (
            isinstance(option, ExternalInstance) and (is_module_class(option.name) or option.name in CONTAINERS)
        ):
            yield option
