"""Where the lines of a notebook's program stand: in its cells, and in the .ipynb file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """A code cell of a notebook whose cells, one after the other, are read as one program."""

    number: int
    """From 1, over cells of every kind, as ruff counts them."""
    line: int
    """Its first line in the program."""
    file_lines: tuple[int, ...]
    """The line of the .ipynb file that each of its lines stands on."""


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
    """Where a line of the program stands; None if it is in no cell."""
    for cell in cells:
        if cell.line <= line < cell.line + len(cell.file_lines):
            within = line - cell.line
            return CellPlace(cell.number, within + 1, cell.file_lines[within])
    return None


def path_in(path: str, place: CellPlace) -> str:
    """How people are told the cell: `nb.ipynb:cell 3`."""
    return f"{path}:cell {place.number}"
