"""Find the break that makes a running frame run outside of graphs."""

from __future__ import annotations

from tcready.dynamic.worker.frames import Names
from tcready.dynamic.worker.ops import Owners, Site
from tcready.events import narrate
from tcready.events.record import Record


def owners(record: Record, names: Names) -> Owners:
    """By what a running frame shows on whose account it is not in a graph; the first site of a frame owns it."""
    lines: dict[tuple[str, int], Site] = {}
    codes: dict[tuple[str, int, str], Site] = {}
    for event in record.breaks:
        found = narrate.broken_at(event, names)
        if found is None:
            continue
        path, line, _ = found[0]
        site = (names.path(path), line)
        lines.setdefault((path, line), site)
        if event.skipped and event.place is not None:
            codes.setdefault((event.place.path, event.place.line, event.place.name), site)
    for skip in record.skips:
        place = skip.place
        if narrate.is_silent(skip, names):
            codes.setdefault((place.path, place.line, place.name), (names.path(place.path), place.line))
    return Owners(lines, codes)


def compiled_again(record: Record) -> frozenset[tuple[str, int, str]]:
    """File, first line and name of each function, or resumed part of one, that was compiled again, or would have been but
    for the limit."""
    return frozenset((event.place.path, event.place.line, event.place.name) for event in record.recompiles)
