"""The report as JSON: the interface for other tools, and for later versions of this one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tcready.schema.codec import as_json, finite
from tcready.schema.report import Report

if TYPE_CHECKING:
    from tcready.schema.comparison import Comparison


def render(report: Report | Comparison) -> str:
    """Return indented JSON with sorted keys and a trailing newline, for `from_json`.

    Pure ASCII, so that it survives any output encoding and any file name; not-a-number and infinity, which JSON cannot
    represent, become null. Lists keep the report's order.
    """
    return json.dumps(finite(as_json(report)), indent=2, sort_keys=True, allow_nan=False) + "\n"
