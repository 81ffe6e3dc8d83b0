"""SARIF 2.1.0: what code scanning reads (GitHub, Azure DevOps, editors)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from tcready.reports.paths import outside, without_absolute_paths
from tcready.reports.view import EFFECT_WORD, heaviest_first, listed, reflowed, rules_by_code
from tcready.schema import Finding, Report, RuleText

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
SHOWN = 5000
"""Results that GitHub shows of one run, the heaviest first (docs.github.com, SARIF support for code scanning)."""
FINGERPRINT = "tcready/v1"
HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


def render(report: Report, *, third_party: bool = False) -> str:
    """One run as JSON. Findings in installed packages are left out unless `third_party`: their files are in no diff.

    Of more than 5,000 results the heaviest are kept, and the invocation says how many were left out.
    """
    shown, elsewhere = without_absolute_paths(report), outside(report)
    known = rules_by_code(shown)
    found = listed(shown, third_party)
    kept = heaviest_first(found)[:SHOWN]
    ids = sorted({code_of_rule(finding) for finding in kept})
    index = {code: position for position, code in enumerate(ids)}
    samples = {code_of_rule(finding): finding for finding in reversed(kept)}
    notes = [f"{item.path}: {item.reason}" for item in shown.skipped] + list(shown.warnings)
    if len(found) > SHOWN:
        notes.append(f"{len(found) - SHOWN} lighter results are left out: {SHOWN} are shown at most")
    run = {
        "tool": {
            "driver": {
                "name": shown.tool.name,
                "version": shown.tool.version,
                "rules": [_rule(code, known.get(code), samples[code]) for code in ids],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": not shown.skipped,
                "toolExecutionNotifications": [
                    {"level": "warning", "message": {"text": text}} for text in notes
                ],
            }
        ],
        "results": [
            _result(finding, index, below=finding.origin == "own" and finding.path not in elsewhere)
            for finding in kept
        ],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, sort_keys=True) + "\n"


def code_of_rule(finding: Finding) -> str:
    """The rule's code; what a run alone showed has an id by its effect."""
    return finding.rule or f"run-{finding.effect.replace('_', '-')}"


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
    why, instead = reflowed(rule.why), reflowed(rule.instead)
    return {
        "id": code,
        "name": rule.name.title().replace("-", ""),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": why or rule.summary},
        "help": {
            "text": f"{why}\n\nUse instead: {instead}",
            "markdown": f"{why}\n\n**Use instead:** {instead}",
        },
        "properties": {"tags": ["torch.compile", effect]},
    }


def _result(finding: Finding, index: dict[str, int], *, below: bool) -> dict[str, Any]:
    """`below`: whether its file is below the source root."""
    code = code_of_rule(finding)
    result: dict[str, Any] = {
        "ruleId": code,
        "ruleIndex": index[code],
        "level": finding.level,
        "message": {"text": finding.message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": _artifact(finding.path, below),
                    "region": {
                        "startLine": finding.line,
                        "startColumn": finding.column,
                        "endLine": finding.end_line,
                        "endColumn": max(finding.end_column, 1),
                    },
                },
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
    replacements = list(_replacements(finding.fix.diff or "")) if finding.fix is not None else []
    if finding.fix is not None and replacements:
        change = {"artifactLocation": _artifact(finding.path, below), "replacements": replacements}
        result["fixes"] = [{"description": {"text": finding.fix.title}, "artifactChanges": [change]}]
    return result


def _artifact(path: str, below: bool) -> dict[str, str]:
    uri = quote(path, errors="surrogateescape")  # a name may hold bytes that are no text
    return {"uri": uri} | ({"uriBaseId": "%SRCROOT%"} if below else {})


def _replacements(diff: str) -> Iterator[dict[str, Any]]:
    """One for each hunk of a unified diff: all its old lines become all its new ones."""
    first, old = 0, 0
    new: list[str] = []

    def made() -> dict[str, Any]:
        # A region that ends at column 1 of the next line takes whole lines, ends included.
        region = {"startLine": first, "startColumn": 1, "endLine": first + old, "endColumn": 1}
        return {"deletedRegion": region, "insertedContent": {"text": "".join(new)}}

    for line in diff.splitlines(keepends=True):
        if match := HUNK.match(line):
            if first:
                yield made()
            first, new, old = int(match[1]), [], 0
        elif first and line[:1] in (" ", "+", "-"):
            if line[0] != "-":
                new.append(line[1:])
            old += line[0] != "+"
    if first:
        yield made()
