"""A sweep as static pages: one of all models with search and paging, and one of each model."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tcready.reports.html import document
from tcready.reports.html.editor_links import Editor, WithoutSource, editor_of
from tcready.reports.shared.anonymous_paths import paths_in, without_absolute_paths
from tcready.reports.sweep import sweep_view
from tcready.reports.text import notebook_places
from tcready.schema.capture_failures import CaptureFailures
from tcready.schema.report import Report, TargetReport
from tcready.schema.static import Finding
from tcready.schema.sweep import Sweep, SweptModel, SweptSite

SHOWN_MODELS = 12
"""Number of models named with a site, before the rest is folded."""
LONGEST = 60
"""Maximum characters of a target in the name of its page."""
LARGEST = 1e300
Cell = tuple[str, str]
"""The text of a cell, and its sort key."""


@dataclass(frozen=True)
class PageRow:
    """One row of the table of models."""

    model: SweptModel
    word: str
    cells: tuple[Cell, ...]
    """Without the first, which has the name of the model."""
    href: str
    """The link to the model's own page; empty if there is none."""
    why: str
    """In a sentence, if no count in the row shows it; else empty."""


@dataclass(frozen=True)
class SiteRow:
    """One row of the table of sites."""

    site: SweptSite
    models: tuple[tuple[str, str], ...]
    """Names and pages of the first models that break there."""
    left: int


@dataclass(frozen=True)
class SweepPage(WithoutSource):
    """The content of the page of all models."""

    report: Report
    sweep: Sweep
    columns: tuple[str, ...]
    rows: tuple[PageRow, ...]
    sites: tuple[SiteRow, ...]
    changes: tuple[tuple[str, str, str], ...]
    """Name, page, and differences from the last sweep."""
    editor: Editor | None
    many: bool = False


def render(report: Report, editor: str = "none", root: Path | None = None, folder: str = "") -> str:
    """Return the page of all models, with a trailing newline. `editor` and `root` are those of a report's page; the
    pages of `pages` are linked in the folder `folder` beside it.

    Raises TcreadyError for an unknown `editor`; ValueError if the report is not one of a sweep.
    """
    if report.sweep is None:
        raise ValueError("the report is not one of a sweep")
    opens = editor_of(editor, root, paths_in(report))
    names = page_names(report.sweep) if folder else {}
    links = {target: f"./{quote(folder)}/{quote(name)}" for target, name in names.items()}
    shown = notebook_places.by_cell(without_absolute_paths(report))
    return document.laid_out("sweep.html.jinja", page=_page(report, shown, links, opens), swept=sweep_view)


def page_names(sweep: Sweep) -> dict[str, str]:
    """Return the file of each model's page: the same in each sweep, so that links remain valid."""
    return {each.target: _file_name(each.target) for each in sweep.models}


def pages(report: Report) -> Iterator[tuple[str, Report]]:
    """Return name of the file and report of each model: all its runs, and the findings in their code.

    A finding belongs to a model if it is predicted for it, or is on a line at which it breaks or that it ran.
    """
    assert report.sweep is not None
    by_path: dict[str, list[Finding]] = defaultdict(list)
    by_print: dict[str, Finding] = {}
    for finding in report.findings:
        by_path[finding.path].append(finding)
        by_print |= dict.fromkeys((finding.fingerprint, *finding.also), finding)
    predicted = defaultdict(list)
    for static in report.predicted:
        predicted[static.target].append(static)
    targets: dict[str, list[TargetReport]] = defaultdict(list)
    for target in report.targets:
        targets[target.target].append(target)
    sources = {source.path: source for source in report.sources}
    for name, file in page_names(report.sweep).items():
        of_model = targets.get(name, [])
        found = {
            id(by_print[fingerprint]): by_print[fingerprint]
            for static in predicted[name]
            for module in static.modules
            for fingerprint in module.breaks
            if fingerprint in by_print
        }
        lines = _lines(of_model)
        for path in lines.keys() & by_path.keys():
            ranges = lines[path]
            found |= {
                id(each): each for each in by_path[path] if any(first <= each.line <= last for first, last in ranges)
            }
        findings = tuple(each for each in report.findings if id(each) in found)
        codes = {each.rule for each in findings}
        paths = {each.path for each in findings} | lines.keys()
        yield (
            file,
            dataclasses.replace(
                report,
                findings=findings,
                targets=tuple(of_model),
                rules=tuple(rule for rule in report.rules if rule.code in codes),
                sources=tuple(sources[path] for path in sorted(paths & sources.keys())),
                skipped=tuple(each for each in report.skipped if each.path == name),
                warnings=(),
                static_warnings=(),
                statistics={},
                predicted=tuple(predicted[name]),
                hidden=(),
                silenced=(),
                unused=(),
                sweep=None,
            ),
        )


def _lines(targets: list[TargetReport]) -> dict[str, set[tuple[int, int]]]:
    """Return the ranges of lines that runs of a model executed, and the lines at which it broke, by path."""
    found: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for target in targets:
        for each in target.observation.executed:
            found[each.path].update(each.ranges)
        troubles = CaptureFailures.of(target.observation)
        for item in troubles.breaks:
            found[item.first.path].add((item.first.line, item.first.line))
        for frame in troubles.frames:
            found[frame.path].add((frame.line, frame.line))
    return found


def _file_name(target: str) -> str:
    slug = re.sub(r"[^\w.-]+", "-", target.replace("::", "."), flags=re.ASCII).strip("-.")[-LONGEST:]
    return f"{slug}-{hashlib.sha256(target.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}.html"


def _page(named: Report, shown: Report, links: Mapping[str, str], editor: Editor | None) -> SweepPage:
    """Return the page. `named` has the targets as the user named them, `shown` the same without paths of the
    machine."""
    assert named.sweep is not None
    assert shown.sweep is not None
    sweep = shown.sweep
    pairs = list(zip(named.sweep.models, sweep.models, strict=True))
    link_of = {id(shown_model): links.get(model.target, "") for model, shown_model in pairs}
    by_shown_name = {shown_model.target: link_of[id(shown_model)] for _, shown_model in pairs}
    table = sweep_view.laid_out(sweep)
    return SweepPage(
        report=shown,
        sweep=sweep,
        columns=table.columns,
        rows=tuple(
            PageRow(
                each, sweep_view.word(each.outcome), _sorted_cells(each, table), link_of[id(each)], sweep_view.why(each)
            )
            for each in sweep_view.by_urgency(sweep.models)
        ),
        sites=tuple(
            SiteRow(
                site,
                tuple((name, by_shown_name.get(name, "")) for name in site.models[:SHOWN_MODELS]),
                max(len(site.models) - SHOWN_MODELS, 0),
            )
            for site in sweep.sites
        ),
        changes=tuple((name, by_shown_name.get(name, ""), text) for name, text in sweep_view.changes(sweep)),
        editor=editor,
    )


def _sorted_cells(each: SweptModel, table: sweep_view.SweepTable) -> tuple[Cell, ...]:
    """Return the cells except the first, each with the number that it is sorted by; texts are sorted as text."""
    found = each.outcome
    numbers = {
        "verdict": sweep_view.ORDER.index(sweep_view.word(found)),
        "of ops": found.share,
        "of time": each.time_share,
        "own sites": found.own_sites,
        "third-party": found.third_party_sites,
        "compile": each.compile_seconds,
        "gain": each.gain,
    }
    columns, shown = table.columns[1:], table.cells(each)[1:]
    return tuple(
        (text, text if name not in numbers else _key(numbers[name])) for name, text in zip(columns, shown, strict=True)
    )


def _key(value: float | None) -> str:
    """Return the sort key. Unknown values come first."""
    return "-1" if value is None else f"{max(min(value, LARGEST), -LARGEST):.6g}"
