"""Find what a file compiles: the arguments of `torch.compile` and the modules that `.compile()` is called on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tcready.static.engine.interpreter import Interpreter
from tcready.static.engine.values import Function, Instance, Value, options
from tcready.static.index import ClassInfo, FunctionInfo, Import, ModuleInfo
from tcready.static.source import nodes_in

COMPILE = "compile"
TORCH_COMPILE = "torch.compile"


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

    Nothing is told of the code around the calls, which does not run in a graph. What is not known, such as an argument of
    the function with the call, is left out.
    """
    if COMPILE not in module.source.text:
        return
    seen: set[Value] = set()
    roots: dict[ClassInfo, Instance] = {}
    for value in _values(interpreter, module, roots, owner):
        for each in options(value):
            known = isinstance(each, Function) or (isinstance(each, Instance) and interpreter.is_module(each))
            if known and each not in seen:
                seen.add(each)
                assert isinstance(each, (Function, Instance))
                yield each


def _values(
    interpreter: Interpreter,
    module: ModuleInfo,
    roots: dict[ClassInfo, Instance],
    owner: ClassInfo | None,
) -> Iterator[Value]:
    def built(cls: ClassInfo) -> Instance:
        if cls not in roots:
            roots[cls] = interpreter.build(cls)
        return roots[cls]

    for method in _methods(module):
        if owner not in (None, method.owner):
            continue
        if any(_is_torch_compile(interpreter, module, each) for each in method.decorators):
            assert method.owner is not None
            yield Function(method, built(method.owner))
    for call in _compile_calls(interpreter, module):
        frame = interpreter.module_frame(module)
        function = call.function
        if owner is not None and (function is None or function.owner is not owner):
            continue
        if function is not None:
            frame = replace(frame, env={}, depth=0)
            if function.owner is not None and (names := function.node.args.args):
                frame.env[names[0].arg] = built(function.owner)
        with interpreter.quietly():
            if function is not None:
                for assigned in _assignments_for(call.subject, function):
                    frame.env[assigned[0]] = interpreter.eval(assigned[1], frame)
            found = interpreter.eval(call.subject, frame)
        yield found


def _methods(module: ModuleInfo) -> Iterator[FunctionInfo]:
    for cls in module.classes():
        for found in cls.functions.values():
            yield from found


def _compile_calls(interpreter: Interpreter, module: ModuleInfo) -> Iterator[CompileCall]:
    functions = [
        each for found in module.bound().values() for each in found if isinstance(each, FunctionInfo)
    ]
    inside: set[ast.AST] = set()
    for function in (*functions, *_methods(module)):
        for node in function.nodes:
            inside.add(node)
            if (subject := _subject(interpreter, module, node)) is not None:
                yield CompileCall(subject, function)
    for node in nodes_in(module.source.tree):
        if node not in inside and (subject := _subject(interpreter, module, node)) is not None:
            yield CompileCall(subject, None)


def _subject(interpreter: Interpreter, module: ModuleInfo, node: ast.AST) -> ast.expr | None:
    """Return what a call compiles; None if it is not a call that compiles. Whether the receiver of `.compile()` is a
    module shows when it is evaluated."""
    if not isinstance(node, ast.Call):
        return None
    if _is_torch_compile(interpreter, module, node.func):
        named = [each.value for each in node.keywords if each.arg == "model"]
        return next(iter([*node.args[:1], *named]), None)
    is_method = isinstance(node.func, ast.Attribute) and node.func.attr == COMPILE
    return node.func.value if is_method and isinstance(node.func, ast.Attribute) else None


def _is_torch_compile(interpreter: Interpreter, module: ModuleInfo, node: ast.expr) -> bool:
    """Whether an expression is `torch.compile`, by whatever name, or a call of it as a decorator with options."""
    if isinstance(node, ast.Call):
        return not node.args and _is_torch_compile(interpreter, module, node.func)
    if isinstance(node, ast.Name):
        bound = module.bindings.get(node.id, ())
        is_near = any(isinstance(each, Import) and each.name == COMPILE for each in bound)
    else:
        is_near = isinstance(node, ast.Attribute) and node.attr == COMPILE
    if not is_near:
        return False
    with interpreter.quietly():
        found = interpreter.eval(node, interpreter.module_frame(module))
    return getattr(found, "name", None) == TORCH_COMPILE


def _assignments_for(subject: ast.expr, function: FunctionInfo) -> list[tuple[str, ast.expr]]:
    """Return the assignments to single names before a line of a function that its value depends on, in their order."""
    before = [
        (node.lineno, node.targets[0].id, node.value)
        for node in function.nodes
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        and node.lineno < subject.lineno
    ]
    wanted, found = _names(subject), []
    for line, name, value in sorted(before, key=lambda each: -each[0]):
        if name in wanted:
            wanted |= _names(value)
            found.append((line, name, value))
    return [(name, value) for _, name, value in reversed(found)]


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
