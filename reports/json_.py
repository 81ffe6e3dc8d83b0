"""The report as JSON: the contract that other tools, and later versions of this one, read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from tcready.schema import Comparison, Report, as_json


def render(report: Report | Comparison) -> str:
    """Indented JSON with sorted keys and a trailing newline; `from_json` reads it back.

    Pure ASCII, so that it survives any output encoding and any file name; not-a-number and infinity, for
    which JSON has no spelling, become null. Lists keep the report's order.
    """
    return json.dumps(finite(as_json(report)), indent=2, sort_keys=True, allow_nan=False) + "\n"


def finite(value: Any) -> Any:
    """A JSON value with null for not-a-number and infinity, which JSON cannot spell."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [finite(item) for item in value]
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    return value
