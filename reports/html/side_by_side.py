"""Split a unified diff into two texts side by side."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from tcready.schema.enums import lines_of

SideKind = Literal["same", "changed", "gap"]

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")


@dataclass(frozen=True)
class SideLine:
    kind: SideKind
    """`gap`: only the other side has a line here."""
    text: str = ""


@dataclass(frozen=True)
class Hunk:
    """A hunk with as many lines on both sides; lines side by side have the same index."""

    path: str
    """Empty if the diff does not have it."""
    line: int | None
    """First line in the text before; None if the diff does not have it."""
    before: tuple[SideLine, ...]
    after: tuple[SideLine, ...]


@dataclass(frozen=True)
class Sides:
    diff: str
    hunks: tuple[Hunk, ...]


def sides(diff: str) -> Sides:
    """Return the hunks of `diff`; a diff without a header of a hunk is one."""
    hunks: list[Hunk] = []
    path, line = "", None
    rows: list[tuple[str, str]] = []
    left: list[int] | None = None  # lines of either side that the header announces and that are still to come

    def end() -> None:
        if rows:
            hunks.append(Hunk(path, line, *_beside(rows)))
            rows.clear()

    for text in lines_of(diff.rstrip("\r\n")):
        inside = left is not None and any(count > 0 for count in left)
        if not inside and (header := _HUNK.match(text)):
            end()
            line = int(header[1])
            left = [int(header[2] or 1), int(header[3] or 1)]
        elif not inside and text.startswith(("--- ", "+++ ")) and (left is not None or not rows):
            end()
            path = _named(text)
        elif not text.startswith("\\"):  # which says that there is no line end at the end of the file
            mark, rest = (text[0], text[1:]) if text[:1] in ("-", "+", " ") else (" ", text)
            rows.append((mark, rest))
            if left is not None:
                left = [left[0] - (mark in "- "), left[1] - (mark in "+ ")]
    end()
    return Sides(diff, tuple(hunks))


def _named(header: str) -> str:
    """Return the path of `+++ b/model.py`; empty if it is quoted."""
    name = header[4:].partition("\t")[0]
    return "" if name.startswith('"') else re.sub(r"^[ab]/", "", name)


def _beside(rows: list[tuple[str, str]]) -> tuple[tuple[SideLine, ...], tuple[SideLine, ...]]:
    before: list[SideLine] = []
    after: list[SideLine] = []
    gone: list[str] = []
    came: list[str] = []

    def even() -> None:
        for old, new in zip_longest(gone, came):
            before.append(SideLine("gap") if old is None else SideLine("changed", old))
            after.append(SideLine("gap") if new is None else SideLine("changed", new))
        gone.clear()
        came.clear()

    for mark, text in rows:
        if mark == " " or (mark == "-" and came):
            even()
        if mark == " ":
            before.append(SideLine("same", text))
            after.append(SideLine("same", text))
        else:
            (gone if mark == "-" else came).append(text)
    even()
    return tuple(before), tuple(after)
