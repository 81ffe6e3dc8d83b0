"""What the files that are read set of Dynamo: `torch._dynamo.config.capture_scalar_outputs = True` and its kind.

Only what runs at import counts: statements of a module, not those of a function in it. Each setting holds for the whole
process, so one file of those that are read decides for all.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tcready.static.engine.interpreter import Interpreter
from tcready.static.engine.values import Const, External, Mapping, Sequence, Value, members_of, options
from tcready.static.index import ModuleInfo

CONFIG = "torch._dynamo.config."
LEFT_OUT = ("ignore_logging_functions", "reorderable_logging_functions")
"""Sets of functions whose calls Dynamo drops, or makes after the graph."""


@dataclass(frozen=True)
class Settings:
    """`flags`: names of `torch._dynamo.config` that are true; `left_out`: functions that Dynamo is told to drop
    or to call after the graph."""

    flags: frozenset[str] = frozenset()
    left_out: tuple[Value, ...] = ()


def settings_of(interpreter: Interpreter) -> Settings:
    """What the modules set that have been read, and what this torch has by default."""
    defaults = interpreter.operations.tables.data["config"]
    flags: dict[str, bool] = {name: value for name, value in defaults.items() if value is True}
    left_out: list[Value] = []
    for module in list(interpreter.program.modules()):
        if "_dynamo" not in module.source.text:
            continue
        frame = interpreter.module_frame(module)
        with interpreter.quietly():
            for target, value in _assigned(module):
                place = interpreter.eval(target.value, frame)
                given = interpreter.eval(value, frame)
                if isinstance(place, External) and f"{place.name}." == CONFIG and isinstance(given, Const):
                    flags[target.attr] = bool(given.value)
            for call in _calls(module):
                assert isinstance(call.func, ast.Attribute)
                owner = interpreter.eval(call.func.value, frame)
                if isinstance(owner, External) and owner.name.removeprefix(CONFIG) in LEFT_OUT:
                    for arg in call.args:
                        left_out.extend(_functions(interpreter.eval(arg, frame)))
    return Settings(frozenset(name for name, on in flags.items() if on), tuple(left_out))


def _functions(value: Value) -> Iterator[Value]:
    for option in options(value):
        if isinstance(option, Sequence):
            for member in members_of(option):
                yield from options(member)
        elif not isinstance(option, Mapping):
            yield option


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """What runs at import, in blocks too."""
    for node in body:
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for block in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, block, ()))


def _assigned(module: ModuleInfo) -> Iterator[tuple[ast.Attribute, ast.expr]]:
    for node in _statements(module.source.tree.body):
        if isinstance(node, ast.Assign):
            yield from ((t, node.value) for t in node.targets if isinstance(t, ast.Attribute))


def _calls(module: ModuleInfo) -> Iterator[ast.Call]:
    for node in _statements(module.source.tree.body):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if isinstance(node.value.func, ast.Attribute) and node.value.func.attr in ("add", "update"):
                yield node.value
