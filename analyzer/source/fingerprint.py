"""The identity of code independent of its layout: the basis of a finding's fingerprint. Pure."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

_LAYOUT = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
"""Fields to ignore. `kind` is the `u` before a string, which a formatter drops."""
_BELOW = frozenset({"body", "orelse", "finalbody", "handlers", "cases"})
"""Fields of a statement that hold other statements: a statement is identified by its header."""


def fingerprint(*parts: str) -> str:
    """Return sixteen hexadecimal digits that identify `parts` together."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def spelled(node: ast.AST) -> str:
    """Return the syntax of an expression, or of a statement's header, in one line of words.

    It does not depend on line breaks, spaces, quotes, redundant parentheses, trailing commas, comments, the spelling of
    numbers, or how a string is split, and it is the same on every version of Python (`ast.unparse` is not).
    """
    return " ".join(_words(node))


def _words(node: ast.AST) -> Iterator[str]:
    # by hand: an expression may be nested deeper than Python recurses
    waiting: list[Any] = [node]
    while waiting:
        item = waiting.pop()
        if isinstance(item, _Word):
            yield item
        elif isinstance(item, ast.AST):
            yield f"{type(item).__name__}("
            waiting.append(_Word(")"))
            below = _BELOW if isinstance(item, ast.stmt) else ()
            for name, value in reversed(list(ast.iter_fields(item))):
                if name not in _LAYOUT and name not in below and value is not None and value != []:
                    pieces = _joined(value) if isinstance(item, ast.JoinedStr) else value
                    waiting += [pieces, _Word(f"{name}=")]
        elif isinstance(item, list):
            yield "["
            waiting.append(_Word("]"))
            waiting.extend(reversed(item))
        else:
            yield repr(item)


def _joined(values: Iterable[ast.expr]) -> list[ast.expr]:
    """Merge adjacent texts of an f-string: versions of Python split it differently."""
    parts: list[ast.expr] = []
    for value in values:
        last = parts[-1] if parts else None
        if isinstance(value, ast.Constant) and isinstance(last, ast.Constant):
            parts[-1] = ast.Constant(str(last.value) + str(value.value))
        elif not isinstance(value, ast.Constant) or value.value:
            parts.append(value)
    return parts


class _Word(str):
    """A word that is emitted unquoted."""

    __slots__ = ()


def statement_at(tree: ast.AST, line: int) -> ast.stmt | None:
    """Return the innermost statement on a line, decorators included."""
    around = [(first, node) for node in _statements(tree) if (first := _first(node)) <= line <= _last(node)]
    return max(around, key=lambda found: (found[0], -_last(found[1])), default=(0, None))[1]


def _statements(tree: ast.AST) -> Iterable[ast.stmt]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.stmt))


def _first(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _last(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno
