"""JUnit XML: a test suite for each file and each target that was run."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from tcready.reports.shared.anonymous_paths import without_absolute_paths
from tcready.reports.shared.phrases import ladder
from tcready.reports.shared.wording import VERDICT_WORD, code_of, findings_to_list, static_evidence
from tcready.schema.report import Report, TargetReport
from tcready.schema.static import Finding

FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


def render(report: Report, *, third_party: bool = False) -> str:
    """Return findings: levels error and warning fail, notes pass with their text; a stage that did not run is skipped.

    Findings in installed packages are left out unless `third_party`.
    """
    shown = without_absolute_paths(report)
    root = ET.Element("testsuites", name=shown.tool.name)
    files: dict[str, list[Finding]] = {source.path: [] for source in shown.sources}
    for finding in findings_to_list(shown, third_party):
        files.setdefault(finding.path, []).append(finding)
    for path, findings in sorted(files.items()):
        if findings or not shown.targets:
            _file(root, path, findings)
    for item in shown.skipped:
        suite = ET.SubElement(root, "testsuite", name=_clean(item.path), tests="1", errors="1", failures="0")
        case = ET.SubElement(suite, "testcase", name="read", classname=_clean(item.path))
        ET.SubElement(case, "error", message=_clean(item.reason))
    for target in shown.targets:
        if target.was_run:
            _target(root, target)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _file(root: ET.Element, path: str, findings: list[Finding]) -> None:
    failed = sum(finding.level != "note" for finding in findings)
    suite = ET.SubElement(
        root, "testsuite", name=_clean(path), tests=str(max(len(findings), 1)), failures=str(failed), errors="0"
    )
    if not findings:
        ET.SubElement(suite, "testcase", name="no findings", classname=_clean(path))
    for finding in findings:
        name = f"{code_of(finding)} at {finding.line}:{finding.column}"
        case = ET.SubElement(
            suite, "testcase", name=name, classname=_clean(path), file=_clean(path), line=str(finding.line)
        )
        text = "\n".join((finding.message, f"status: {finding.status}", *static_evidence(finding)))
        if finding.level == "note":
            ET.SubElement(case, "system-out").text = _clean(text)
        else:
            failure = ET.SubElement(case, "failure", message=_clean(finding.message), type=finding.effect)
            failure.text = _clean(text)


def _target(root: ET.Element, target: TargetReport) -> None:
    stages = ladder(target)
    suite = ET.SubElement(
        root,
        "testsuite",
        name=_clean(target.target),
        tests=str(len(stages)),
        failures=str(sum(stage.state == "fail" for stage in stages)),
        skipped=str(sum(stage.state == "not_run" for stage in stages)),
        errors="0",
    )
    properties = ET.SubElement(suite, "properties")
    verdict = f"{VERDICT_WORD[target.verdict]}: {target.verdict_reason}"
    ET.SubElement(properties, "property", name="verdict", value=_clean(verdict))
    for stage in stages:
        seconds = f"{stage.seconds or 0.0:.4f}"
        case = ET.SubElement(suite, "testcase", name=stage.stage, classname=_clean(target.target), time=seconds)
        if stage.state == "fail":
            ET.SubElement(case, "failure", message=_clean(stage.detail), type=stage.stage)
        elif stage.state == "not_run":
            ET.SubElement(case, "skipped", message=_clean(stage.detail))


def _clean(text: str) -> str:
    return FORBIDDEN.sub("�", text)
