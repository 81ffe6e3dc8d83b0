"""Parse a text again after an edit, reusing the nodes of unchanged parts at their new positions.

So whatever is known of a node that no edit has touched is known of it after the edit too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Function: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef"
Definition: TypeAlias = "Function | ast.ClassDef"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
PLACED = "_placed"
"""The attribute of a function's node that holds what has a place in it, once it was moved."""


@dataclass(frozen=True)
class EditedText:
    """A tree, and the lines that it was read of."""

    tree: ast.Module
    lines: Sequence[str]


def graft(new: EditedText, old: EditedText) -> dict[ast.AST, ast.AST]:
    """Replace statements of `new` by the equal ones of `old`, which is not needed any more.

    Looks at statements at the top level, in classes, and in edited functions. Return, for each class and function of the
    changed `new`, the one of `old` that it is or came from; of the definitions in an edited function, only functions with
    an unchanged outline.
    """
    came_of: dict[ast.AST, ast.AST] = {}
    _graft_block(new.tree.body, old.tree.body, new.lines, old.lines, came_of)
    return came_of


def first_line(statement: ast.stmt) -> int:
    """Return its first line, that of its decorators if it has any."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(node.lineno for node in decorators)])


def last_of_head(node: Definition, lines: Sequence[str]) -> int:
    """Return the last line before the body of a definition, also if the body begins on it."""
    first = node.body[0]
    begins = lines[first_line(first) - 1][: first.col_offset]
    return max(first_line(first) - (0 if begins.strip() else 1), node.lineno)


def statement_text(statement: ast.stmt, lines: Sequence[str]) -> str:
    """Return the whole lines of a statement."""
    return "\n".join(lines[first_line(statement) - 1 : statement.end_lineno])


def seen(node: Function, lines: Sequence[str]) -> list[str]:
    """Return the lines of a function that are visible without a call: decorators, signature, documentation."""
    first = node.body[0]
    last = last_of_head(node, lines)
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        last = first.end_lineno or last
    head = [*lines[first_line(node) - 1 : last]]
    while head and head[-1].lstrip()[:1] in ("", "#"):
        head.pop()
    return head


def _graft_block(
    new: list[ast.stmt],
    old: list[ast.stmt],
    lines: Sequence[str],
    before: Sequence[str],
    came_of: dict[ast.AST, ast.AST],
    *,
    in_function: bool = False,
) -> None:
    alike: dict[tuple[type, int, str], list[ast.stmt]] = {}
    for statement in reversed(old):
        key = type(statement), statement.col_offset, statement_text(statement, before)
        alike.setdefault(key, []).append(statement)
    changed = []
    taken: set[ast.stmt] = set()
    for index, statement in enumerate(new):
        found = alike.get((type(statement), statement.col_offset, statement_text(statement, lines)))
        if not found:
            changed.append(statement)
            continue
        same = found.pop()
        taken.add(same)
        _move(same, statement.lineno - same.lineno)
        new[index] = same
        _note_same(same, came_of)
    left: dict[object, list[ast.stmt]] = {}
    for statement in reversed(old if changed else ()):
        if statement not in taken:
            left.setdefault(_known_by(statement, before, in_function), []).append(statement)
    left.pop(None, None)
    for statement in changed:
        others = left.get(_known_by(statement, lines, in_function))
        if others:
            other = others.pop()
            if isinstance(statement, DEFINITIONS):
                came_of[statement] = other
            inside = in_function or not isinstance(statement, ast.ClassDef)
            for block, was in zip(_blocks(statement), _blocks(other), strict=False):
                _graft_block(block, was, lines, before, came_of, in_function=inside)


def _known_by(statement: ast.stmt, lines: Sequence[str], in_function: bool) -> object:
    """Return the key that a statement shares with the one it came from; None if it has none."""
    if isinstance(statement, FUNCTIONS):
        return type(statement), statement.name, *(seen(statement, lines) if in_function else ())
    if isinstance(statement, ast.ClassDef):
        return None if in_function else (type(statement), statement.name)
    return type(statement) if in_function and any(_blocks(statement)) else None


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _note_same(statement: ast.AST, came_of: dict[ast.AST, ast.AST]) -> None:
    if isinstance(statement, DEFINITIONS):
        came_of[statement] = statement
    if not isinstance(statement, FUNCTIONS):
        for inner in ast.iter_child_nodes(statement):
            if isinstance(inner, (ast.stmt, ast.excepthandler, ast.match_case)):
                _note_same(inner, came_of)


def _move(statement: ast.stmt, by: int) -> None:
    if not by:
        return
    placed: list[ast.AST] | None
    if isinstance(statement, ast.ClassDef):
        for inner in statement.body:
            _move(inner, by)
        placed = [statement]
        parameters = getattr(statement, "type_params", ())
        for part in (*statement.decorator_list, *statement.bases, *statement.keywords, *parameters):
            placed += _placed_nodes(part)
    else:
        placed = vars(statement).get(PLACED)
        if placed is None:
            placed = _placed_nodes(statement)
            if isinstance(statement, DEFINITIONS):
                setattr(statement, PLACED, placed)
    for node in placed:
        place = vars(node)
        place["lineno"] += by
        place["end_lineno"] += by


def _placed_nodes(node: ast.AST) -> list[ast.AST]:
    return [each for each in ast.walk(node) if hasattr(each, "end_lineno")]
