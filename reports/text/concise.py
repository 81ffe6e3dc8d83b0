"""Only the findings, one line each, as linters print them."""

from __future__ import annotations

from tcready.reports.shared.wording import code_of, findings_to_list, visible
from tcready.schema.report import Report
from tcready.schema.short_ids import short_names


def render(report: Report, *, third_party: bool = False) -> str:
    """Return `path:line:column: CODE level message (status) name` for each finding, by place; those in installed
    packages only with `third_party`. The name is the beginning of its fingerprint, for `tcready explain`."""
    names = short_names(finding.fingerprint for finding in report.findings)
    return "".join(
        f"{visible(finding.path)}:{finding.line}:{finding.column}: {visible(code_of(finding))} {finding.level} "
        f"{visible(finding.message)} ({finding.status.replace('_', ' ')}) {visible(names[finding.fingerprint])}\n"
        for finding in findings_to_list(report, third_party)
    )
