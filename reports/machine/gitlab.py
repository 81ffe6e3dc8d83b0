"""GitLab's code quality report: shown in the merge request."""

from __future__ import annotations

import json
from collections import Counter

from tcready.reports.shared.anonymous_paths import outside, without_absolute_paths
from tcready.reports.shared.wording import code_of, findings_to_list, visible
from tcready.schema.enums import Level
from tcready.schema.report import Report

SEVERITY: dict[Level, str] = {"error": "major", "warning": "minor", "note": "info"}


def render(report: Report, *, third_party: bool = False) -> str:
    """Return a JSON list with one entry for each finding; fingerprints are unique, as GitLab requires.

    Findings in installed packages are left out unless `third_party`: their files are in no diff. Those outside of the
    working folder always are: GitLab knows only paths in the repository.
    """
    shown, elsewhere = without_absolute_paths(report), outside(report)
    times: Counter[str] = Counter()
    entries = []
    for finding in findings_to_list(shown, third_party):
        if finding.path in elsewhere:
            continue
        times[finding.fingerprint] += 1
        again = times[finding.fingerprint]
        entries.append(
            {
                "check_name": code_of(finding),
                "description": f"{finding.message} ({finding.status.replace('_', ' ')})",
                "fingerprint": finding.fingerprint + (f"-{again}" if again > 1 else ""),
                "severity": SEVERITY[finding.level],
                "location": {
                    "path": visible(finding.path),  # a name may hold bytes that are no text
                    "lines": {"begin": finding.line, "end": finding.end_line},
                },
            }
        )
    return json.dumps(entries, indent=2, sort_keys=True) + "\n"
