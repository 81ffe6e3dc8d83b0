"""The display of a check in a notebook: a self-contained piece of HTML that affects nothing around it."""

from __future__ import annotations

from tcready.reports.bench import bench_view
from tcready.reports.html.document import environment
from tcready.reports.shared import wording
from tcready.reports.shared.anonymous_paths import without_absolute_paths
from tcready.reports.text.notebook_places import by_cell
from tcready.schema.report import Report

SHOWN = 20
"""Number of findings that are listed; the page has all."""


def render(report: Report) -> str:
    """Return verdict, coverage and plan of each target, then the findings in own code, the most severe first."""
    shown = by_cell(without_absolute_paths(report))
    own = wording.heaviest_first(wording.findings_to_list(shown, third_party=False))
    return (
        environment()
        .get_template("summary.html.jinja")
        .render(
            report=shown,
            findings=own[:SHOWN],
            left=len(own) - SHOWN,
            counts=wording.level_counts(own),
            installed=[finding for finding in shown.findings if finding.origin == "third_party"],
            ran=any(target.was_run for target in shown.targets),
            view=wording,
            gain=bench_view,
        )
    )
