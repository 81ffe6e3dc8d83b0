"""Find a finding by the beginning of its fingerprint, and store the report of the last run for that."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from tcready.portable.target import Target
from tcready.schema.codec import as_json, from_json
from tcready.schema.enums import TcreadyError
from tcready.schema.report import Report
from tcready.schema.short_ids import named_by, short_names
from tcready.schema.static import Finding
from tcready.static.cache import Cache
from tcready.static.frontend import module_search
from tcready.static.frontend.file_cache import Disk
from tcready.static.units import holds

STORED = (".json", ".html", ".htm")
"""File name suffixes of reports; any other name is a target."""
SHOWN = 4
"""Number of findings that are named if a beginning is ambiguous."""


def are_stored(names: Sequence[str]) -> bool:
    """Return True if `names` are files of reports. Raises TcreadyError for a mix of reports and targets."""
    stored = [name for name in names if name.lower().endswith(STORED)]
    if stored and len(stored) < len(names):
        other = next(name for name in names if name not in stored)
        raise TcreadyError(f"{stored[0]} is a report and {other} a target: name the one or the other")
    return bool(stored)


def validate_fingerprint(text: str) -> None:
    """Raise TcreadyError for a text that cannot be the beginning of a fingerprint, such as the code of a rule."""
    if not re.fullmatch(r"[0-9a-fA-F]+(-[0-9]+)?", text.strip()):
        raise TcreadyError(
            f"{text!r} is not the ID of a finding: use the ID at the end of a finding's line, as in `tcready explain "
            "9f3c2a1`; for a rule, run `tcready rule TCR101`"
        )


def find_named(text: str, report: Report) -> Finding | None:
    """Return the finding with a fingerprint that begins with `text`, None if there is none. Raises TcreadyError if
    there are several."""
    findings = {finding.fingerprint: finding for finding in reversed(report.findings)}
    prints = named_by(text, findings) or sorted(
        {finding.fingerprint for finding in report.findings if named_by(text, finding.also)}
    )
    if not prints:
        return None
    if len(prints) > 1:
        short = short_names(findings)
        some = sorted(prints)[:SHOWN]
        words = [f"{short[each]} ({findings[each].path}:{findings[each].line})" for each in some]
        more = f" and {len(prints) - SHOWN} more" if len(prints) > SHOWN else ""
        raise TcreadyError(f"{text} is the beginning of {', '.join(words)}{more}: give more of it")
    return findings[prints[0]]


def keep(report: Report, root: Path, named: Sequence[str] = ()) -> None:
    """Store a report in the cache of a working folder, if it is of a run that showed something, of files elsewhere,
    or of models that were `named` (`FILE::Name`), which are read differently with their file. The folder itself is
    quickly read again. A failed run does not replace a successful one."""
    ran = any(target.coverage is not None or target.observation.trace is not None for target in report.targets)
    cache = Cache(root, "", Disk())
    apart = any("::" in name for name in named)
    if ran or apart or not all(_is_below(target.target, root) for target in report.targets):
        cache.keep_last(as_json(report if ran else _findings_only(report)), ran=ran)
    else:
        cache.forget_last_read()


def _findings_only(report: Report) -> Report:
    """Return a report without runs that showed nothing, except for what the source says about each model. For most
    models nothing was found, and `explain` does not need them."""
    tried = tuple(target for target in report.targets if target.was_run)
    return dataclasses.replace(report, targets=tried, predicted=())


def stored_report(root: Path, *, ran: bool = True) -> Report | None:
    """Return the stored report of the last run, or of sources alone; None if there is none that this tcready can
    read."""
    data = Cache(root, "", Disk()).last(ran=ran)
    try:
        return from_json(Report, data) if data is not None else None
    except (TcreadyError, LookupError, TypeError, ValueError):
        return None


def stored_stamp(root: Path) -> tuple[int, int] | None:
    """Return a value that changes whenever `stored_report` returns another report; None if there is none."""
    return Cache(root, "", Disk()).when_last()


def when_run(root: Path) -> str | None:
    """Return when the run that `stored_report` returns was stored, as `2026-01-31 14:05 UTC`; None if there is none."""
    found = stored_stamp(root)
    return f"{datetime.fromtimestamp(found[0] // 10**9, timezone.utc):%Y-%m-%d %H:%M} UTC" if found else None


def _is_below(target: str, root: Path) -> bool:
    """Return True if a target is read with the working folder."""
    named = Target.parse(target)
    return named.kind == "path" and holds(root, Path(os.path.normpath(root / named.place)))


def still_holds(report: Report, finding: Finding, root: Path) -> bool:
    """Return True if the finding's file has not changed since the report; files of installed packages that were not
    named are assumed unchanged."""
    if finding.origin == "third_party":
        return True
    then = next((source.sha256 for source in report.sources if source.path == finding.path), None)
    places = (folder / finding.path for folder in module_search.default_search_path(root))
    try:
        path = next(place for place in places if place.is_file())
        return then == hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, StopIteration):
        return False
