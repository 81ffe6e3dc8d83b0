"""Findings alone, one line each, as linters print them."""

from __future__ import annotations

from tcready.reports.view import code_of, listed, visible
from tcready.schema import Report


def render(report: Report, *, third_party: bool = False) -> str:
    """`path:line:column: CODE level message (status)` for each finding, by place; those in installed packages only with
    `third_party`."""
    return "".join(
        f"{visible(finding.path)}:{finding.line}:{finding.column}: {visible(code_of(finding))} {finding.level} "
        f"{visible(finding.message)} ({finding.status.replace('_', ' ')})\n"
        for finding in listed(report, third_party)
    )
