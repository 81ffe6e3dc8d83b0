"""The answer of a tool, cut to the size that the caller allows. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tcready.reports.shared.phrases import number
from tcready.reports.shared.wording import visible

ROOM = 4000
"""Default limit of a whole answer, text and data together, in characters. The caller may raise it."""
LEAST = 1500
"""Minimum limit in characters, enough to say what was left out."""
MOST = 1_000_000
_ENVELOPE = 200
"""Characters that the protocol puts around an answer."""
_FOR_HEADS = 240
"""Number of the characters for notes that go to first lines of pieces that do not fit."""
_HEAD = 120
"""Characters of such a line."""
_FOR_NOTES = 600
"""Characters reserved for notes about parts that were left out."""


@dataclass(frozen=True)
class AnswerPiece:
    """One part of an answer, as text and as data."""

    text: str
    """A line, or a few."""
    data: Any = None
    """The piece in JSON; None in a section without data."""


@dataclass(frozen=True)
class Section:
    """Pieces of one kind, included in their order as far as there is room."""

    name: str
    """The key of its data; empty for text alone."""
    noun: str
    """The noun for one piece: `finding`."""
    pieces: tuple[AnswerPiece, ...]
    single: bool = False
    """The section is one thing, such as a patch, and its data is not a list."""
    skipped: int | None = None
    """The number of pieces that the caller skipped; None if the tool does not support that."""
    exact: bool = False
    """Every character counts, as in a patch."""


@dataclass(frozen=True)
class ToolAnswer:
    """The answer of a tool: lines and fields that are always included, and sections that are included as far as they
    fit."""

    head: str
    data: Mapping[str, Any] | None = field(default_factory=dict)
    """None: the answer has text only."""
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True)
class Fitted:
    """An answer as it is sent."""

    text: str
    data: dict[str, Any] | None


def fit_answer(answer: ToolAnswer, room: int) -> Fitted:
    """Return the answer within `room` characters (of JSON), with notes on what was left out and how to get it.

    Sections are filled in their order. A section ends at its first piece that does not fit, and later sections get the
    rest. A section without room for any piece shows the first lines of some pieces, in the text only.
    """
    requested = [
        replace(each, pieces=tuple(_clean(piece, each.exact) for piece in each.pieces))
        for each in answer.sections
        if each.pieces
    ]
    head = _printable(answer.head, exact=False)
    data = None if answer.data is None else _printable_values(answer.data, exact=False)
    free = room - _ENVELOPE - _size(head) - _size(data)
    if data is not None:
        free -= sum(_size(section.name) + len(": [], ") for section in requested)
    costs = [[_cost(piece, data is not None) for piece in section.pieces] for section in requested]
    lacking = sum(map(sum, costs)) - free
    counts = [len(each) for each in costs] if lacking <= 0 else list(_pieces_that_fit(costs, free - _FOR_NOTES))
    lines = [head] if head else []
    notes: list[str] = []
    left: dict[str, int] = {}
    used = sum(sum(cost[:count]) for cost, count in zip(costs, counts, strict=True))
    for_heads = max(free - _FOR_NOTES - used, 0) + _FOR_HEADS
    for section, count in zip(requested, counts, strict=True):
        shown = section.pieces[:count]
        lines += [piece.text for piece in shown]
        if not count and not section.exact:
            for first in map(_first_line, section.pieces):
                if _size(first) > for_heads:
                    break
                for_heads -= _size(first)
                lines.append(first)
        if data is not None and section.name and shown:
            data[section.name] = shown[0].data if section.single else [piece.data for piece in shown]
        if count < len(section.pieces):
            left[section.name or f"{section.noun}s"] = len(section.pieces) - count
            notes.append(_note(section, count))
    if notes:
        enough = -(-(room + lacking) // 500) * 500
        how = f"max_characters={enough} gives all" if enough <= MOST else "ask about less at once"
        lines.append(f"left out, since the answer has room for {room} characters: {'; '.join(notes)}. {how}.")
        if data is not None:
            data |= {"left_out": left, "characters_for_all": enough}
    text = "\n".join(line.rstrip("\n") for line in lines)
    if _size(text) + _size(data) + _ENVELOPE > room:  # a name may be of any length
        return Fitted(text[: (room - _ENVELOPE) // 2] + " ... (cut)", None)
    return Fitted(text, data)


def _pieces_that_fit(costs: Sequence[Sequence[int]], free: int) -> Iterator[int]:
    """Return how many pieces of each section fit."""
    for section in costs:
        count = 0
        for cost in section:
            if cost > free:
                break
            free -= cost
            count += 1
        yield count


def _first_line(piece: AnswerPiece) -> str:
    line = piece.text.strip().partition("\n")[0].rstrip()
    return line if len(line) <= _HEAD else f"{line[:_HEAD]} ..."


def _note(section: Section, count: int) -> str:
    """Return a note on what is left out of a section that shows `count` pieces."""
    if section.single:
        return f"the {section.noun} ({sum(len(piece.text) for piece in section.pieces)} characters)"
    paging = "" if section.skipped is None else f" (skip={section.skipped + max(count, 1)} goes on)"
    return f"{len(section.pieces) - count} of {number(len(section.pieces), section.noun)}{paging}"


def _cost(piece: AnswerPiece, has_data: bool) -> int:
    return _size(piece.text) + (_size(piece.data) + 2 if has_data else 0)


def _size(value: Any) -> int:
    """Return the number of characters in JSON without empty values."""
    return len(json.dumps(value, ensure_ascii=False)) if value not in (None, "") else 0


def _clean(piece: AnswerPiece, exact: bool) -> AnswerPiece:
    return AnswerPiece(_printable(piece.text, exact), _printable_values(piece.data, exact))


def _printable_values(value: Any, exact: bool) -> Any:
    """Return the same value with every text made printable."""
    if isinstance(value, str):
        return _printable(value, exact)
    if isinstance(value, Mapping):
        return {key: _printable_values(item, exact) for key, item in value.items()}
    return [_printable_values(item, exact) for item in value] if isinstance(value, (list, tuple)) else value


def _printable(text: str, exact: bool) -> str:
    """Escape control and bidirectional characters of `text`; if `exact`, only those that JSON cannot represent."""
    if exact:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return visible(text, keep="\n\t")
