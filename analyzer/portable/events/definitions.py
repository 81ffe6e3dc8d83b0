"""Find the functions and classes of a source, and which of them contains a line."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

RESUME = "torch_dynamo_resume_in_"


@dataclass(frozen=True)
class Definition:
    """A function or class of a file; `first` counts its decorators."""

    first: int
    last: int
    symbol: str
    function: bool


def definitions_in(source: str | bytes) -> tuple[Definition, ...]:
    """Return all functions and classes of a source, outer before inner.

    Raises SyntaxError or ValueError if it cannot be parsed.
    """
    found: list[Definition] = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                function = not isinstance(child, ast.ClassDef)
                first = min([child.lineno, *(node.lineno for node in child.decorator_list)])
                symbol = prefix + child.name
                found.append(Definition(first, child.end_lineno or child.lineno, symbol, function))
                inner = f"{symbol}."
            visit(child, inner)

    visit(ast.parse(source), "")
    return tuple(found)


def innermost(definitions: Iterable[Definition], line: int) -> Definition | None:
    """Return the innermost function around the line, or else the innermost class."""
    around = [item for item in definitions if item.first <= line <= item.last]
    functions = [item for item in around if item.function]
    found = functions or around
    return found[-1] if found else None


def plain_name(name: str) -> str:
    """Return the function's own name, given that of a part that Dynamo made to resume after a break."""
    return name.removeprefix(RESUME).rsplit("_at_", 1)[0] if name.startswith(RESUME) else name
