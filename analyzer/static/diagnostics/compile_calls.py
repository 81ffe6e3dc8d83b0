"""Find what a file compiles: the arguments of `torch.compile` and the modules that `.compile()` is called on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tcready.schema.compile_call import CompileCall
from tcready.static.domain.scope import Frame
from tcready.static.domain.values import (
    UNKNOWN,
    Const,
    ExternalInstance,
    Function,
    Instance,
    Value,
    members_of,
    options,
)
from tcready.static.domain.values import Sequence as Items
from tcready.static.frontend.index import ClassInfo, FunctionInfo, Import, ModuleInfo
from tcready.static.frontend.source import nodes_in
from tcready.static.interp.interpreter import Interpreter

COMPILE = "compile"
TORCH_COMPILE = "torch.compile"
PARTIAL = "partial"
OF_BLOCKS = "compile_repeated_blocks"
"""The method of diffusers' models that calls `.compile()` of each submodule whose class is named in `BLOCKS`
(diffusers 0.42)."""
BLOCKS = "_repeated_blocks"
SETTINGS = ("torch_compile", "torch_compile_backend", "torch_compile_mode")
"""Arguments that make a trainer compile its model, of transformers' `TrainingArguments` and classes derived from it
(transformers 5.5 and 5.23: each of them turns compiling on)."""
MOST_ITEMS = 16
"""The number of items of a loop that are followed."""


@dataclass(frozen=True)
class Compiled:
    """A function, method or module that code of a file compiles, and the call that does."""

    value: Function | Instance | None
    """None if the file does not show what it is, such as an argument of the function with the call."""
    call: CompileCall
    name: str = ""
    """By what name a target finds it in the file: that of a function or class, or of the attribute or variable that holds
    it."""

    @property
    def code(self) -> FunctionInfo | ClassInfo | None:
        """Return the function, or the class of the module."""
        if isinstance(self.value, Instance):
            return self.value.cls
        return self.value.info if self.value is not None else None


@dataclass(frozen=True)
class _Site:
    """A call that compiles: the expression of what it compiles, its options, and where it is."""

    subject: ast.expr | FunctionInfo
    """A function is one that is decorated with the call."""
    options: Mapping[str, ast.expr]
    line: int
    function: FunctionInfo | None
    """The function around it; None at module level."""
    method: str = ""
    """The method of a module that is called; empty for `torch.compile` and for a trainer."""
    assigned: ast.expr | None = None
    """What the result is assigned to."""

    @property
    def holder(self) -> str:
        """Return the attribute of the class around the call, `Server.net`, or the variable of the file, that holds what
        is compiled; empty if there is none."""
        owner = self.function.owner if self.function is not None else None
        for node in (self.assigned, self.subject):
            if isinstance(node, ast.Name) and self.function is None:
                return node.id
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and owner is not None:
                assert self.function is not None
                if [each.arg for each in self.function.node.args.args[:1]] == [node.value.id]:
                    return f"{owner.name}.{node.attr}"
        return ""


def compiled_values(
    interpreter: Interpreter, module: ModuleInfo, owners: Sequence[ClassInfo] | None = None
) -> Iterator[Compiled]:
    """Yield the functions, methods and modules that code of a file compiles, each once, and the calls that compile an
    unknown value; with `owners`, those in code of these classes.

    No fact is emitted for the code around the calls, which does not run in a graph. A method `compile` of an unknown
    value is left out: it may be any method of that name.
    """
    if COMPILE not in module.source.text:
        return
    seen: set[Value] = set()
    for site, value, call in _values(interpreter, module, owners):
        found = [
            each
            for each in options(value)
            if isinstance(each, Function) or (isinstance(each, Instance) and interpreter.classes.is_module(each))
        ]
        for each in found:
            if each not in seen:
                seen.add(each)
                assert isinstance(each, (Function, Instance))
                yield Compiled(each, call, _name_of(each, site, module))
        if not found and site.method != COMPILE:
            yield Compiled(None, call)


def _name_of(value: Function | Instance, site: _Site, module: ModuleInfo) -> str:
    if isinstance(value, Instance):
        return site.holder if "." in site.holder else value.cls.symbol
    owner, name = value.info.owner, value.info.name
    if owner is not None:
        return f"{owner.name}.{name}"
    return name if name in module.bindings else site.holder or name


def _values(
    interpreter: Interpreter, module: ModuleInfo, owners: Sequence[ClassInfo] | None
) -> Iterator[tuple[_Site, Value, CompileCall]]:
    roots: dict[ClassInfo, Instance] = {}

    def built(cls: ClassInfo) -> Instance:
        if cls not in roots:
            roots[cls] = interpreter.objects.build(cls)
        return roots[cls]

    for site in _sites(interpreter, module):
        function = site.function
        if owners is not None and (function is None or function.owner not in owners):
            continue
        frame = replace(interpreter.names.module_frame(module), env={}, depth=0)
        if isinstance(site.subject, FunctionInfo):
            owner = site.subject.owner
            decorated = Function(site.subject, built(owner)) if owner is not None else Function(site.subject)
            yield site, decorated, _call(interpreter, site, frame)
            continue
        nodes = function.nodes if function is not None else _loops(module)
        for item in range(MOST_ITEMS):
            frame = replace(frame, env={})
            if function is not None and function.owner is not None and (names := function.node.args.args):
                frame.env[names[0].arg] = built(function.owner)
            assignments = _assignments_for(site.subject, nodes, item)
            with interpreter.outside_trace():
                for name, value, _ in assignments:
                    frame.env[name] = interpreter.expressions.eval(value, frame)
                found = interpreter.expressions.eval(site.subject, frame)
            call = _call(interpreter, site, frame)
            blocks = [*_blocks(interpreter, found)] if site.method == OF_BLOCKS else []
            for each in blocks or (UNKNOWN if site.method == OF_BLOCKS else found,):
                yield site, each, call
            if not any(is_item for _, _, is_item in assignments):
                break


def _call(interpreter: Interpreter, site: _Site, frame: Frame) -> CompileCall:
    """Return the call with its options: a value that the source decides, else the expression."""
    given = []
    for name, node in site.options.items():
        value = interpreter.expressions.peek(node, frame)
        given.append((name, repr(value.value) if isinstance(value, Const) else ast.unparse(node)))
    symbol = site.function.symbol if site.function is not None else ""
    subject = site.subject.name if isinstance(site.subject, FunctionInfo) else ast.unparse(site.subject)
    return CompileCall(interpreter.program.shown(frame.module.path), site.line, symbol, tuple(given), subject)


def _blocks(interpreter: Interpreter, value: Value) -> Iterator[Value]:
    """Yield the submodules of a model that are of a class that it names as one of its repeated blocks."""
    for model in options(value):
        if not isinstance(model, Instance):
            continue
        with interpreter.outside_trace():
            names = interpreter.attributes.member(model, BLOCKS, interpreter.names.module_frame(model.cls.module))
        wanted = {
            name.value
            for named in options(names)
            if isinstance(named, Items)
            for member in members_of(named)
            for name in options(member)
            if isinstance(name, Const)
        }
        found: dict[Instance | ExternalInstance, None] = {}
        waiting: list[Instance | ExternalInstance] = [model]
        while waiting:
            children = interpreter.containers.children(waiting.pop())
            parts = [part for _, part in children.entries] + ([children.element] if children.element else [])
            modules = (each for part in parts for each in options(part))
            fresh = [each for each in modules if isinstance(each, (Instance, ExternalInstance)) and each not in found]
            found.update(dict.fromkeys(fresh))
            waiting += fresh
        yield from (each for each in found if isinstance(each, Instance) and each.cls.name in wanted)


def _methods(module: ModuleInfo) -> Iterator[FunctionInfo]:
    for cls in module.classes():
        for found in cls.functions.values():
            yield from found


def _sites(interpreter: Interpreter, module: ModuleInfo) -> Iterator[_Site]:
    functions = [each for found in module.bound().values() for each in found if isinstance(each, FunctionInfo)]
    finder = _Finder(interpreter, module)
    inside: set[ast.AST] = set()
    for function in (*functions, *_methods(module)):
        for decorator in function.decorators:
            given = finder.options_of(decorator)
            if given is not None:
                yield _Site(function, given, decorator.lineno, function)
            inside.update(ast.walk(decorator))
        inside.update(function.nodes)
        yield from finder.sites(function.nodes, function)
    yield from finder.sites((node for node in nodes_in(module.source.tree) if node not in inside), None)


class _Finder:
    """Finds calls that compile in a file, also by names for partial calls of `torch.compile` and for settings with which
    a trainer compiles its model."""

    def __init__(self, interpreter: Interpreter, module: ModuleInfo) -> None:
        self.interpreter, self.module = interpreter, module
        self.partials = _names_of(module, PARTIAL, lambda value: _is_partial(interpreter, module, value))
        self.settings = _names_of(module, SETTINGS[0], _is_settings)

    def sites(self, nodes: Iterable[ast.AST], function: FunctionInfo | None) -> Iterator[_Site]:
        """Yield the calls that compile among the nodes of a function, or of the module."""
        assigned: dict[ast.AST, ast.expr] = {}
        for node in nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                assigned[node.value] = node.targets[0]
            if (site := self.site(node, function)) is not None:
                yield replace(site, assigned=assigned.get(node))

    def site(self, node: ast.AST, function: FunctionInfo | None) -> _Site | None:
        """Return the call that compiles; None if a node is none. Whether the receiver of `.compile()` is a module shows
        when it is evaluated."""
        if not isinstance(node, ast.Call):
            return None
        given = self.options_of(node.func)
        of_trainer = self._options_of_settings(node) if given is None else None
        if given is not None or of_trainer is not None:
            named = [each.value for each in node.keywords if each.arg == "model"]
            subject = next(iter([*node.args[:1], *named]), None)
            known = of_trainer if given is None else {**given, **_keywords(node)}
            return _Site(subject, known or {}, node.lineno, function) if subject is not None else None
        if isinstance(node.func, ast.Attribute) and node.func.attr in (COMPILE, OF_BLOCKS):
            return _Site(node.func.value, _keywords(node), node.lineno, function, node.func.attr)
        return None

    def options_of(self, node: ast.expr) -> Mapping[str, ast.expr] | None:
        """Return the options that an expression for a function that compiles has already: of `torch.compile` none, of
        `torch.compile(dynamic=True)` and of a partial call of it those that it gives. None for any other expression."""
        if isinstance(node, ast.Name) and node.id in self.partials:
            node = self.partials[node.id]
        if isinstance(node, ast.Call) and (
            _is_partial(self.interpreter, self.module, node)
            or (not node.args and self.options_of(node.func) is not None)
        ):
            return {**(self.options_of(node.func) or {}), **_keywords(node)}
        return {} if _is_torch_compile(self.interpreter, self.module, node) else None

    def _options_of_settings(self, node: ast.Call) -> Mapping[str, ast.expr] | None:
        """Return the options in the settings of a trainer that compiles its model; None if it does not."""
        for each in (*node.args, *(keyword.value for keyword in node.keywords)):
            settings = self.settings.get(each.id) if isinstance(each, ast.Name) else each
            if settings is not None and _is_settings(settings):
                assert isinstance(settings, ast.Call)
                given = _keywords(settings)
                return {name.removeprefix(f"{SETTINGS[0]}_"): given[name] for name in SETTINGS[1:] if name in given}
        return None


def _keywords(node: ast.Call) -> dict[str, ast.expr]:
    return {each.arg: each.value for each in node.keywords if each.arg is not None and each.arg != "model"}


def _names_of(module: ModuleInfo, word: str, is_one: Callable[[ast.expr], bool]) -> Mapping[str, ast.expr]:
    """Return the names of a file that are assigned only values for which `is_one` holds, each with the last one; none if
    the file lacks `word`."""
    if word not in module.source.text:
        return {}
    found: dict[str, ast.expr | None] = {}
    for node in nodes_in(module.source.tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    holds = found.get(target.id, node.value) is not None and is_one(node.value)
                    found[target.id] = node.value if holds else None
    return {name: value for name, value in found.items() if value is not None}


def _is_settings(node: ast.expr) -> bool:
    """Return whether an expression makes such settings: `TrainingArguments(..., torch_compile=True)`."""
    return isinstance(node, ast.Call) and any(
        each.arg in SETTINGS and isinstance(each.value, ast.Constant) and each.value.value not in (None, False)
        for each in node.keywords
    )


def _is_partial(interpreter: Interpreter, module: ModuleInfo, node: ast.expr) -> bool:
    """Return whether an expression is `functools.partial(torch.compile, ...)`."""
    if not (isinstance(node, ast.Call) and node.args and _is_torch_compile(interpreter, module, node.args[0])):
        return False
    made = interpreter.expressions.peek(node.func, interpreter.names.module_frame(module))
    return getattr(made, "name", None) == f"functools.{PARTIAL}"


def _is_torch_compile(interpreter: Interpreter, module: ModuleInfo, node: ast.expr) -> bool:
    """Return whether an expression is `torch.compile`, by whatever name."""
    if isinstance(node, ast.Name):
        bound = module.bindings.get(node.id, ())
        is_near = any(isinstance(each, Import) and each.name == COMPILE for each in bound)
    else:
        is_near = isinstance(node, ast.Attribute) and node.attr == COMPILE
    if not is_near:
        return False
    found = interpreter.expressions.peek(node, interpreter.names.module_frame(module))
    return getattr(found, "name", None) == TORCH_COMPILE


def _loops(module: ModuleInfo) -> Sequence[ast.AST]:
    """Return the loops at module level: other assignments there are known by their names."""
    return [node for node in module.source.tree.body if isinstance(node, ast.For)]


def _assignments_for(subject: ast.expr, nodes: Iterable[ast.AST], item: int) -> list[tuple[str, ast.expr, bool]]:
    """Return the assignments to names in `nodes` that the value of an expression depends on, in their order, and whether
    each is that of a loop, which assigns the item with this number."""
    before = [
        (node.lineno, name, value, isinstance(node, ast.For))
        for node in nodes
        if isinstance(node, (ast.Assign, ast.For)) and node.lineno < subject.lineno
        for name, value in _bound_by(node, item)
    ]
    wanted, found = _names(subject), []
    for assignment in sorted(before, key=lambda each: -each[0]):
        _, name, value, _ = assignment
        if name in wanted:
            wanted |= _names(value)
            found.append(assignment[1:])
    return found[::-1]


def _bound_by(node: ast.Assign | ast.For, item: int) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign):
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        return
    items = ast.List([ast.Starred(node.iter, ast.Load())], ast.Load())
    yield from _unpack_calls(node.target, ast.Subscript(items, ast.Constant(item), ast.Load()))


def _unpack_calls(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, (ast.Tuple, ast.List)):
        for number, each in enumerate(target.elts):
            yield from _unpack_calls(each, ast.Subscript(value, ast.Constant(number), ast.Load()))


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
