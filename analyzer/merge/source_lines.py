"""The sources, by display path: their lines, and where functions begin and end in them."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from tcready.portable.compile_code import Place
from tcready.schema.enums import lines_of
from tcready.schema.value_class import dataclass
from tcready.source.fingerprint import spelled, statement_at

if TYPE_CHECKING:
    from tcready.schema.run import LineSet


class Code:
    """The sources by display path, and where functions begin and end in them."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._lines: dict[str, list[str]] = {}
        self._texts = texts
        self._functions: dict[str, tuple[SourceFunction, ...]] = {}
        self._trees: dict[str, ast.Module] = {}

    def line(self, path: str, line: int) -> str:
        """Return the text of one line; empty if the source is missing."""
        if path not in self._lines:
            text = self._texts.get(path)
            self._lines[path] = [] if text is None else lines_of(text)
        lines = self._lines[path]
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def function(self, path: str, line: int) -> SourceFunction | None:
        """Return the function with code that begins at `line`, given by its `def` or by its first decorator."""
        return next((f for f in self._functions_in(path) if line in (f.first, f.line)), None)

    def around(self, path: str, line: int) -> SourceFunction | None:
        """Return the innermost function around a line."""
        found = [f for f in self._functions_in(path) if f.first <= line <= f.last]
        return max(found, key=lambda f: f.first, default=None)

    def text(self, path: str) -> str:
        """Return the whole source; empty if it is missing."""
        return self._texts.get(path, "")

    def statement(self, path: str, line: int) -> str | None:
        """Return the code on a line, independent of its layout; None if the source is missing."""
        found = statement_at(self.tree(path), line)
        return spelled(found) if found is not None else None

    def _functions_in(self, path: str) -> tuple[SourceFunction, ...]:
        if path not in self._functions:
            self._functions[path] = tuple(_functions(self.tree(path)))
        return self._functions[path]

    def tree(self, path: str) -> ast.Module:
        """Return its syntax tree; empty if the source is missing or cannot be parsed."""
        if path not in self._trees:
            try:
                self._trees[path] = ast.parse(self._texts.get(path, ""))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._trees[path] = ast.Module([], [])
        return self._trees[path]

    def place(self, path: str | None, line: int | None) -> Place | None:
        """Return where a function's code begins, as Python counts: at its first decorator."""
        if path is None or line is None:
            return None
        function = self.function(path, line)
        return path, function.first if function else line

    def ends(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return the last lines of the functions that begin at `places`, if the source exists."""
        return {place: found.last for place in places if (found := self.function(*place)) is not None}


@dataclass(frozen=True)
class SourceFunction:
    """The location of a function in a file."""

    first: int
    """The line of the first decorator, if there is one."""
    line: int
    last: int
    node: ast.FunctionDef | ast.AsyncFunctionDef
    owners: tuple[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, ...]
    """The classes and functions around it, outermost first."""

    @property
    def name(self) -> str:
        """`Class.method`, or its own name."""
        return ".".join(node.name for node in (*self.owners, self.node))


def _functions(
    tree: ast.AST, owners: tuple[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, ...] = ()
) -> Iterator[SourceFunction]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield SourceFunction(first, node.lineno, node.end_lineno or node.lineno, node, owners)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from _functions(node, (*owners, node))
        elif not isinstance(node, ast.expr):
            yield from _functions(node, owners)


class Lines:
    """Lines of files, from LineSets."""

    def __init__(self, sets: Iterable[LineSet]) -> None:
        self._ranges: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for lines in sets:
            self._ranges[lines.path].extend(lines.ranges)

    def __bool__(self) -> bool:
        return any(self._ranges.values())

    @property
    def paths(self) -> frozenset[str]:
        """Return the files with any lines."""
        return frozenset(path for path, ranges in self._ranges.items() if ranges)

    def meets(self, path: str, first: int, last: int) -> bool:
        return any(begin <= last and first <= end for begin, end in self._ranges.get(path, ()))
