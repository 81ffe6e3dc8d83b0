"""The concrete syntax, by libcst, of the statements in which something is suspected.

ast finds suspects fast in everything that is reachable; what is then told, silenced by a comment or rewritten
is read off libcst's lossless tree. Only the top-level statements that hold a suspect are parsed: positions
over whole files cost thirty times what ast does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider
from tcready.static.source import Source

NOQA = re.compile(r"#\s*noqa\b(?::\s*(?P<codes>[A-Z]+[0-9]*(?:[\s,]+[A-Z]+[0-9]*)*))?", re.IGNORECASE)


@dataclass(frozen=True)
class Piece:
    """One top-level statement: `first` is its first line in the file, 1-based; `tree` holds it alone."""

    first: int
    last: int
    tree: cst.Module
    positions: dict[cst.CSTNode, CodeRange]

    @cached_property
    def parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        found: dict[cst.CSTNode, cst.CSTNode] = {}
        pending: list[cst.CSTNode] = [self.tree]
        while pending:
            node = pending.pop()
            for child in node.children:
                found[child] = node
                pending.append(child)
        return found

    @cached_property
    def expressions(self) -> dict[tuple[int, int, int, int], cst.BaseExpression]:
        """By (first line, first column, last line, end column) in the piece; the outermost of equals."""
        found: dict[tuple[int, int, int, int], cst.BaseExpression] = {}
        for node, span in self.positions.items():
            if isinstance(node, cst.BaseExpression):
                key = (span.start.line, span.start.column, span.end.line, span.end.column)
                found.setdefault(key, node)
        return found

    def statement_of(self, node: cst.CSTNode) -> cst.BaseStatement:
        """The smallest statement that is, or is around, a node."""
        while not isinstance(node, cst.BaseStatement):
            node = self.parents[node]
        return node

    def lines(self, node: cst.CSTNode) -> tuple[int, int]:
        """First and last line of a node in the file, 1-based."""
        span = self.positions[node]
        return span.start.line + self.first - 1, span.end.line + self.first - 1


@dataclass(frozen=True)
class Located:
    """A node of the concrete tree, the piece it stands in, and the file around that."""

    source: Source
    piece: Piece
    node: cst.BaseExpression

    @property
    def code(self) -> str:
        """The expression as it is written, on one line."""
        return " ".join(self.piece.tree.code_for_node(self.node).split())

    @property
    def statement(self) -> cst.BaseStatement:
        """The smallest statement around the node."""
        return self.piece.statement_of(self.node)


class Concrete:
    """The concrete syntax of one file, piece by piece."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._pieces: dict[int, Piece | None] = {}
        self._starts: list[int] = []
        last = 0
        for statement in source.tree.body:
            if _first_line(statement) > last:  # else a `;` puts it on the line where the one before ends
                self._starts.append(_first_line(statement))
            last = statement.end_lineno or statement.lineno

    def piece(self, line: int) -> Piece | None:
        """The piece around a 1-based line; None where libcst does not read it."""
        first = max((start for start in self._starts if start <= line), default=1)
        if first not in self._pieces:
            self._pieces[first] = self._parse(first)
        return self._pieces[first]

    def _parse(self, first: int) -> Piece | None:
        following = [start for start in self._starts if start > first]
        last = following[0] - 1 if following else len(self.source.lines)
        text = "\n".join(self.source.lines[first - 1 : last]) + "\n"
        try:
            wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        except (cst.ParserSyntaxError, RecursionError):
            return None
        positions = dict(wrapper.resolve(PositionProvider))
        return Piece(first, last, wrapper.module, positions)

    def locate(self, line: int, column: int, end_line: int, end_column: int) -> Located | None:
        """The expression that stands exactly there (1-based, end exclusive), outermost first."""
        piece = self.piece(line)
        if piece is None:
            return None
        wanted = (line - piece.first + 1, column - 1, end_line - piece.first + 1, end_column - 1)
        node = piece.expressions.get(wanted)
        return Located(self.source, piece, node) if node is not None else None

    def comments(self, first: int, last: int) -> Iterator[str]:
        """The comments that stand on lines `first` to `last`."""
        piece = self.piece(first)
        if piece is None:
            return
        for node in piece.positions:
            if isinstance(node, cst.Comment) and first <= piece.lines(node)[0] <= last:
                yield node.value

    def silenced(self, code: str, first: int, last: int) -> bool:
        """A `# noqa` without codes, or with this one or a prefix of it, stands on one of the lines."""
        if not any("noqa" in text.lower() for text in self.source.lines[first - 1 : last]):
            return False
        for comment in self.comments(first, last):
            match = NOQA.search(comment)
            if match and (
                match["codes"] is None or code.startswith(tuple(re.split(r"[\s,]+", match["codes"].upper())))
            ):
                return True
        return False


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])
