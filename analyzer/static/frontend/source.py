"""Read Python sources: bytes, declared encoding, tree. Nothing is executed."""

from __future__ import annotations

import ast
import hashlib
import io
import re
import tokenize
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar, cast

from tcready.portable.target import NOTEBOOK
from tcready.schema.display_paths import contents
from tcready.schema.enums import lines_of
from tcready.schema.notebook_cells import Cell
from tcready.static.frontend.interpreter_settings import SHARED

_T = TypeVar("_T")

_STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)
"""The kinds of nodes that contain statements: no class is defined within an expression."""


class UnreadableError(Exception):
    """A file that cannot be read or parsed; the message is the reason, one line."""

    def __init__(self, reason: str, span: tuple[int, int, int, int] | None = None, cell: int | None = None) -> None:
        super().__init__(reason)
        self.cell = cell
        """The cell of a notebook in which `span` counts lines, over cells of every kind; None if there is none."""
        self.span = span
        """The range where Python could not go on: first line and column, last line and the column one past the end,
        1-based; None if it is no syntax error."""


def names_checkers(node: ast.AST) -> bool:
    """Return whether a node is `TYPE_CHECKING`, which is false in every run."""
    return bool(getattr(node, "id", getattr(node, "attr", "")) == "TYPE_CHECKING")


def nodes_in(node: ast.AST) -> list[ast.AST]:
    """Return the nodes of `ast.walk`, in its order, except contexts and most operators, which have no children:
    faster."""
    found, tree = [node], ast.AST
    for each in found:
        kind = type(each)
        if kind is ast.Name or kind is ast.Constant:  # most are, and hold nothing
            continue
        for name in kind._fields:
            value = getattr(each, name, None)
            if value is None:
                continue
            if type(value) is list:
                found += [item for item in value if isinstance(item, tree)]
            elif isinstance(value, tree) and value._fields:
                found.append(value)
    return found


def holds_chain(node: ast.expr) -> bool:
    """Return whether `node` is a chain of `and` or `or`, negated or not, with such a chain as a part."""
    chain = _not_negated(node)
    return isinstance(chain, ast.BoolOp) and any(isinstance(_not_negated(v), ast.BoolOp) for v in chain.values)


def _not_negated(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node = node.operand
    return node


@dataclass(frozen=True, eq=False)
class Source:
    """A file that was read and parsed."""

    path: Path
    text: str
    tree: ast.Module = field(repr=False)
    sha256: str
    cells: tuple[Cell, ...] = ()
    """The cells of a notebook, which has the contents of its code cells as `text`."""

    @cached_property
    def lines(self) -> list[str]:
        return lines_of(self.text)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """As of `nodes_in`; to go through the tree each time takes many times as long."""
        return tuple(nodes_in(self.tree))

    @cached_property
    def _derived(self) -> dict[object, object]:
        return {}

    def derive(self, work: Callable[[Source], _T]) -> _T:
        """Return the result of a function for this source, computed once."""
        if work not in self._derived:
            self._derived[work] = work(self)
        return cast("_T", self._derived[work])

    @cached_property
    def has_yield(self) -> bool:
        """Return whether it may contain a generator."""
        return "yield" in self.text

    @cached_property
    def has_walrus(self) -> bool:
        """Return whether it may contain `:=`."""
        return ":=" in self.text

    @cached_property
    def classes(self) -> tuple[ast.ClassDef, ...]:
        """Every class in it, wherever it is defined; outer before inner."""
        found: list[ast.ClassDef] = []
        pending: deque[ast.AST] = deque(self.tree.body)
        while pending:
            each = pending.popleft()
            if isinstance(each, ast.ClassDef):
                found.append(each)
            pending.extend(child for child in ast.iter_child_nodes(each) if isinstance(child, _STATEMENTS))
        return tuple(found)

    @cached_property
    def tried(self) -> frozenset[str]:
        """The last names of the functions called below a `try` or a `suppress`."""
        found: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.With):
                if not any("suppress" in ast.unparse(each.context_expr) for each in node.items):
                    continue
            elif not isinstance(node, (ast.Try, getattr(ast, "TryStar", ast.Try))):  # from Python 3.11 on
                continue
            for each in (inner for part in getattr(node, "body", []) for inner in ast.walk(part)):
                if isinstance(each, ast.Call):
                    name = each.func
                    found.add(name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", ""))
        return frozenset(found)

    def column(self, line: int, offset: int) -> int:
        """Return the 1-based character column of a UTF-8 byte offset, as ast counts them, in a 1-based line."""
        text = self.lines[line - 1]
        return offset + 1 if text.isascii() else len(text.encode()[:offset].decode(errors="ignore")) + 1

    def offset(self, line: int, column: int) -> int:
        """Return the character index in `text` of a 1-based line and column."""
        return self._starts[line - 1] + column - 1

    def line_end(self, line: int) -> str:
        """Return the line ending of a 1-based line; for the last one, that of the line before it."""
        after = self._starts[min(line, len(self._starts) - 1)]
        before = self.text[max(after - 2, 0) : after]
        return "\r\n" if before == "\r\n" else "\r" if before.endswith("\r") else "\n"

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", self.text))]


def encoded(text: str) -> bytes:
    """Return the bytes that an editor writes when it saves `text`: in its declared encoding, else in UTF-8."""
    try:
        return text.encode(declared(text))
    except (LookupError, UnicodeError):
        return text.encode("utf-8", "surrogatepass")


def declared(text: str) -> str:
    """Return the encoding that the text of a source declares, else UTF-8."""
    try:
        data = text.encode("utf-8", "surrogatepass")
        return tokenize.detect_encoding(io.BytesIO(data).readline)[0].removesuffix("-sig")
    except SyntaxError:
        return "utf-8"


def read(path: Path) -> Source:
    """Read and parses one file.

    Raises UnreadableError if it cannot be read, decoded as it declares, or parsed by this Python.
    """
    try:
        data, _ = contents(path)
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror or error}") from None
    return parse(path, data, hashlib.sha256(data).hexdigest())


def of_text(path: Path, text: str) -> Source:
    """Return the source of a file if it held `text`; of a notebook the file's. Raises UnreadableError if that does not
    parse."""
    return parse(path, encoded(text), "")


def parse(path: Path, data: bytes, sha256: str) -> Source:
    """Return the source of a file that holds `data`. Raises UnreadableError as `read` does."""
    cells: tuple[Cell, ...] = ()
    if path.suffix == NOTEBOOK:
        from tcready.static.frontend import notebook

        try:
            with SHARED.without_warnings():
                program = notebook.read(data)
        except notebook.NotebookError as error:
            span = _span(error.error) if error.error is not None else None
            raise UnreadableError(str(error), span, error.cell) from None
        text, cells = program.text, program.cells
    else:
        text = _decode(data)
    try:
        with SHARED.reading(), SHARED.without_warnings():  # as deep as a reading takes it, whoever asks
            tree = ast.parse(text)
    except SyntaxError as error:
        reason = f"syntax error in line {error.lineno or 1}: {error.msg}"
        raise UnreadableError(reason, _span(error)) from None
    except ValueError as error:
        raise UnreadableError(f"cannot be parsed: {error}") from None
    except (RecursionError, MemoryError):
        raise UnreadableError("cannot be parsed: nested too deeply") from None
    return Source(path, text, tree, sha256, cells)


def check_compiles(source: Source) -> None:
    """Raise UnreadableError if Python refuses to compile what it parses, as a `return` outside of a function."""
    if source.cells:  # IPython takes more than Python does
        return
    try:
        with SHARED.reading(), SHARED.without_warnings():
            compile(source.text, str(source.path), "exec", dont_inherit=True)
    except SyntaxError as error:
        reason = f"syntax error in line {error.lineno or 1}: {error.msg}"
        raise UnreadableError(reason, _span(error)) from None
    except (RecursionError, MemoryError, ValueError):  # it was parsed: how deep a compiler goes is another matter
        return


def _span(error: SyntaxError) -> tuple[int, int, int, int]:
    """Return the range that Python marks; one character if it marks no end."""
    begin = error.lineno or 1, max(error.offset or 1, 1)
    end = error.end_lineno or 0, error.end_offset or 0
    return (*begin, *(end if end > begin else (begin[0], begin[1] + 1)))


def _decode(data: bytes) -> str:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except (SyntaxError, LookupError) as error:
        raise UnreadableError(f"cannot be decoded: {error}") from None
    except UnicodeDecodeError as error:
        raise UnreadableError(f"cannot be decoded: {error.encoding} does not fit at byte {error.start}") from None
    except UnicodeError as error:  # what codecs such as punycode raise
        raise UnreadableError(f"cannot be decoded: {error}") from None
