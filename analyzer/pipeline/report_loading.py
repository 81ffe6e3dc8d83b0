"""Load stored reports and observations. Pure."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser
from typing import Any

from tcready.schema.codec import finite, from_json
from tcready.schema.enums import SCHEMA_VERSION, TcreadyError
from tcready.schema.observation import Observation
from tcready.schema.report import Report

LARGEST_COUNT, LARGEST = 1 << 64, 1e300
"""Upper bounds of whole numbers and of others in a report: sums and quotients of them stay finite."""
OUT_OF_RANGE = "a number that is too large, infinite or none"
DEEPEST = 100
"""Maximum nesting; a report nests about ten deep."""
EMBEDDED = "tcready-report"
"""The id of the script element that holds a page's report."""


def parse_report(text: str, named: str) -> Report | Observation:
    """Parse a JSON report, an HTML page of one, or a result of the standalone worker.

    Raises TcreadyError, with `named`, if it is none of these or was written by a newer tcready.
    """
    if text.lstrip("\ufeff \t\r\n").startswith("<"):
        page = _Page()
        page.feed(text)
        page.close()
        text = "".join(page.found)
        if not text:
            raise TcreadyError(f"{named} is an HTML page without a whole tcready report in it")
    try:
        data = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise TcreadyError(f"{named} is not valid JSON: {error}") from None
    return value_of(data, named)


def value_of(data: Any, named: str) -> Report | Observation:
    """Return the value in plain JSON data; raises as `parse_report` does."""
    kind: type[Report] | type[Observation] | None = None
    if isinstance(data, dict):
        version = data.get("schema_version")
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise TcreadyError(f"{named} is of a newer tcready (schema {version}): update this one")
        kind = Report if {"findings", "targets"} <= data.keys() else None
        kind = Observation if {"stages", "target"} <= data.keys() else kind
    if kind is None:
        raise TcreadyError(f"{named} is neither a report of tcready nor what its worker wrote")
    if why := unusable(data, kind):
        raise TcreadyError(f"{named} holds {why}")
    try:
        if kind is Observation:
            from_json(kind, finite(data))  # a number that is none is refused where a report could not have null for it
        return from_json(kind, data)
    except TcreadyError as error:
        raise TcreadyError(f"{named}: {error}") from None


def unusable(data: Any, kind: type) -> str:
    """Return what makes JSON data unusable: a number that cannot be summed and divided, or too deep nesting; empty
    if there is nothing. A worker may measure infinity; a report has null for it."""
    left = [(data, 0)]
    while left:
        item, depth = left.pop()
        if isinstance(item, (dict, list)):
            if depth == DEEPEST:
                return f"values that are nested more than {DEEPEST} deep"
            left += [(each, depth + 1) for each in (item.values() if isinstance(item, dict) else item)]
        elif isinstance(item, int):
            if abs(item) >= LARGEST_COUNT:
                return OUT_OF_RANGE
        elif isinstance(item, float) and not abs(item) < LARGEST:
            if kind is not Observation or math.isfinite(item):
                return OUT_OF_RANGE
    return ""


class _Page(HTMLParser):
    """Collects the text of the script element with the report."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "script" and ("id", EMBEDDED) in attrs

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.found.append(data)
