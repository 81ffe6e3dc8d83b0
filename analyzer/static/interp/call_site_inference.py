"""Call-site inference: arguments that the calls in a file pass for a parameter. `ResNet(Block, 3)` beside `class ResNet`
says what a block is.

Only classes and functions count: what a constructor is given besides is configuration, which anybody may choose.
"""

from __future__ import annotations

import ast
import bisect
from collections.abc import Iterator, Sequence

from tcready.static.domain.scope import first_name, positional
from tcready.static.domain.values import Class, External, Function, Value, options
from tcready.static.frontend.index import FUNCTIONS, ClassInfo, FunctionInfo, ModuleInfo
from tcready.static.interp.interfaces import Engine
from tcready.static.library.semantics import is_module_class

MAX_DEPTH = 3
"""Functions that hand an argument on, one to the other, until one names what it is."""
MAX_BUILDERS = 2
"""The number of builders of a class that are examined for their arguments: the others do the same."""


def passed(module: ModuleInfo, called: str, parameter: str, place: int, engine: Engine) -> list[Value]:
    """Return the classes and functions that calls of the name `called` in a file pass for a parameter, by its name or its
    place among those given by position; each once, in the order of the file."""
    return list(dict.fromkeys(_collect_passed(module, called, parameter, place, engine, MAX_DEPTH)))


def _collect_passed(
    module: ModuleInfo, called: str, parameter: str, place: int, engine: Engine, depth: int
) -> Iterator[Value]:
    if not depth or called not in module.called:
        return
    frame = engine.names.module_frame(module)
    for around, call in _calls(module, called):
        given = next((k.value for k in call.keywords if k.arg == parameter), None)
        if given is None and place < len(call.args):
            before = call.args[: place + 1]
            given = None if any(isinstance(arg, ast.Starred) for arg in before) else call.args[place]
        handed = _parameter(given, around)
        if around is not None and handed is not None:
            yield from _collect_passed(module, around.name, *handed, engine, depth - 1)
        elif isinstance(given, (ast.Name, ast.Attribute)):
            values = options(engine.expressions.peek(given, frame))
            yield from (value for value in values if _is_specific(value))


def builders(cls: ClassInfo, module: ModuleInfo) -> list[Function]:
    """Return the functions of a file that make an object of a class, in the order of the file; in its own file its class
    methods, too. Behind them the constructors that do."""
    around = (info for info, _ in _calls(module, cls.name) if info is not None)
    found = [Function(info) for info in dict.fromkeys(around)]
    for info in (f for each in cls.functions.values() for f in each) if module is cls.module else ():
        called = (node.func for node in info.nodes if isinstance(node, ast.Call))
        names = {function.id for function in called if isinstance(function, ast.Name)}
        if any(ast.unparse(d) == "classmethod" for d in info.decorators) and names & {"cls", cls.name}:
            found.append(Function(info, Class(cls)))
    lines = module.called.get(cls.name, ())
    for other in module.classes() if len(found) < MAX_BUILDERS else ():
        for info in other.functions.get("__init__", ()) if other is not cls else ():
            last = info.node.end_lineno or info.node.lineno
            if any(info.node.lineno <= line <= last for line in lines):
                found.append(Function(info))
    return found[:MAX_BUILDERS]


def handed_on(cls: ClassInfo, builder: FunctionInfo) -> frozenset[str] | None:
    """Return the parameters of a constructor that makes an object of a class out of nothing but constants and its
    parameters, or what it reads of these; None if it may give the constructor anything else, or names the class in
    another way."""
    spec = builder.node.args
    taken = {arg.arg for arg in (*(arg for arg, _ in positional(spec)[1:]), *spec.kwonlyargs)}
    own = taken - _changed_names(builder)
    named = [node for node in builder.nodes if isinstance(node, ast.Name) and node.id == cls.name]
    calls = [node for node in builder.nodes if isinstance(node, ast.Call) and node.func in named]
    if not calls or len(calls) < len(named) or _is_called_by_methods(cls.name, builder.module):
        return None
    found: set[str] = set()
    for given in (each for call in calls for each in (*call.args, *(k.value for k in call.keywords))):
        read = first_name(given)
        if read in own:
            found.add(read)
        elif not isinstance(given, ast.Constant):
            return None
    return frozenset(found)


def _changed_names(function: FunctionInfo) -> set[str]:
    """Return the names that a function may give another value than it was called with, or into what it stores, or asks
    the class of: an inner function has its own of that name."""
    found = {*function.rebound}
    own = {id(arg) for arg in ast.walk(function.node.args) if isinstance(arg, ast.arg)}
    for node in function.nodes:
        if isinstance(node, ast.arg) and id(node) not in own:
            found.add(node.arg)
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            found.add(node.name)
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            found.add(first_name(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            found.update(n.id for arg in node.args for n in ast.walk(arg) if isinstance(n, ast.Name))
    return found


def _is_called_by_methods(name: str, module: ModuleInfo) -> bool:
    """Return whether a method of the file other than a constructor calls a name: a constructor may run it."""
    lines = module.called.get(name, ())
    methods = (
        info for cls in module.classes() for key, found in cls.functions.items() if key != "__init__" for info in found
    )
    return any(info.node.lineno <= line <= (info.node.end_lineno or line) for info in methods for line in lines)


def _is_specific(value: Value) -> bool:
    return isinstance(value, (Class, Function)) or (isinstance(value, External) and is_module_class(value.name))


def _calls(module: ModuleInfo, called: str) -> Iterator[tuple[FunctionInfo | None, ast.Call]]:
    """Return the calls of a name in a file, each with its top-level function."""
    around: dict[int, FunctionInfo] = {}
    for found in module.bound(FUNCTIONS).values():
        for binding in found:
            if isinstance(binding, FunctionInfo):
                around[id(binding.node)] = binding
    lines = module.called.get(called, [])
    for statement in module.source.tree.body:
        for node in _nodes_on(statement, lines):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == called:
                yield around.get(id(statement)), node


def _nodes_on(statement: ast.stmt, lines: Sequence[int]) -> list[ast.AST]:
    """Return all nodes in a statement except nested statements without one of the lines, in order: to walk whole files
    again and again takes longer than to interpret them."""
    found: list[ast.AST] = [statement] if _spans_any(statement, lines) else []
    for each in found:
        found += [
            child for child in ast.iter_child_nodes(each) if not isinstance(child, ast.stmt) or _spans_any(child, lines)
        ]
    return found


def _spans_any(statement: ast.stmt, lines: Sequence[int]) -> bool:
    first = min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", ()))])
    at = bisect.bisect_left(lines, first)
    return at < len(lines) and lines[at] <= (statement.end_lineno or first)


def _parameter(given: ast.expr | None, around: FunctionInfo | None) -> tuple[str, int] | None:
    """Return the name and place of the parameter that is passed on unchanged."""
    if around is None or not isinstance(given, ast.Name):
        return None
    names = [arg.arg for arg, _ in positional(around.node.args)]
    if given.id in names:
        return given.id, names.index(given.id)
    keywords = [arg.arg for arg in around.node.args.kwonlyargs]
    return (given.id, len(names)) if given.id in keywords else None
