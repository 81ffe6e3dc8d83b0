"""Lines of a terminal: columns, styles and windows of source."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence

from tcready.reports.shared.wording import visible
from tcready.reports.text.column_width import cell_len, chop_cells
from tcready.schema.value_class import dataclass

TAB = 4
TERMINAL_TAB = 8


Parts = Sequence[tuple[str, str]]
"""One line: texts and their styles."""


Write = Callable[[Parts], None]


def plain(out: io.StringIO) -> Write:
    def write(parts: Parts) -> None:
        out.write(_expanded("".join(text for text, _ in parts).rstrip(), TERMINAL_TAB) + "\n")

    return write


def coloured(out: io.StringIO, width: int) -> Write:
    """Add colors with rich. Importing it takes as long as checking a small file, so it is used for colors only."""
    from rich.console import Console
    from rich.text import Text

    console = Console(
        file=out,
        width=width,
        color_system="standard",
        force_terminal=True,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        _environ={},
    )

    def write(parts: Parts) -> None:
        text = Text.assemble(*parts)
        text.rstrip()
        console.print(text, soft_wrap=True)

    return write


def _expanded(text: str, size: int) -> str:
    """Return `text` with each tab expanded to the next multiple of `size` cells."""
    head, *rest = text.split("\t")
    for part in rest:
        head += " " * (size - cell_len(head) % size) + part
    return head


def rows_of(text: str, room: int) -> Iterator[str]:
    """Return `text` in rows of at most `room` cells, broken between words; longer words are cut."""
    for line in text.split("\n"):
        row = ""
        for word in re.findall(r"\s*\S+\s*", _expanded(line, TAB)):
            if cell_len(row) + cell_len(word.rstrip()) <= room:
                row += word
                continue
            if row:
                yield row.rstrip()
            *full, row = chop_cells(word, room) if cell_len(word.rstrip()) > room else [word]
            yield from full
        yield row.rstrip()


@dataclass(frozen=True)
class SourceWindow:
    """The visible part of a source line, and the position of its caret (in terminal cells)."""

    text: str
    caret: int
    length: int


def source_window(line: str, column: int, end_column: int, room: int) -> SourceWindow:
    """Return the part of `line` that fits `room` cells around the characters [column, end_column), 1-based.

    Tabs expand to the next multiple of TAB, wide characters count two cells, an ellipsis marks what is cut.
    """
    shown: list[str] = []
    at = 0
    starts = [0]
    for character in line:
        piece = " " * (TAB - at % TAB) if character == "\t" else visible(character)
        shown.append(piece)
        at += cell_len(piece)
        starts.append(at)
    first = min(max(column - 1, 0), len(line))
    last = min(max(end_column - 1, first), len(line))
    begin, end = 0, len(line)
    if at > room:
        while begin < first and starts[first] - starts[begin] > room // 4:
            begin += 1
        left = 1 if begin else 0
        end = begin
        while end < len(line) and starts[end + 1] - starts[begin] <= room - left - 1:
            end += 1
    text = ("…" if begin else "") + "".join(shown[begin:end]) + ("…" if end < len(line) else "")
    caret = starts[first] - starts[begin] + (1 if begin else 0)
    length = starts[min(last, max(end, first))] - starts[first]
    return SourceWindow(text, caret, max(length, 1))
