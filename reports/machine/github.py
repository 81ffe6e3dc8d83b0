"""Workflow commands: GitHub shows each as an annotation on the line of a pull request."""

from __future__ import annotations

from tcready.portable.target import Target
from tcready.reports.shared.anonymous_paths import outside, without_absolute_paths
from tcready.reports.shared.wording import code_of, findings_to_list, heaviest_first
from tcready.schema.enums import Level
from tcready.schema.report import Report
from tcready.schema.static import Finding

COMMAND: dict[Level, str] = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: Report, *, third_party: bool = False) -> str:
    """Return unreadable files, failed runs, then the findings, most severe first; GitHub shows ten of each kind.

    Findings in installed packages are left out unless `third_party`. They, and files outside of the working folder,
    have no location, because they are in no diff.
    """
    shown = without_absolute_paths(report)
    lines = [f"::error file={_property(Target.place_in(item.path))}::{_data(item.reason)}" for item in shown.skipped]
    lines += [
        f"::error title=tcready::{_data(target.target)}: {stage.stage} failed: {_data(stage.detail)}"
        for target in shown.targets
        for stage in target.stages
        if stage.state == "fail" and target.verdict == "unknown"
    ]
    elsewhere = outside(report)
    lines += [
        _command(finding, finding.origin == "own" and finding.path not in elsewhere)
        for finding in heaviest_first(findings_to_list(shown, third_party))
    ]
    return "".join(f"{line}\n" for line in lines)


def _command(finding: Finding, placed: bool) -> str:
    text = f"{_data(finding.message)} ({finding.status.replace('_', ' ')})"
    if not placed:
        title = _property(f"{code_of(finding)} {finding.name}")
        return f"::{COMMAND[finding.level]} title={title}::{_data(finding.path)}:{finding.line}: {text}"
    place = {
        "file": finding.path,
        "line": str(finding.line),
        "endLine": str(finding.end_line),
        "col": str(finding.column),
        "endColumn": str(finding.end_column),
        "title": f"{code_of(finding)} {finding.name}",
    }
    # columns say something of one line alone, and nothing of a line of code in quotes
    if finding.line != finding.end_line or finding.cell is not None:
        del place["col"], place["endColumn"]
    properties = ",".join(f"{key}={_property(value)}" for key, value in place.items())
    return f"::{COMMAND[finding.level]} {properties}::{text}"


def _data(text: str) -> str:
    """Escape the text after the command as the runner's toolkit does."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
