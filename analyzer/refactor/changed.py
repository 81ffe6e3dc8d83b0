"""What a change of a file changes: functions, branch tests that it takes away, and where each line went."""

from __future__ import annotations

import ast
import bisect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from tcready.schema import FunctionPlace, Span
from tcready.static.source import Source, lines_of

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Changed:
    """What differs between two texts of one file."""

    functions: tuple[FunctionPlace, ...]
    """Functions, those inside others left out, whose code is not the same in both."""
    tests: tuple[Span, ...]
    """Tests of the first text that decide on a branch there, and that the function has no longer."""


def changed(path: str, before: Source, after: Source) -> Changed:
    """What the second text of the file `path`, absolute, no longer has as the first had it."""
    later = dict(_functions(after.tree))
    functions: list[FunctionPlace] = []
    tests: list[Span] = []
    for name, function in _functions(before.tree):
        other = later.get(name)
        if other is not None and ast.dump(other) == ast.dump(function):
            continue
        functions.append(FunctionPlace(path, name))
        kept = Counter(ast.dump(test) for test in _tests(other)) if other is not None else Counter()
        for test in _tests(function):
            written = ast.dump(test)
            if kept[written]:
                kept[written] -= 1
            else:
                tests.append(_span(path, before, test))
    return Changed(tuple(functions), tuple(tests))


def _functions(tree: ast.AST, around: str = "") -> Iterator[tuple[str, ast.AST]]:
    """The functions of a module and of its classes, by qualified name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _FUNCTIONS):
            yield around + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{around}{node.name}.")
        elif isinstance(node, ast.stmt):
            yield from _functions(node, around)


def _tests(function: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
            yield node.test


def _span(path: str, source: Source, node: ast.expr) -> Span:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return Span(
        path,
        node.lineno,
        source.column(node.lineno, node.col_offset),
        node.end_lineno,
        source.column(node.end_lineno, node.end_col_offset),
    )


class LineMap:
    """Where each line of one text stands in another."""

    def __init__(self, before: str, after: str) -> None:
        blocks = SequenceMatcher(None, lines_of(before), lines_of(after), autojunk=False).get_opcodes()
        self._blocks = [(i1, i2, j1, j2, tag == "equal") for tag, i1, i2, j1, j2 in blocks]
        self._starts = [block[2] for block in self._blocks]

    def came_from(self, line: int) -> int | None:
        """The line (1-based) of the first text that is this one of the second; None if it was written anew."""
        at = bisect.bisect_right(self._starts, line - 1) - 1
        # an empty block starts where the next one does
        begin, _, first, last, same = self._blocks[at]
        return begin + line - first if same and first < line <= last else None
