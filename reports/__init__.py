"""Render reports, one format for each file: each has `render(Report, **options) -> str` and uses only the schema.

The libraries of a format (rich, jinja2) are imported when that format is used. The page is computed in
`html.page_values`, `html.highlighting`, `html.pictures`, `html.side_by_side` and `html.editor_links`, and laid out
by the templates; `frame.html.jinja` surrounds all pages. `text.summary_or_full` is `text.brief`, or `text.full`
with `-v`. `text.notebook_places` shows lines of notebooks by cell.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from tcready.schema.enums import TcreadyError
from tcready.schema.report import Report
from tcready.schema.static import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tcready.schema.comparison import Comparison
    from tcready.schema.proof import FixChange, FixResult

FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "text": "text.summary_or_full",
        "concise": "text.concise",
        "json": "machine.json_report",
        "jsonl": "machine.jsonl",
        "html": "html.document",
        "sarif": "machine.sarif",
        "github": "machine.github",
        "gitlab": "machine.gitlab",
        "junit": "machine.junit",
        "markdown": "markdown.comment",
    }
)
"""Name of a format -> the module of this package that renders it."""
COMPARED: Mapping[str, str] = MappingProxyType(
    {
        "text": "shared.comparison_text",
        "json": "machine.json_report",
        "markdown": "markdown.comparison_comment",
        "html": "html.comparison_page",
    }
)
"""The same for comparisons of two reports."""


def render_comparison(comparison: Comparison, format: str, **options: Any) -> str:  # noqa: A002 - the flag's own name
    """Render `comparison` in one of `COMPARED`; `options` are keyword arguments of the format.

    Raises TcreadyError for an unknown format.
    """
    if format not in COMPARED:
        raise TcreadyError(f"a comparison has no format {format!r}: use one of {', '.join(sorted(COMPARED))}")
    module = importlib.import_module(f"{__name__}.{COMPARED[format]}")
    return cast("Callable[..., str]", module.render)(comparison, **options)


def editor_address(editor: str) -> str:
    """Return the address with which an editor opens a line. Raises TcreadyError for an unknown name."""
    from tcready.reports.html.editor_links import template_of

    return template_of(editor)


def render_changes(changes: FixResult | FixChange, format: str) -> str:  # noqa: A002 - the flag's own name
    """Render proposed changes, or the verification of one patch, as `text` or `json`. Raises TcreadyError for
    another format."""
    from tcready.reports.machine import fix_output
    from tcready.schema.proof import FixChange

    if format not in ("text", "json"):
        raise TcreadyError(f"changes are not told as {format!r}: use json or text")
    if isinstance(changes, FixChange):
        return fix_output.proof_data(changes) if format == "json" else fix_output.proof_text(changes)
    return fix_output.as_data(changes) if format == "json" else fix_output.text(changes)


def pages_of_models(report: Report) -> Iterator[tuple[str, Report]]:
    """Return the report of each model of a sweep, with the file name that the page of all models links to."""
    from tcready.reports.sweep import pages

    return pages.pages(report)


def render_summary(report: Report) -> str:
    """Render a short piece of HTML for a notebook: the verdict, findings, coverage and plan."""
    from tcready.reports.html import notebook_summary

    return notebook_summary.render(report)


def render_finding(report: Report, finding: Finding, **options: Any) -> str:
    """Render everything that `report` contains about one of its findings, as text for a terminal; `options` are
    `color` and `width`."""
    from tcready.reports.text import notebook_places, summary_or_full

    shown = notebook_places.by_cell(report)
    return summary_or_full.render_finding(shown, shown.findings[report.findings.index(finding)], **options)


def render(report: Report, format: str, **options: Any) -> str:  # noqa: A002 - the flag's own name
    """Render `report` in one of `FORMATS`; `options` are keyword arguments of the format.

    Raises TcreadyError for an unknown format.
    """
    if format not in FORMATS:
        raise TcreadyError(f"unknown report format {format!r}: use one of {', '.join(sorted(FORMATS))}")
    from tcready.reports.text import notebook_places

    of_sweep = format == "html" and report.sweep is not None
    module = importlib.import_module(f"{__name__}.{'sweep.pages' if of_sweep else FORMATS[format]}")
    if format in ("text", "concise", "markdown"):
        report = notebook_places.by_cell(report)
    elif format not in ("json", "jsonl", "html"):  # JSON has both places, and the page holds it
        report = notebook_places.by_file_line(report)
    return cast("Callable[..., str]", module.render)(report, **options)
