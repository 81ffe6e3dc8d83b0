"""Keeps measured figures in docs/results/accuracy.json, from which docs/generate.py writes the tables of the pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results" / "accuracy.json"


def save_row(table: str, cells: Sequence[str]) -> None:
    """Replace the row of a table that has the same first cell, or add one at its end.

    Raises KeyError for an unknown table, and ValueError if the number of cells does not fit its columns.
    """
    rows = {row[0]: row for row in json.loads(RESULTS.read_text("utf-8"))[table]["rows"]}
    rows[cells[0]] = [*cells]
    save_rows(table, [*rows.values()])


def save_rows(table: str, rows: Sequence[Sequence[str]]) -> None:
    """Replace all rows of a table; raises as `save_row`."""
    tables = json.loads(RESULTS.read_text("utf-8"))
    found = tables[table]
    for row in rows:
        if len(row) != len(found["columns"]):
            raise ValueError(f"{table} has {len(found['columns'])} columns, and {len(row)} cells are given")
    found["rows"] = [[*row] for row in rows]
    RESULTS.write_text(as_text(tables), "utf-8")


def as_text(tables: dict[str, dict[str, list[object]]]) -> str:
    """Return the tables as JSON with one row a line, so that a diff shows the rows that changed."""
    parts = []
    for name, table in tables.items():
        columns, align = (json.dumps(table[key], ensure_ascii=False) for key in ("columns", "align"))
        rows = ",\n".join(f"      {json.dumps(row, ensure_ascii=False)}" for row in table["rows"])
        head = f'    "columns": {columns},\n    "align": {align},\n    "rows": [\n{rows}\n    ]'
        parts.append(f"  {json.dumps(name)}: {{\n{head}\n  }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
