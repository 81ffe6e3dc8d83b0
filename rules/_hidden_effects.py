"""Code of a file that runs without being called: properties, operators, and what makes a text or a truth of an
object."""

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
    "__str__ __repr__ __format__ __bool__ __len__ __getattr__ __getattribute__".split()
)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def hidden_effect(place: Located, *nodes: cst.CSTNode) -> str | None:
    """Which function of the file may have an effect, by its name, that working out `nodes` may run though it is not
    called there."""
    asked = {name for node in nodes for name in _attributes(node)}
    are_objects = any(_is_object(node) for node in nodes)
    for each in place.source.classes:
        for function in each.body:
            if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            runs = (function.name in asked and _is_property(function)) or (
                are_objects and function.name in OF_OBJECTS
            )
            if runs and _has_effect(function):
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


def _is_property(function: _Function) -> bool:
    return any(
        (each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "")).endswith("property")
        for each in function.decorator_list
    )


def _has_effect(function: _Function) -> bool:
    """Whether it writes to anything but its own names, or calls something for nothing else."""
    for node in ast.walk(function):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        if any(isinstance(each, (ast.Attribute, ast.Subscript)) for each in targets):
            return True
        if isinstance(node, (ast.Global, ast.Nonlocal, ast.Delete, ast.Yield)):
            return True
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return True
    return False
