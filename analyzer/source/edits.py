"""Apply edits to text, and show them as one patch that `git apply` accepts."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tcready.schema.edit import Edit
from tcready.schema.enums import TcreadyError

CONTEXT = 2
"""Unchanged lines shown on either side of a change."""
_ESCAPES = {"\n": r"\n", "\t": r"\t", '"': r"\"", "\\": r"\\"}

Replacement = tuple[int, int, str]
"""Begin and end index in a text, and the replacement."""


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return `text` with the edits of one file applied at once; all positions refer to `text`.

    A repeated edit counts once; insertions at the same position keep their order. Raises TcreadyError if two edits
    overlap, or if one is outside of the text.
    """
    return _replaced(text, _replacements(text, edits), 0, len(text))


def between(path: str, before: str, after: str) -> tuple[Edit, ...]:
    """Return the edits, of whole lines, that turn one text of a file into another."""
    old, new = _git_lines(before), _git_lines(after)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    ends = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", before))]

    def place(index: int) -> tuple[int, int]:
        line = bisect_right(ends, index)
        return line, index - ends[line - 1] + 1

    return tuple(
        Edit(path, *place(starts[i1]), *place(starts[i2]), "".join(new[j1:j2]))
        for i1, i2, j1, j2 in _differences(old, new)
    )


def _differences(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Return the ranges of lines that differ, in the old and the new text.

    Lines that occur once in each text split the texts first, because difflib takes quadratic time.
    """
    from difflib import SequenceMatcher

    i, j = 0, 0
    for next_i, next_j in (*_anchors(old, new), (len(old), len(new))):
        matcher = SequenceMatcher(None, old[i:next_i], new[j:next_j], autojunk=False)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            if tag != "equal":
                yield i + i1, i + i2, j + j1, j + j2
        i, j = next_i, next_j


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the longest sequence of lines that occur once in both texts and are in the same order in both."""
    counts = Counter(old), Counter(new)
    places = {line: number for number, line in enumerate(new)}
    ends: list[int] = []
    """For each length of such a sequence, the smallest position in the new text at which one ends."""
    rows: list[tuple[int, int, int | None]] = []
    last: list[int] = []
    for number, line in enumerate(old):
        if counts[0][line] != 1 or counts[1][line] != 1:
            continue
        place = places[line]
        length = bisect_left(ends, place)
        rows.append((number, place, last[length - 1] if length else None))
        ends[length : length + 1] = [place]
        last[length : length + 1] = [len(rows) - 1]
    found = []
    at = last[-1] if last else None
    while at is not None:
        number, place, at = rows[at]
        found.append((number, place))
    return found[::-1]


def patch(texts: Mapping[str, str], edits: Iterable[Edit]) -> str:
    """Return the edits as a unified diff, one part for each file; `texts` has the current content by the edits' paths.

    Empty if nothing changes. Raises TcreadyError as `apply_edits` does.
    """
    by_path: dict[str, list[Edit]] = {}
    for edit in edits:
        by_path.setdefault(edit.path, []).append(edit)
    return "".join(_file_patch(path, texts[path], found) for path, found in by_path.items())


def _file_patch(path: str, text: str, edits: Sequence[Edit]) -> str:
    hunks = "".join(_hunks(text, _replacements(text, edits)))
    return f"--- {_header('a', path)}\n+++ {_header('b', path)}\n{hunks}" if hunks else ""


def _hunks(text: str, replacements: Sequence[Replacement]) -> Iterator[str]:
    """Yield the hunks of a patch. Only lines around a change are compared, so the cost does not grow with the file."""
    lines = _git_lines(text)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    moved = 0
    for first, last, group in _neighbours(replacements, starts):
        begin, end = max(first - CONTEXT, 0), min(last + 1 + CONTEXT, len(lines))
        last = min(last, len(lines) - 1)
        before = lines[first : last + 1]
        after = _git_lines(_replaced(text, group, starts[first], starts[last + 1]))
        marked = [
            *((" ", line) for line in lines[begin:first]),
            *_marked_lines(before, after),
            *((" ", line) for line in lines[last + 1 : end]),
        ]
        yield from _marked_hunks(marked, begin, begin + moved)
        moved += len(after) - len(before)


def _git_lines(text: str) -> list[str]:
    """Split lines as git does, with their ends: a carriage return before the line feed belongs to the line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _neighbours(
    replacements: Sequence[Replacement], starts: Sequence[int]
) -> Iterator[tuple[int, int, list[Replacement]]]:
    """Group replacements that share lines of context: first and last line, 0-based, and the replacements."""
    first = last = -1
    group: list[Replacement] = []
    for replacement in replacements:
        begin, end = (max(bisect_right(starts, index) - 1, 0) for index in replacement[:2])
        if group and begin > last + 2 * CONTEXT:
            yield first, last, group
            group = []
        first, last = (min(first, begin), max(last, end)) if group else (begin, end)
        group.append(replacement)
    if group:
        yield first, last, group


def _marked_lines(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Return the lines of both texts, each with its mark in a patch."""
    from difflib import SequenceMatcher

    for tag, old, old_end, new, new_end in SequenceMatcher(None, before, after).get_opcodes():
        if tag == "equal":
            yield from ((" ", line) for line in before[old:old_end])
        else:
            yield from (("-", line) for line in before[old:old_end])
            yield from (("+", line) for line in after[new:new_end])


def _marked_hunks(marked: Sequence[tuple[str, str]], old: int, new: int) -> Iterator[str]:
    """Split marked lines into hunks. `old` and `new`: the number of lines before them, before and after the change."""
    changed = [number for number, (mark, _) in enumerate(marked) if mark != " "]
    breaks = [
        n for n, (one, following) in enumerate(itertools.pairwise(changed), 1) if following - one > 2 * CONTEXT + 1
    ]
    for begin, end in itertools.pairwise([0, *breaks, len(changed)] if changed else []):
        first, last = max(changed[begin] - CONTEXT, 0), changed[end - 1] + CONTEXT + 1
        above, hunk = marked[:first], marked[first:last]
        ranges = (
            f"{sign}{_range(start + _count(above, sign), _count(hunk, sign))}"
            for sign, start in (("-", old), ("+", new))
        )
        yield f"@@ {' '.join(ranges)} @@\n"
        for mark, line in hunk:
            yield f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"


def _count(marked: Iterable[tuple[str, str]], sign: str) -> int:
    return sum(mark in (" ", sign) for mark, _ in marked)


def _range(start: int, length: int) -> str:
    """Return a range for the header of a hunk; an empty range is given by the line before it."""
    return f"{start},0" if not length else str(start + 1) if length == 1 else f"{start + 1},{length}"


def _header(side: str, path: str) -> str:
    """Return a path as git writes it: quoted if it contains characters that would end it early."""
    name = f"{side}/{path.lstrip('/')}"
    if any(character in _ESCAPES or ord(character) < 32 for character in name):
        quoted = (_ESCAPES.get(c) or (c if ord(c) >= 32 else f"\\{ord(c):03o}") for c in name)
        return f'"{"".join(quoted)}"'
    return f"{name}\t" if " " in name else name


def _replacements(text: str, edits: Iterable[Edit]) -> list[Replacement]:
    """Return the edits by index, in order of position."""
    starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]
    ends = [*starts[1:], len(text)]

    def index(edit: Edit, line: int, column: int) -> int:
        if not 1 <= line <= len(starts) or not 1 <= column <= ends[line - 1] - starts[line - 1] + 1:
            raise TcreadyError(f"{edit.path}: no line {line}, column {column} to be changed")
        return starts[line - 1] + column - 1

    found: list[Replacement] = []
    for edit in dict.fromkeys(edits):
        begin = index(edit, edit.start_line, edit.start_column)
        end = index(edit, edit.end_line, edit.end_column)
        if end < begin:
            raise TcreadyError(f"{edit.path}: a change in line {edit.start_line} ends before it begins")
        found.append((begin, end, edit.new_text))
    found.sort(key=lambda replacement: replacement[:2])
    for (_, end, _), (begin, _, _) in itertools.pairwise(found):
        if begin < end:
            path, line = edit.path, bisect_right(starts, begin)
            raise TcreadyError(f"{path}: two changes overlap in line {line}; apply one of them and check again")
    return found


def _replaced(text: str, replacements: Iterable[Replacement], begin: int, end: int) -> str:
    """Return the text from index `begin` to `end` with the replacements in it applied."""
    parts: list[str] = []
    for first, last, new in replacements:
        parts += [text[begin:first], new]
        begin = last
    return "".join([*parts, text[begin:end]])
