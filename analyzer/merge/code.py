"""The sources, by display path: their lines, and where functions begin and end in them."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tcready.identity import spelled, statement_at
from tcready.placing import Place
from tcready.schema import LineSet


class Code:
    """The sources by display path, and where functions begin and end in them."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._lines: dict[str, list[str]] = {}
        self._texts = texts
        self._functions: dict[str, tuple[_Function, ...]] = {}
        self._trees: dict[str, ast.Module] = {}

    def line(self, path: str, line: int) -> str:
        """The text of one line; empty if the source is not there."""
        if path not in self._lines:
            text = self._texts.get(path)
            self._lines[path] = [] if text is None else re.split(r"\r\n|\r|\n", text)
        lines = self._lines[path]
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def function(self, path: str, line: int) -> _Function | None:
        """The function whose code begins at `line`, be it told by its `def` or by its first decorator."""
        if path not in self._functions:
            self._functions[path] = tuple(_functions(self._tree(path)))
        return next((f for f in self._functions[path] if line in (f.first, f.line)), None)

    def statement(self, path: str, line: int) -> str | None:
        """What is written on a line, however it is laid out; None if the source is not there."""
        found = statement_at(self._tree(path), line)
        return spelled(found) if found is not None else None

    def _tree(self, path: str) -> ast.Module:
        if path not in self._trees:
            try:
                self._trees[path] = ast.parse(self._texts.get(path, ""))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._trees[path] = ast.Module([], [])
        return self._trees[path]

    def place(self, path: str | None, line: int | None) -> Place | None:
        """Where a function's code begins, as Python counts it: at its first decorator."""
        if path is None or line is None:
            return None
        function = self.function(path, line)
        return path, function.first if function else line

    def ends(self, places: Iterable[Place]) -> dict[Place, int]:
        """The last lines of the functions that begin at `places`, if the source is there."""
        return {place: found.last for place in places if (found := self.function(*place)) is not None}


@dataclass(frozen=True)
class _Function:
    first: int
    line: int
    last: int


def _functions(tree: ast.Module) -> Iterator[_Function]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield _Function(first, node.lineno, node.end_lineno or node.lineno)


class Lines:
    """Which lines of which files, out of LineSets."""

    def __init__(self, sets: Iterable[LineSet]) -> None:
        self._ranges: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for lines in sets:
            self._ranges[lines.path].extend(lines.ranges)

    def __bool__(self) -> bool:
        return any(self._ranges.values())

    def meets(self, path: str, first: int, last: int) -> bool:
        return any(begin <= last and first <= end for begin, end in self._ranges.get(path, ()))
