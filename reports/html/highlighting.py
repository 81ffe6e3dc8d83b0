"""Source text in pieces that a page can color and mark: lines, and the kind of each word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tcready.schema.enums import lines_of

LONG_LINE = 400
"""Maximum characters of a source line that are shown; a snippet keeps those around its span."""
CONTEXT_LINES = 2
SPAN_LINES = 8
"""Maximum lines of one span that a snippet shows."""


@dataclass(frozen=True)
class CodePiece:
    kind: str
    """One letter: `k`eyword, `s`tring, `c`omment, nu`m`ber, `d`efined name; empty for uncolored text."""
    text: str


Line = tuple[CodePiece, ...]


@dataclass(frozen=True)
class SnippetLine:
    """A line in three parts, the middle one marked; `hit` if the span touches the line."""

    number: int
    before: Line
    marked: Line
    after: Line
    hit: bool


def plain(text: str) -> list[Line]:
    """Return the lines of a source as Python counts them, without an empty piece after the last line's end."""
    lines = lines_of(text)
    if lines and not lines[-1]:
        lines.pop()
    return [(CodePiece("", line),) for line in lines]


def tokenize_lines(text: str) -> list[Line]:
    """Return the same lines with the kinds of words from pygments; plain if it does not see the same lines."""
    from pygments.lexers.python import PythonLexer
    from pygments.token import Comment, Keyword, Name, Number, Operator, String

    parents = {
        Keyword: "k",
        Operator.Word: "k",
        String: "s",
        Comment: "c",
        Number: "m",
        Name.Function: "d",
        Name.Class: "d",
    }
    kinds: dict[Any, str] = {}
    lines: list[list[CodePiece]] = [[]]
    for token, value in PythonLexer(stripnl=False, ensurenl=False).get_tokens(text):
        if token not in kinds:
            kinds[token] = next((letter for parent, letter in parents.items() if token in parent), "")
        kind = kinds[token]
        for at, part in enumerate(value.split("\n")):
            if at:
                lines.append([])
            _add(lines[-1], kind, part)
    if lines and not lines[-1]:
        lines.pop()
    coloured = [tuple(line) for line in lines]
    whole = plain(text)
    return coloured if [_text(line) for line in coloured] == [_text(line) for line in whole] else whole


def _add(line: list[CodePiece], kind: str, text: str) -> None:
    """Append to `line`; blanks take the kind of the piece before them, and neighbours of one kind are merged."""
    if not text:
        return
    if line and (line[-1].kind == kind or text.isspace()):
        line[-1] = CodePiece(line[-1].kind, line[-1].text + text)
    else:
        line.append(CodePiece(kind, text))


def snippet(lines: Sequence[Line], first: tuple[int, int], last: tuple[int, int]) -> tuple[SnippetLine, ...]:
    """Return the lines around a span from `first` to `last`, both (line, column), the end column one past it."""
    if not 1 <= first[0] <= len(lines):
        return ()
    top = max(first[0] - CONTEXT_LINES, 1)
    bottom = min(min(last[0], first[0] + SPAN_LINES) + CONTEXT_LINES, len(lines))
    return tuple(_marked(number, lines[number - 1], first, last) for number in range(top, bottom + 1))


def _marked(number: int, line: Line, first: tuple[int, int], last: tuple[int, int]) -> SnippetLine:
    if not first[0] <= number <= last[0]:
        return SnippetLine(number, shorten(line, LONG_LINE), (), (), False)
    text = _text(line)
    begin = first[1] - 1 if number == first[0] else len(text) - len(text.lstrip())
    end = last[1] - 1 if number == last[0] else len(text)
    begin = min(max(begin, 0), len(text))
    end = min(max(end, begin), len(text))
    before = part(line, 0, begin)
    if begin > LONG_LINE // 2:
        before = (CodePiece("", "…"), *part(line, begin - LONG_LINE // 2, begin))
    after = part(line, end, len(text))
    return SnippetLine(number, before, shorten(part(line, begin, end), LONG_LINE), shorten(after, LONG_LINE // 2), True)


def shorten(line: Line, room: int) -> Line:
    """Return at most `room` characters of it, with an ellipsis if it is longer."""
    return line if length(line) <= room else (*part(line, 0, room), CodePiece("", "…"))


def part(line: Line, begin: int, end: int) -> Line:
    """Return the characters from `begin` up to `end`, counted from 0."""
    found, at = [], 0
    for piece in line:
        text = piece.text[max(begin - at, 0) : max(end - at, 0)]
        if text:
            found.append(CodePiece(piece.kind, text))
        at += len(piece.text)
    return tuple(found)


def length(line: Line) -> int:
    return sum(len(piece.text) for piece in line)


def _text(line: Line) -> str:
    return "".join(piece.text for piece in line)
