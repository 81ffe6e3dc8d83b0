"""The report as one self-contained page without network requests, readable without JavaScript.

All texts of the report pass through jinja2's autoescape, with control characters escaped and absolute paths reduced to
file names; a content security policy allows only this module's own style and script.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape
from tcready.reports.html import highlighting
from tcready.reports.html.editor_links import editor_of
from tcready.reports.html.page_values import AROUND, MANY_DIFFS, SourceView, own_paths, page
from tcready.reports.machine import json_report
from tcready.reports.shared import phrases, ranks_wording, serving_wording, trace_wording, wording
from tcready.reports.shared.anonymous_paths import paths_in, without_absolute_paths
from tcready.reports.text.notebook_places import by_cell
from tcready.schema.report import Report

GB_PAGE = "https://meta-pytorch.github.io/compile-graph-break-site/gb/{}.html"
"""The address of Dynamo's page of a graph break ID (named in Dynamo's messages)."""


def render(report: Report, editor: str = "none", root: Path | None = None) -> str:
    """Return the page, with a trailing newline; it contains the report as JSON (`#tcready-report`).

    `editor` is a name of `EDITORS`, an address with `{path}`, `{line}` and `{column}`, or `none`: files of the report
    below `root`, the folder in which it was made, open in it. Such a page contains the name of that folder. Raises
    TcreadyError for another `editor`.
    """
    opens = editor_of(editor, root, paths_in(report))
    report = without_absolute_paths(report)
    shown = page(by_cell(report), opens)
    return laid_out("page.html.jinja", page=shown, data=embedded(lean(report, shown.sources)), many_diffs=MANY_DIFFS)


def laid_out(template: str, **values: Any) -> str:
    """Return a page from its template, with the style and the script of all pages."""
    style, script = _asset("page.css"), _asset("page.js")
    return (
        environment()
        .get_template(template)
        .render(
            style=Markup(style),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own file
            style_hash=_csp_hash(style),
            script_hash=_csp_hash(script),
            view=wording,
            trace_view=trace_wording,
            ranks_view=ranks_wording,
            serving_view=serving_wording,
            gb_link=_gb_link,
            **values,
        )
    )


@functools.cache
def environment() -> Environment:
    """Return the environment of all templates: every value is escaped, including control characters."""
    made = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        loader=FunctionLoader(_asset),
    )
    made.filters |= {
        "percent": phrases.percent,
        "number": phrases.number,
        "first_line": phrases.first_line,
        "duration": phrases.duration,
        "prose": _prose,
        "sentence": phrases.sentence,
        "coloured": _coloured,
    }
    return made


def lean(report: Report, shown: Iterable[SourceView] = ()) -> Report:
    """Return `report` with empty text for the lines that the page does not show: those of installed files that are
    not near a finding, and of files that `shown` contains in part. They are most of a page."""
    whole = own_paths(report) - {source.path for source in shown if source.left}
    wanted: dict[str, set[int]] = {}
    lengths = {source.path: source.text.count("\n") + source.text.count("\r") + 1 for source in report.sources}
    for found in report.findings:  # whatever a forged one says, no more lines than there are
        end = min(found.end_line + AROUND, lengths.get(found.path, 0))
        wanted.setdefault(found.path, set()).update(range(max(found.line - AROUND, 1), end + 1))
    for source in shown:
        wanted.setdefault(source.path, set()).update(line.number for part in source.parts for line in part)

    def visible(path: str, text: str) -> str:
        pieces = re.split(r"(\r\n|\r|\n)", text)  # lines, and between them their ends
        lines = wanted.get(path, set())
        return "".join(piece if at % 2 or at // 2 + 1 in lines else "" for at, piece in enumerate(pieces))

    return dataclasses.replace(
        report,
        sources=tuple(
            source if source.path in whole else dataclasses.replace(source, text=visible(source.path, source.text))
            for source in report.sources
        ),
    )


def embedded(report: Report) -> Markup:
    """Return the report's JSON for a script element: without `<`, `>` and `&`, so nothing can end it."""
    text = json.dumps(json.loads(json_report.render(report)), sort_keys=True, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - escaped for its context


def _asset(name: str) -> str:
    return resources.files("tcready.reports.html").joinpath(name).read_text(encoding="utf-8")


def _csp_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _finalize(value: Any) -> Any:
    """Convert the value of every expression of the template before it is escaped."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return wording.visible(value, keep="\n\t")
    return value


def _gb_link(gb_id: str) -> str:
    return GB_PAGE.format(gb_id.lower()) if re.fullmatch(r"GB[0-9]{4}", gb_id) else ""


def _prose(text: str) -> Markup:
    """Return escaped, reflowed text in which the parts between backticks are code."""
    parts = re.split(r"`([^`\n]+)`", wording.visible(phrases.reflow(text), keep="\n\t"))
    marked = Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )
    return marked.replace("\n", Markup("<br>"))


def _coloured(line: highlighting.Line) -> Markup:
    """Return the pieces of a line of source, escaped, each colored one in an element of its kind."""
    pieces = ((piece.kind, escape(wording.visible(piece.text, keep="\t"))) for piece in line)
    return Markup("".join(f'<i class="{kind}">{text}</i>' if kind else text for kind, text in pieces))  # noqa: S704
