"""Places in notebooks, for people and programs: in a cell, or on a line of the file.

A report counts the lines of a notebook's code cells one after the other, as they were read. Output is rendered from the
report that one of these returns.
"""

from __future__ import annotations

import dataclasses

from tcready.schema.enums import lines_of
from tcready.schema.notebook_cells import Cell, CellPlace, move_paths, path_in, place_in
from tcready.schema.report import Report
from tcready.schema.static import SourceText


def by_cell(report: Report) -> Report:
    """Return the report with each cell of a notebook as a separate file: `nb.ipynb:cell 3`, line 5."""
    cells = _cells(report)
    if not cells:
        return report

    def within(path: str, line: int) -> tuple[str, int] | None:
        place = place_in(cells.get(path, ()), line)
        return (path_in(path, place), place.line) if place else None

    sources = tuple(part for source in report.sources for part in _parted(source))
    return dataclasses.replace(move_paths(report, within), sources=sources)


def by_file_line(report: Report) -> Report:
    """Return the report with line numbers of notebooks in the .ipynb file. Columns remain those of the code."""
    cells = _cells(report)

    def in_file(path: str, line: int) -> tuple[str, int] | None:
        place = place_in(cells.get(path, ()), line)
        return (path, place.file_line) if place else None

    return move_paths(report, in_file) if cells else report


def _cells(report: Report) -> dict[str, tuple[Cell, ...]]:
    return {source.path: source.cells for source in report.sources if source.cells}


def _parted(source: SourceText) -> list[SourceText]:
    """Return a source for each cell; a file that is not a notebook unchanged."""
    if not source.cells:
        return [source]
    lines = lines_of(source.text)
    parts = []
    for cell in source.cells:
        place = CellPlace(cell.number, 1, 1)
        own = lines[cell.line - 1 : cell.line - 1 + len(cell.file_lines)]
        parts.append(SourceText(path_in(source.path, place), source.sha256, "\n".join(own)))
    return parts
