"""Code of a file that may run where its name is not: properties, operators, what makes a text, a number or a truth of an
object, methods that have the name of one of a tensor's, and handlers of logging."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from tcready.static.concrete import Located

OPERATORS = frozenset(
    f"__{side}{name.strip('_')}__"
    for name in dir(operator)
    if name.startswith("__")
    for side in ("", "r")  # `__radd__` as `__add__`
) - {"__call__", "__getitem__", "__setitem__", "__delitem__"}
OF_OBJECTS = OPERATORS | frozenset(
    "__str__ __repr__ __format__ __bool__ __len__ __getattr__ __getattribute__ __int__ __float__ __iter__ __next__ "
    "__hash__ __torch_function__ extra_repr".split()
)
OF_LOGGING = frozenset("emit handle filter format makeRecord callHandlers log _log".split())
"""Methods of loggers, handlers, filters and formatters that a message goes through."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def hidden_effect(
    place: Located, *nodes: cst.CSTNode, called: cst.BaseExpression | None = None
) -> str | None:
    """Which function of the file may have an effect, by its name, that working out `nodes` may run, or handing them to
    `called`, which prints, logs or warns."""
    asked = {name for node in nodes for name in _attributes(node)}
    if isinstance(called, cst.Attribute):
        asked |= {called.attr.value, *OF_LOGGING}
    are_objects = any(_is_object(node) for node in nodes)
    for each in place.source.classes:
        for function in each.body:
            if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if (function.name in asked or (are_objects and function.name in OF_OBJECTS)) and _has_effect(
                function
            ):
                return function.name
    return None


def _attributes(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.Attribute):
        yield node.attr.value
    for child in node.children:
        yield from _attributes(child)


def _is_object(node: cst.CSTNode) -> bool:
    """Whether something there has a name, and may be an object."""
    return isinstance(node, cst.Name) or any(_is_object(child) for child in node.children)


def _has_effect(function: _Function) -> bool:
    """Whether it writes to anything but its own names, or calls something for nothing else."""
    for node in ast.walk(function):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        written = (each for target in targets for each in ast.walk(target))
        if any(
            isinstance(each, (ast.Attribute, ast.Subscript)) and isinstance(each.ctx, ast.Store)
            for each in written
        ):
            return True
        if isinstance(node, (ast.Global, ast.Nonlocal, ast.Delete, ast.Yield)):
            return True
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return True
    return False
