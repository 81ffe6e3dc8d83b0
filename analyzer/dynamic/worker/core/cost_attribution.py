"""Find which break causes a running frame to be outside of graphs."""

from __future__ import annotations

from tcready.dynamic.worker.core.frames import FrameNames
from tcready.dynamic.worker.measure.dispatch_counts import Owners, Site
from tcready.portable.events import to_schema
from tcready.portable.events.record import Record


def find_owners(record: Record, names: FrameNames) -> Owners:
    """Return, by what a running frame shows, the break that causes it to be outside of graphs; the first site of a
    frame owns it."""
    lines: dict[tuple[str, int], Site] = {}
    codes: dict[tuple[str, int, str], Site] = {}
    for event in record.breaks:
        found = to_schema.broken_at(event, names)
        if found is None:
            continue
        path, line, _ = found[0]
        site = (names.path(path), line)
        lines.setdefault((path, line), site)
        if event.skipped and event.place is not None:
            codes.setdefault((event.place.path, event.place.line, event.place.name), site)
    for skip in record.skips:
        place = skip.place
        if to_schema.is_silent(skip, names):
            codes.setdefault((place.path, place.line, place.name), (names.path(place.path), place.line))
    return Owners(lines, codes)


def compiled_again(record: Record) -> frozenset[tuple[str, int, str]]:
    """Return file, first line and name of each function, or resumed part of one, that was recompiled, or would have
    been without the limit."""
    return frozenset((event.place.path, event.place.line, event.place.name) for event in record.recompiles)
