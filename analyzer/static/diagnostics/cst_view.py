"""The source text around a fix candidate: its tokens and comments; and libcst's lossless tree of it, for a rewrite.

ast finds candidates fast in all reachable code. libcst, which takes fourteen times as long, and as long again to be
loaded, reads only the code to be rewritten: the function around a candidate for which a rule suggests a change.
"""

from __future__ import annotations

import ast
import contextlib
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

from tcready.static.frontend.source import Source, names_checkers, nodes_in

if TYPE_CHECKING:
    import libcst as cst
    from libcst.metadata import CodeRange

DEEP = 200
"""Levels of a tree that libcst is given: it recurses, in Python and natively, and its time grows with their square."""

_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class CstRegion:
    """A function, or a top-level statement, as libcst reads it: line 1 of `tree` is line `first` of the file, 1-based. A
    method is wrapped in an `if` here."""

    first: int
    tree: cst.Module
    positions: dict[cst.CSTNode, CodeRange]

    @cached_property
    def parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        found: dict[cst.CSTNode, cst.CSTNode] = {}
        pending: list[cst.CSTNode] = [self.tree]
        while pending:
            node = pending.pop()
            for child in _children(node):
                found[child] = node
                pending.append(child)
        return found

    @cached_property
    def bound(self) -> frozenset[str]:
        """The names that are given a value somewhere in it, by parameters, assignments, loops or imports."""
        import libcst as cst

        binding = (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.NamedExpr)
        named = (cst.AsName, cst.Param)
        kinds = {*binding, *named, cst.ImportAlias}
        found: set[str] = set()
        for node in self.parents:
            if type(node) not in kinds:  # faster than `isinstance`, of libcst's abstract classes
                continue
            target: cst.CSTNode | None = None
            if isinstance(node, binding):
                target = node.target
            elif isinstance(node, named):
                target = node.name
            elif isinstance(node, cst.ImportAlias) and node.asname is None:
                target = node.name
                while isinstance(target, cst.Attribute):
                    target = target.value
            pending = [target] if target is not None else []
            while pending:
                each = pending.pop()
                if isinstance(each, (cst.Subscript, cst.Attribute)):  # they name what they read
                    continue
                pending += each.children
                found |= {each.value} if isinstance(each, cst.Name) else set()
        return frozenset(found)

    @cached_property
    def expressions(self) -> dict[tuple[int, int, int, int], cst.BaseExpression]:
        """By (first line, first column, last line, end column) in the piece; the outermost of equals."""
        import libcst as cst

        # faster than `isinstance`, of libcst's abstract classes
        kinds = {kind for kind in set(map(type, self.positions)) if cst.BaseExpression in kind.__mro__}
        found: dict[tuple[int, int, int, int], cst.BaseExpression] = {}
        for node, span in self.positions.items():
            if type(node) in kinds:
                key = (span.start.line, span.start.column, span.end.line, span.end.column)
                found.setdefault(key, cast("cst.BaseExpression", node))
        return found

    def statement_of(self, node: cst.CSTNode) -> cst.BaseStatement:
        """Return the innermost statement of a node."""
        import libcst as cst

        while not isinstance(node, cst.BaseStatement):
            node = self.parents[node]
        return node

    def lines(self, node: cst.CSTNode) -> tuple[int, int]:
        """First and last line of a node in the file, 1-based; a definition begins with its decorators."""
        span = self.positions[node]
        decorators = getattr(node, "decorators", ())
        begin = self.positions[decorators[0]].start if decorators else span.start
        return begin.line + self.first - 1, span.end.line + self.first - 1


def _children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Return the children of a node: `node.children` makes a visitor for each, and takes five times as long."""
    import libcst as cst

    for name in node.__dataclass_fields__:
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (each for each in value if isinstance(each, cst.CSTNode))


@dataclass(frozen=True)
class Located:
    """A node of the concrete tree, its piece, and the file around that."""

    source: Source
    piece: CstRegion
    node: cst.BaseExpression
    file: Concrete

    @property
    def class_around(self) -> ast.ClassDef | None:
        """The class that the piece is a method of."""
        line, found = self.piece.lines(self.node)[0], None
        body: list[ast.stmt] = self.source.tree.body
        while body:
            around = next(
                (s for s in body if isinstance(s, ast.ClassDef) and s.lineno <= line <= (s.end_lineno or s.lineno)),
                None,
            )
            found, body = around or found, around.body if around else []
        return found

    def method(self, name: str) -> tuple[ast.FunctionDef, CstRegion] | None:
        """Return the method of that name of the class around, if the class itself defines it, once."""
        body = self.class_around.body if self.class_around else ()
        found = [s for s in body if isinstance(s, ast.FunctionDef) and s.name == name]
        piece = self.file.piece(found[0].lineno) if len(found) == 1 else None
        return (found[0], piece) if piece is not None else None

    @property
    def statement(self) -> cst.BaseStatement:
        """The smallest statement around the node."""
        return self.piece.statement_of(self.node)


class Concrete:
    """The concrete syntax of one file, piece by piece."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._pieces: dict[int, CstRegion | None] = {}
        self._comments: dict[int, list[tuple[int, str]]] = {}

    def written(self, line: int, column: int, end_line: int, end_column: int) -> str:
        """Return the text of a range (1-based, end exclusive) on one line."""
        start, end = self.source.offset(line, column), self.source.offset(end_line, end_column)
        return " ".join(self.source.text[start:end].split())

    def locate(self, line: int, column: int, end_line: int, end_column: int) -> Located | None:
        """Return the expressions with exactly this range (1-based, end exclusive), outermost first."""
        piece = self.piece(line)
        if piece is None:
            return None
        above = piece.first - 1
        node = piece.expressions.get((line - above, column - 1, end_line - above, end_column - 1))
        return Located(self.source, piece, node, self) if node is not None else None

    def expressions_at(self, line: int) -> Iterator[Located]:
        """Yield the expressions that begin on a 1-based line, outermost first."""
        piece = self.piece(line)
        if piece is None:
            return
        for (first, *_), node in piece.expressions.items():
            if first == line - piece.first + 1:
                yield Located(self.source, piece, node, self)

    @cached_property
    def _tops(self) -> list[tuple[int, ast.stmt]]:
        """The top-level statements by their first line, without those that start where another ends (`;`)."""
        found: list[tuple[int, ast.stmt]] = []
        last = 0
        for statement in self.source.tree.body:
            if first_line(statement) > last:
                found.append((first_line(statement), statement))
            last = statement.end_lineno or statement.lineno
        return found

    def _top(self, line: int) -> tuple[int, int]:
        """First and last line of the top-level statement around a line, with what follows it up to the next."""
        starts = [start for start, _ in self._tops]
        first = max((start for start in starts if start <= line), default=1)
        return first, min((start for start in starts if start > first), default=len(self.source.lines) + 1) - 1

    def comments_on(self, first: int, last: int) -> Iterator[tuple[int, str]]:
        """Return the comments on lines `first` to `last`."""
        top, end = self._top(first)
        if top not in self._comments:
            text = "\n".join(self.source.lines[top - 1 : end]) + "\n"
            self._comments[top] = list(comments(text, top))
        return ((line, text) for line, text in self._comments[top] if first <= line <= last)

    def piece(self, line: int) -> CstRegion | None:
        """Return the piece around a 1-based line; None if libcst does not read it."""
        first, last, depth = *self._top(line), 0
        around = whole = next((s for start, s in self._tops if start == first), None)
        while isinstance(around, ast.ClassDef):
            inside = (s for s in around.body if isinstance(s, _DEFINITIONS))
            around = next((s for s in inside if first_line(s) <= line <= (s.end_lineno or s.lineno)), None)
            if around is not None:
                whole = around
                first, last, depth = first_line(around), around.end_lineno or around.lineno, depth + 1
        if first not in self._pieces:
            deep = whole is not None and _is_deep(whole)
            self._pieces[first] = None if deep else self._parse(first, last, depth)
        return self._pieces[first]

    def _parse(self, first: int, last: int, depth: int) -> CstRegion | None:
        """Return the piece of those lines, `depth` classes deep."""
        import libcst as cst
        from libcst.metadata import MetadataWrapper, PositionProvider

        lines = self.source.lines[first - 1 : last]
        config = cst.PartialParserConfig()
        if depth:
            indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())].rpartition("\f")[2]
            config = cst.PartialParserConfig(default_indent=indent[: len(indent) // depth])
            first, lines = first - 1, ["if 1:", *lines]
        try:
            wrapper = MetadataWrapper(cst.parse_module("\n".join(lines) + "\n", config), unsafe_skip_copy=True)
        except (cst.ParserSyntaxError, RecursionError):
            return None
        return CstRegion(first, wrapper.module, dict(wrapper.resolve(PositionProvider)))


def name_of_torch(tree: ast.Module) -> str | None:
    """Return the name of torch in a file that imports it at the top level, also under a condition.

    An import for type checkers alone does not count: the name is not bound when the code runs. Nor does one if the file
    deletes the name.
    """
    return _name_of_torch(tree, nodes_in(tree))


def _name_of_torch(tree: ast.Module, nodes: Iterable[ast.AST]) -> str | None:
    names = (each for each in nodes if isinstance(each, ast.Name))
    deleted = {each.id for each in names if isinstance(each.ctx, ast.Del)}
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = (alias.asname or alias.name).partition(".")[0]
                is_torch = alias.name == "torch" or (alias.asname is None and alias.name.startswith("torch."))
                if is_torch and name not in deleted:
                    return name
        elif isinstance(node, ast.If) and names_checkers(node.test):
            pending[:0] = node.orelse
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            pending[:0] = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)]
    return None


def torch_in(source: Source) -> str | None:
    """Return the name of torch in the file, for `Source.derive`."""
    return _name_of_torch(source.tree, source.nodes)


def names_in(source: Source) -> frozenset[str]:
    """Return every name that the file gives a value anywhere, by assignments, definitions, parameters and imports, for
    `Source.derive`."""
    return frozenset(_given(source.nodes))


def _given(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]


def is_module(source: Source, name: str) -> bool:
    """Return whether a file binds a name only to the module of that name, if at all."""
    modules = [alias for node in source.nodes if isinstance(node, ast.Import) for alias in node.names]
    plain = sum(each.asname is None and each.name.partition(".")[0] == name for each in modules)
    return plain == sum(each == name for each in _given(source.nodes))


def _is_deep(node: ast.AST) -> bool:
    """Return whether a tree has more than DEEP levels."""
    level: list[ast.AST] = [node]
    for _ in range(DEEP):
        level = [child for parent in level for child in ast.iter_child_nodes(parent)]
        if not level:
            return False
    return True


def comments(text: str, first: int) -> Iterator[tuple[int, str]]:
    """Yield the comments of a statement, by line; `first` is its first line."""
    with contextlib.suppress(tokenize.TokenError, SyntaxError):  # what ast reads and tokenize does not
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0] + first - 1, token.string


def first_line(node: ast.stmt) -> int:
    """Return the line on which a statement begins: that of its first decorator, if it has some."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])
