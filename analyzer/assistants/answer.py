"""The answer of a tool, cut to the size that the caller allows. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tcready.reports.view import number, visible

ROOM = 4000
"""Characters of a whole answer, its text and its data together, unless the caller asks for more."""
LEAST = 1500
"""An answer that says what was left out of it needs as much."""
MOST = 1_000_000
_ENVELOPE = 200
"""Characters that the protocol puts around an answer."""
_FOR_HEADS = 240
"""Of what is kept for notes: so much for the first lines of what there is no room for."""
_HEAD = 120
"""Characters of such a line."""
_FOR_NOTES = 600
"""Kept free for what is said of parts that were left out."""


@dataclass(frozen=True)
class Piece:
    """One part of an answer, as text and as data."""

    text: str
    """A line, or a few."""
    data: Any = None
    """What it is in JSON; None in a section whose data nobody reads."""


@dataclass(frozen=True)
class Section:
    """Pieces of one kind, told in their order as far as there is room."""

    name: str
    """The key of its data; empty for text alone."""
    noun: str
    """What one piece is called: `finding`."""
    pieces: tuple[Piece, ...]
    single: bool = False
    """Whether it is one thing, such as a patch, and its data no list."""
    skipped: int | None = None
    """Pieces that the caller asked to pass by; None if the tool passes none by."""
    exact: bool = False
    """Whether every character counts, as in a patch."""


@dataclass(frozen=True)
class Answer:
    """What a tool answers: some lines and fields that are always told, and sections that are told as far as they fit."""

    head: str
    data: Mapping[str, Any] | None = field(default_factory=dict)
    """None: the answer is text alone."""
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True)
class Fitted:
    """An answer as it is sent."""

    text: str
    data: dict[str, Any] | None


def fitted(answer: Answer, room: int) -> Fitted:
    """The answer within `room` characters, as JSON has them; what was left out is said, and how to get it.

    Sections are filled in their order. One whose next piece does not fit ends there, and the ones behind it get the rest.
    Of a section that has room for no piece the first lines of some are told, as text alone.
    """
    asked = [
        replace(each, pieces=tuple(_clean(piece, each.exact) for piece in each.pieces))
        for each in answer.sections
        if each.pieces
    ]
    head = _printable(answer.head, exact=False)
    data = None if answer.data is None else _cleaned(answer.data, exact=False)
    free = room - _ENVELOPE - _size(head) - _size(data)
    if data is not None:
        free -= sum(_size(section.name) + len(": [], ") for section in asked)
    costs = [[_cost(piece, data is not None) for piece in section.pieces] for section in asked]
    lacking = sum(map(sum, costs)) - free
    kept = [len(each) for each in costs] if lacking <= 0 else list(_kept(costs, free - _FOR_NOTES))
    lines = [head] if head else []
    notes: list[str] = []
    left: dict[str, int] = {}
    used = sum(sum(cost[:count]) for cost, count in zip(costs, kept, strict=True))
    for_heads = max(free - _FOR_NOTES - used, 0) + _FOR_HEADS
    for section, count in zip(asked, kept, strict=True):
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


def _kept(costs: Sequence[Sequence[int]], free: int) -> Iterator[int]:
    """How many pieces of each section there is room for."""
    for section in costs:
        count = 0
        for cost in section:
            if cost > free:
                break
            free -= cost
            count += 1
        yield count


def _first_line(piece: Piece) -> str:
    line = piece.text.strip().partition("\n")[0].rstrip()
    return line if len(line) <= _HEAD else f"{line[:_HEAD]} ..."


def _note(section: Section, count: int) -> str:
    """What is left out of a section of which `count` pieces are told."""
    if section.single:
        return f"the {section.noun} ({sum(len(piece.text) for piece in section.pieces)} characters)"
    paging = "" if section.skipped is None else f" (skip={section.skipped + max(count, 1)} goes on)"
    return f"{len(section.pieces) - count} of {number(len(section.pieces), section.noun)}{paging}"


def _cost(piece: Piece, has_data: bool) -> int:
    return _size(piece.text) + (_size(piece.data) + 2 if has_data else 0)


def _size(value: Any) -> int:
    """Characters as JSON, without what stands for nothing."""
    return len(json.dumps(value, ensure_ascii=False)) if value not in (None, "") else 0


def _clean(piece: Piece, exact: bool) -> Piece:
    return Piece(_printable(piece.text, exact), _cleaned(piece.data, exact))


def _cleaned(value: Any, exact: bool) -> Any:
    """The same with every text printable."""
    if isinstance(value, str):
        return _printable(value, exact)
    if isinstance(value, Mapping):
        return {key: _cleaned(item, exact) for key, item in value.items()}
    return [_cleaned(item, exact) for item in value] if isinstance(value, (list, tuple)) else value


def _printable(text: str, exact: bool) -> str:
    """`text` with controls and what moves other characters spelled out; `exact`: with what JSON cannot hold alone."""
    if exact:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return visible(text, keep="\n\t")
