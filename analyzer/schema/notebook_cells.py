"""Locations of the lines of a notebook's program: in its cells, and in the .ipynb file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from tcready.schema.value_class import dataclass

T = TypeVar("T")


@dataclass(frozen=True)
class Cell:
    """A code cell of a notebook. All code cells are read as one program."""

    number: int
    """From 1, over cells of every kind, as ruff counts them."""
    line: int
    """Its first line in the program."""
    file_lines: tuple[int, ...]
    """The line of the .ipynb file for each of its lines; for cells without a file, the program's own lines."""


@dataclass(frozen=True)
class CellPlace:
    """A line of a notebook."""

    number: int
    """The cell's, from 1, over cells of every kind."""
    line: int
    """In the cell, from 1."""
    file_line: int
    """In the .ipynb file, from 1."""


def place_in(cells: Iterable[Cell], line: int) -> CellPlace | None:
    """Return the location of a line of the program; None if it is in no cell."""
    for cell in cells:
        if cell.line <= line < cell.line + len(cell.file_lines):
            within = line - cell.line
            return CellPlace(cell.number, within + 1, cell.file_lines[within])
    return None


def path_in(path: str, place: CellPlace) -> str:
    """Return the name of the cell for users: `nb.ipynb:cell 3`."""
    return f"{path}:cell {place.number}"


Move = Callable[[str, int], "tuple[str, int] | None"]
"""Maps a path and a line to where they are shown instead; None if they stay."""


def move_paths(value: T, move: Move) -> T:
    """Return `value`, a report or a run, with every path and its lines moved; edits and the texts of sources stay."""
    return cast("T", _moved(value, move))


def _moved(value: Any, move: Move) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(_moved(item, move) for item in value)
    if isinstance(value, Mapping):
        found = {key: _moved(item, move) for key, item in value.items()}
        return {**found, **_place(found, move)}
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    found = {name: _moved(item, move) for name, item in fields.items()}
    found |= _place(found, move)
    changed = {name: item for name, item in found.items() if item is not fields[name]}
    return dataclasses.replace(value, **changed) if changed else value


def _place(fields: Mapping[str, Any], move: Move) -> dict[str, Any]:
    """Return the new path and lines among some fields."""
    path = fields.get("path")
    if not isinstance(path, str):
        return {}
    found: dict[str, Any] = {}
    for name in ("line", "end_line", "also_until"):
        line = fields.get(name)
        place = move(path, line) if isinstance(line, int) else None
        if place is not None:
            found.setdefault("path", place[0])
            found[name] = place[1]
    if isinstance(fields.get("ranges"), tuple):
        places = [(move(path, first), move(path, last)) for first, last in fields["ranges"]]
        both = [(first, last) for first, last in places if first is not None and last is not None]
        if both:
            found["path"] = both[0][0][0]
            found["ranges"] = tuple((first[1], last[1]) for first, last in both)
    return found
