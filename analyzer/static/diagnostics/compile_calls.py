"""Find what a file compiles: the arguments of `torch.compile` and the modules that `.compile()` is called on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tcready.static.domain.values import Function, Instance, Value, options
from tcready.static.frontend.index import ClassInfo, FunctionInfo, Import, ModuleInfo
from tcready.static.frontend.source import nodes_in
from tcready.static.interp.interpreter import Interpreter

COMPILE = "compile"
TORCH_COMPILE = "torch.compile"
PARTIAL = "partial"
SETTINGS = ("torch_compile", "torch_compile_backend", "torch_compile_mode")
"""Arguments that make a trainer compile its model, of transformers' `TrainingArguments` and classes derived from it
(transformers 5.5 and 5.23: each of them turns compiling on)."""
MOST_ITEMS = 16
"""The number of items of a loop that are followed."""


@dataclass(frozen=True)
class CompileCall:
    """A call that compiles: the expression of what it compiles, and where it is."""

    subject: ast.expr
    function: FunctionInfo | None
    """The function around it; None at module level."""


def compiled_values(
    interpreter: Interpreter, module: ModuleInfo, owner: ClassInfo | None = None
) -> Iterator[Function | Instance]:
    """Yield the functions, methods and modules that code of a file compiles, each once; with `owner`, code of that class.

    No fact is emitted for the code around the calls, which does not run in a graph. Unknown values, such as an argument
    of the function with the call, are left out.
    """
    if COMPILE not in module.source.text:
        return
    seen: set[Value] = set()
    roots: dict[ClassInfo, Instance] = {}
    for value in _values(interpreter, module, roots, owner):
        for each in options(value):
            known = isinstance(each, Function) or (isinstance(each, Instance) and interpreter.classes.is_module(each))
            if known and each not in seen:
                seen.add(each)
                assert isinstance(each, (Function, Instance))
                yield each


def _values(
    interpreter: Interpreter, module: ModuleInfo, roots: dict[ClassInfo, Instance], owner: ClassInfo | None
) -> Iterator[Value]:
    def built(cls: ClassInfo) -> Instance:
        if cls not in roots:
            roots[cls] = interpreter.objects.build(cls)
        return roots[cls]

    for method in _methods(module):
        if owner not in (None, method.owner):
            continue
        if any(_is_torch_compile(interpreter, module, each) for each in method.decorators):
            assert method.owner is not None
            yield Function(method, built(method.owner))
    for call in _compile_calls(interpreter, module):
        function = call.function
        if owner is not None and (function is None or function.owner is not owner):
            continue
        nodes = function.nodes if function is not None else _loops(module)
        for item in range(MOST_ITEMS):
            frame = replace(interpreter.names.module_frame(module), env={}, depth=0)
            if function is not None and function.owner is not None and (names := function.node.args.args):
                frame.env[names[0].arg] = built(function.owner)
            assignments = _assignments_for(call.subject, nodes, item)
            with interpreter.outside_trace():
                for name, value, _ in assignments:
                    frame.env[name] = interpreter.expressions.eval(value, frame)
                found = interpreter.expressions.eval(call.subject, frame)
            yield found
            if not any(is_item for _, _, is_item in assignments):
                break


def _methods(module: ModuleInfo) -> Iterator[FunctionInfo]:
    for cls in module.classes():
        for found in cls.functions.values():
            yield from found


def _compile_calls(interpreter: Interpreter, module: ModuleInfo) -> Iterator[CompileCall]:
    functions = [each for found in module.bound().values() for each in found if isinstance(each, FunctionInfo)]
    known = _KnownNames(_names_of_partials(interpreter, module), _names_of_settings(module))
    inside: set[ast.AST] = set()
    for function in (*functions, *_methods(module)):
        for node in function.nodes:
            inside.add(node)
            if (subject := _subject(interpreter, module, known, node)) is not None:
                yield CompileCall(subject, function)
    for node in nodes_in(module.source.tree):
        if node not in inside and (subject := _subject(interpreter, module, known, node)) is not None:
            yield CompileCall(subject, None)


@dataclass(frozen=True)
class _KnownNames:
    """Names of a file by which it compiles."""

    partials: frozenset[str]
    """Names of partial calls of `torch.compile`."""
    settings: frozenset[str]
    """Names of settings with which a trainer compiles its model."""


def _subject(interpreter: Interpreter, module: ModuleInfo, known: _KnownNames, node: ast.AST) -> ast.expr | None:
    """Return what a call compiles, by `torch.compile` or a name in `known`; None if it compiles nothing. Whether the
    receiver of `.compile()` is a module shows when it is evaluated."""
    if not isinstance(node, ast.Call):
        return None
    function = node.func
    if (
        (isinstance(function, ast.Name) and function.id in known.partials)
        or _has_settings(node, known.settings)
        or _is_torch_compile(interpreter, module, function)
        or _is_partial(interpreter, module, function)
    ):
        named = [each.value for each in node.keywords if each.arg == "model"]
        return next(iter([*node.args[:1], *named]), None)
    is_method = isinstance(node.func, ast.Attribute) and node.func.attr == COMPILE
    return node.func.value if is_method and isinstance(node.func, ast.Attribute) else None


def _names_of_partials(interpreter: Interpreter, module: ModuleInfo) -> frozenset[str]:
    """Return the names that are assigned `functools.partial(torch.compile, ...)`, and nothing else."""
    return _names_of(module, PARTIAL, lambda value: _is_partial(interpreter, module, value))


def _names_of_settings(module: ModuleInfo) -> frozenset[str]:
    """Return the names that are assigned settings with which a trainer compiles its model, and nothing else."""
    return _names_of(module, SETTINGS[0], _is_settings)


def _names_of(module: ModuleInfo, word: str, is_one: Callable[[ast.expr], bool]) -> frozenset[str]:
    """Return the names of a file that are assigned only values for which `is_one` holds; none if it lacks `word`."""
    if word not in module.source.text:
        return frozenset()
    found: dict[str, bool] = {}
    for node in nodes_in(module.source.tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found[target.id] = found.get(target.id, True) and is_one(node.value)
    return frozenset(name for name, holds in found.items() if holds)


def _has_settings(node: ast.Call, names: frozenset[str]) -> bool:
    """Return whether an argument of a call is such settings, or a name of them."""
    given = (*node.args, *(each.value for each in node.keywords))
    return any(_is_settings(each) or (isinstance(each, ast.Name) and each.id in names) for each in given)


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
    with interpreter.outside_trace():
        made = interpreter.expressions.eval(node.func, interpreter.names.module_frame(module))
    return getattr(made, "name", None) == f"functools.{PARTIAL}"


def _is_torch_compile(interpreter: Interpreter, module: ModuleInfo, node: ast.expr) -> bool:
    """Return whether an expression is `torch.compile`, by whatever name, or a call of it as a decorator with options."""
    if isinstance(node, ast.Call):
        return not node.args and _is_torch_compile(interpreter, module, node.func)
    if isinstance(node, ast.Name):
        bound = module.bindings.get(node.id, ())
        is_near = any(isinstance(each, Import) and each.name == COMPILE for each in bound)
    else:
        is_near = isinstance(node, ast.Attribute) and node.attr == COMPILE
    if not is_near:
        return False
    with interpreter.outside_trace():
        found = interpreter.expressions.eval(node, interpreter.names.module_frame(module))
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
