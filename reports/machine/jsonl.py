"""Only the findings, each a JSON object on its own line, as in `findings` of the JSON report."""

from __future__ import annotations

import json

from tcready.reports.shared.wording import findings_to_list
from tcready.schema.codec import as_json, finite
from tcready.schema.report import Report


def render(report: Report, *, third_party: bool = False) -> str:
    """Return a line for each finding, by place; those in installed packages only with `third_party`. Pure ASCII."""
    return "".join(
        json.dumps(finite(as_json(finding)), sort_keys=True, allow_nan=False, separators=(",", ":")) + "\n"
        for finding in findings_to_list(report, third_party)
    )
