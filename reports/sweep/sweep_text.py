"""A sweep for a terminal: the number of models by result, the table, sites over all of them, changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tcready.reports.shared.phrases import number
from tcready.reports.shared.wording import visible
from tcready.reports.sweep import sweep_view
from tcready.reports.text.column_width import cell_len
from tcready.schema.report import Report

if TYPE_CHECKING:
    from tcready.schema.sweep import Sweep

ROWS = 40
"""Number of models in the table, unless all are requested."""
SITES = 15
FIXES = 3
CHANGES = 15


def render(report: Report, sweep: Sweep, *, whole: bool = False) -> str:
    """Return the sweep as plain text with a trailing newline; `whole` shows every row of each table."""
    return "".join(f"{visible(line)}\n" for line in _lines(report, sweep, whole=whole))


def _lines(report: Report, sweep: Sweep, *, whole: bool) -> Iterator[str]:
    yield f"SWEEP   {sweep_view.headline(sweep)}"
    yield f"        {sweep_view.effort(sweep)}"
    models = sweep_view.by_urgency(sweep.models)
    shown = models if whole else models[:ROWS]
    layout = sweep_view.laid_out(sweep)
    row = "row" if layout.differs else "model"
    if shown:
        yield ""
        yield from _table([layout.columns, *map(layout.cells, shown)])
        yield from _rest(len(models) - len(shown), row)
    for each in shown:
        if reason := sweep_view.why(each):
            yield f"{layout.named(each)}: {sweep_view.word(each.outcome)}: {reason}"
    if sweep.sites:
        yield ""
        yield "SITES   where models break: first where most do, then what costs most time"
        sites = sweep.sites if whole else sweep.sites[:SITES]
        for site in sites:
            origin = "" if site.origin == "own" else " (third party)"
            name = f" {site.fingerprint[:7]}" if site.fingerprint else ""
            yield f"{site.path}:{site.line}: {site.what or 'skipped'}{origin} {site.message}{name}"
            yield f"        {sweep_view.site_words(site)}"
        yield from _rest(len(sweep.sites) - len(sites), "site")
    if sweep.fixes:
        yield ""
        first, *others = sweep.fixes
        yield f"FIRST   {sweep_view.fix_words(first)} (as the rules say, not tried)"
        for fix in others if whole else others[: FIXES - 1]:
            yield f"THEN    {sweep_view.fix_words(fix)}"
        yield from _rest(0 if whole else len(others) - (FIXES - 1), "change")
    changed = list(sweep_view.changes(sweep))
    if sweep.has_last:
        yield ""
        yield f"CHANGED since the last sweep: {number(len(changed), row) if changed else 'no model'}"
        for name, text in changed if whole else changed[:CHANGES]:
            yield f"  {name}: {text}"
        yield from _rest(0 if whole else len(changed) - CHANGES, row)
        if same := sweep_view.unmoved(sweep):
            yield f"  {same}"
    if sweep.sites:
        yield ""
        yield "NEXT    `tcready check TARGET` shows one model in full, `tcready fix TARGET --verify` tries changes"
    if report.warnings:
        yield ""
        yield f"{number(len(report.warnings), 'warning')}: -v and the JSON have them"


def _rest(left_out: int, one: str) -> Iterator[str]:
    if left_out > 0:
        yield f"and {number(left_out, f'more {one}', f'more {one}s')}: -v shows all"


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield a table with the first column aligned left, the others right."""
    given = [[visible(cell) for cell in row] for row in rows]
    widths = [max(cell_len(row[place]) for row in given) for place in range(len(given[0]))]
    for row in given:
        first = row[0] + " " * (widths[0] - cell_len(row[0]))
        rest = (" " * (width - cell_len(cell)) + cell for cell, width in zip(row[1:], widths[1:], strict=True))
        yield "  ".join((first, *rest))
