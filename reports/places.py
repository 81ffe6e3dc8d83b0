"""Places in notebooks, as people and programs know them: in a cell, or on a line of the file.

A report counts the lines of a notebook's code cells one after the other, as they were read. What is shown is rendered
from the report that one of these gives.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, cast

from tcready.reports.view import lines_of
from tcready.schema import Cell, CellPlace, Edit, Report, SourceText, path_in, place_in

_LINES = ("line", "end_line", "also_until")
_Move = Callable[[str, CellPlace], tuple[str, int]]
"""A path, and where a line of its program stands: to the path and the line to show."""


def by_cell(report: Report) -> Report:
    """The report with each cell of a notebook as a file of its own: `nb.ipynb:cell 3`, line 5."""
    cells = _cells(report)
    if not cells:
        return report
    moved = cast(Report, _moved(report, cells, lambda path, place: (path_in(path, place), place.line)))
    sources = [part for source in report.sources for part in _parted(source)]
    return dataclasses.replace(moved, sources=tuple(sources))


def by_file_line(report: Report) -> Report:
    """The report with the lines of notebooks as they stand in the .ipynb file. Columns stay those of the code."""
    cells = _cells(report)
    return (
        cast(Report, _moved(report, cells, lambda path, place: (path, place.file_line))) if cells else report
    )


def _cells(report: Report) -> dict[str, tuple[Cell, ...]]:
    return {source.path: source.cells for source in report.sources if source.cells}


def _parted(source: SourceText) -> list[SourceText]:
    """A source for each cell; a file that is no notebook itself."""
    if not source.cells:
        return [source]
    lines = lines_of(source.text)
    parts = []
    for cell in source.cells:
        place = CellPlace(cell.number, 1, 1)
        own = lines[cell.line - 1 : cell.line - 1 + len(cell.file_lines)]
        parts.append(SourceText(path_in(source.path, place), source.sha256, "\n".join(own)))
    return parts


def _moved(value: Any, cells: Mapping[str, tuple[Cell, ...]], move: _Move) -> Any:
    """`value` with each path and line of a notebook moved."""
    if isinstance(value, (tuple, list)):
        return type(value)(_moved(item, cells, move) for item in value)
    if isinstance(value, Mapping):
        changed = {key: _moved(item, cells, move) for key, item in value.items()}
        return {**changed, **_place(changed, cells, move)}
    if not dataclasses.is_dataclass(value) or isinstance(value, (type, SourceText, Edit)):
        return value
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    changed = {name: _moved(item, cells, move) for name, item in fields.items()}
    changed |= _place(changed, cells, move)
    return dataclasses.replace(
        value, **{name: item for name, item in changed.items() if item is not fields[name]}
    )


def _place(fields: Mapping[str, Any], cells: Mapping[str, tuple[Cell, ...]], move: _Move) -> dict[str, Any]:
    """What becomes of the path and the lines among some fields."""
    path, line = fields.get("path"), fields.get("line")
    if not isinstance(path, str) or path not in cells or not isinstance(line, int):
        return {}
    found: dict[str, Any] = {}
    for name in _LINES:
        at = fields.get(name)
        place = place_in(cells[path], at) if isinstance(at, int) else None
        if place is not None:
            shown, found[name] = move(path, place)
            found.setdefault("path", shown)
    return found
