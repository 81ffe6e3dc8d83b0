"""The last resort: disable compilation of the smallest function that contains a break."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcready.fixes.rewriting.suggestions import Proposal, add_imports
from tcready.schema.edit import Edit
from tcready.static.diagnostics.cst_view import name_of_torch
from tcready.static.diagnostics.rule import Declined
from tcready.static.frontend.source import Source

DESCRIPTORS = frozenset({"staticmethod", "classmethod"})
"""Decorators with a result that is not a function: `disable` goes below them."""
PROPERTIES = frozenset({"property", "cached_property", "setter", "getter", "deleter"})

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def disable_function(path: str, source: Source, line: int) -> Proposal | Declined:
    """Put `@torch.compiler.disable` on the innermost function around a line (1-based).

    `path` is the name of the file in every output. The caller must ensure that the function is not the compiled root,
    or nothing would be left.
    """
    function = _around(source.tree, line)
    if function is None:
        return Declined("The code is in no function.")
    decorators = [_last_name(each) for each in function.decorator_list]
    if "disable" in decorators:
        return Declined(f"`{function.name}` is already excluded from compiling.")
    if PROPERTIES.intersection(decorators):
        return Declined(
            f"`{function.name}` is a property, and excluding it would make Dynamo run the function that reads it eagerly."
        )
    if isinstance(function, ast.AsyncFunctionDef) or any(
        isinstance(node, (ast.Yield, ast.YieldFrom)) for node in _own(function)
    ):
        return Declined(
            f"`{function.name}` is a generator or a coroutine, and Dynamo does not trace their items from outside."
        )
    torch = _torch(source.tree)
    if torch is None:
        return Declined("The name `torch` is assigned to something else in the file.")
    name, needed = torch
    above = max((i for i, each in enumerate(decorators) if each in DESCRIPTORS), default=-1)
    below = function.decorator_list[above + 1 :]
    at = below[0].lineno if below else function.lineno
    margin = source.lines[at - 1][: len(source.lines[at - 1]) - len(source.lines[at - 1].lstrip())]
    made = f"{margin}@{name}.compiler.disable{source.line_end(at)}"
    edits = (*add_imports(path, source, needed), Edit(path, at, 1, at, 1, made))
    how = f"`{function.name}` is excluded from compiling: it runs eagerly, between two graphs"
    return Proposal("", how, edits, None)


def _around(tree: ast.Module, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the innermost function with a line in its body or header."""
    found: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.match_case):
                pending.append(child)
            elif isinstance(child, (ast.stmt, ast.excepthandler)):
                if child.lineno <= line <= (child.end_lineno or child.lineno):
                    found = child if isinstance(child, FUNCTIONS) else found
                    pending.append(child)
    return found


def _last_name(decorator: ast.expr) -> str:
    """Return `no_grad` for `@torch.no_grad()`."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2]


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without nested functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            yield child
            yield from _own(child)


def _torch(tree: ast.Module) -> tuple[str, tuple[str, ...]] | None:
    """Return the file's name for torch, and the import that it lacks; None if the name is rebound somewhere."""
    found = name_of_torch(tree)
    name = found or "torch"
    for node in ast.walk(tree):
        stored = isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and node.id == name
        defined = isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.name == name
        if stored or defined or (isinstance(node, ast.arg) and node.arg == name):
            return None
    return name, () if found else ("import torch",)
