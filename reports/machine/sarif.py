"""SARIF 2.1.0 for code scanning (GitHub, Azure DevOps, editors)."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from tcready.reports.shared.anonymous_paths import in_address, outside, without_absolute_paths
from tcready.reports.shared.phrases import reflow
from tcready.reports.shared.wording import EFFECT_WORD, advice_on, findings_to_list, heaviest_first, rules_by_code
from tcready.schema.edit import Edit
from tcready.schema.report import Report
from tcready.schema.static import Finding, RuleText

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
SHOWN = 5000
"""Number of results that GitHub shows of one run, the most severe first (docs.github.com, SARIF support for code
scanning)."""
FINGERPRINT = "tcready/v1"


def render(report: Report, *, third_party: bool = False) -> str:
    """Return one run as JSON. Findings in installed packages are left out unless `third_party`: their files are in no
    diff.

    Of more than 5,000 results the most severe are kept, and the invocation says how many were left out.
    """
    shown, elsewhere = without_absolute_paths(report), outside(report)
    known = rules_by_code(shown)
    found = findings_to_list(shown, third_party)
    results = heaviest_first(found)[:SHOWN]
    ids = sorted({code_of_rule(finding) for finding in results})
    index = {code: position for position, code in enumerate(ids)}
    samples = {code_of_rule(finding): finding for finding in reversed(results)}
    notes = [f"{item.path}: {item.reason}" for item in shown.skipped] + list(shown.warnings)
    if len(found) > SHOWN:
        notes.append(f"{len(found) - SHOWN} lighter results are left out: {SHOWN} are shown at most")
    run = {
        "tool": {
            "driver": {
                "name": shown.tool.name,
                "version": shown.tool.version,
                "rules": [_rule(code, advice_on(samples[code], known), samples[code]) for code in ids],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": not shown.skipped,
                "toolExecutionNotifications": [{"level": "warning", "message": {"text": text}} for text in notes],
            }
        ],
        "results": [_result(finding, index, elsewhere) for finding in results],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, sort_keys=True) + "\n"


def code_of_rule(finding: Finding) -> str:
    """Return the rule's code; for what only a run showed an ID by its advice (`run-GB0170`), else by its effect."""
    return finding.rule or f"run-{finding.advice or finding.effect.replace('_', '-')}"


def _rule(code: str, rule: RuleText | None, finding: Finding) -> dict[str, Any]:
    effect = EFFECT_WORD[finding.effect]
    if rule is None:
        summary = f"A run under Dynamo showed what no rule predicts: {effect}."
        return {
            "id": code,
            "name": code.title().replace("-", ""),
            "shortDescription": {"text": summary},
            "help": {"text": summary},
            "properties": {"tags": ["torch.compile", effect]},
        }
    why, instead = reflow(rule.why), reflow(rule.instead)
    return {
        "id": code,
        "name": rule.name.title().replace("-", ""),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": why or rule.summary},
        "help": {"text": f"{why}\n\nUse instead: {instead}", "markdown": f"{why}\n\n**Use instead:** {instead}"},
        "properties": {"tags": ["torch.compile", effect]},
    }


def _result(finding: Finding, index: dict[str, int], elsewhere: Collection[str]) -> dict[str, Any]:
    """Return a result. `elsewhere`: files that are not below the source root."""

    def artifact(path: str) -> dict[str, str]:
        below = finding.origin == "own" and path not in elsewhere
        return {"uri": in_address(path)} | ({"uriBaseId": "%SRCROOT%"} if below else {})

    code = code_of_rule(finding)
    result: dict[str, Any] = {
        "ruleId": code,
        "ruleIndex": index[code],
        "level": finding.level,
        "message": {"text": finding.message},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": artifact(finding.path), "region": _region(finding)},
                "logicalLocations": [{"fullyQualifiedName": finding.symbol or finding.path}],
            }
        ],
        "partialFingerprints": {FINGERPRINT: finding.fingerprint},
        "properties": {
            "status": finding.status,
            "confidence": finding.confidence,
            "effect": finding.effect,
            "origin": finding.origin,
            "gbIds": list(finding.gb_ids),
        },
    }
    if finding.fix is not None and finding.fix.edits:
        by_path: dict[str, list[dict[str, Any]]] = {}
        for edit in finding.fix.edits:
            by_path.setdefault(edit.path, []).append(_replacement(edit))
        changes = [
            {"artifactLocation": artifact(path), "replacements": replacements} for path, replacements in by_path.items()
        ]
        result["fixes"] = [{"description": {"text": finding.fix.title}, "artifactChanges": changes}]
    return result


def _region(finding: Finding) -> dict[str, int]:
    """Return the span; in a notebook whole lines, because a line of the file is a quoted line of code."""
    lines = {"startLine": finding.line, "endLine": finding.end_line}
    if finding.cell is not None:
        return lines
    return {**lines, "startColumn": finding.column, "endColumn": max(finding.end_column, 1)}


def _replacement(edit: Edit) -> dict[str, Any]:
    region = {
        "startLine": edit.start_line,
        "startColumn": edit.start_column,
        "endLine": edit.end_line,
        "endColumn": edit.end_column,
    }
    return {"deletedRegion": region, "insertedContent": {"text": edit.new_text}}
