"""Add the events of one compiled call to the observation."""

from __future__ import annotations

from dataclasses import replace

from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.portable.events import to_schema
from tcready.portable.events.record import RECOMPILE_LIMIT, Record
from tcready.schema.run import BreakSite


def add(context: Context, record: Record, case: Case, *, warm: bool) -> None:
    """Add the events of one call to the observation. `warm`: it was the third with the same inputs."""
    seen = context.journal.observation
    sites: tuple[BreakSite, ...] = to_schema.break_sites(record, context.names, case.name)
    skipped = to_schema.skipped_frames(record, context.names, case.name)
    known = {(frame.path, frame.line, frame.symbol, frame.case) for frame in seen.skipped_frames}
    fresh_skips = [item for item in skipped if (item.path, item.line, item.symbol, item.case) not in known]
    again = to_schema.recompiles(record, context.names, case.name, warm)
    context.journal.add(
        break_sites=to_schema.union_sites(seen.break_sites, sites),
        skipped_frames=(*seen.skipped_frames, *fresh_skips),
        recompiles=to_schema.join_recompiles((*seen.recompiles, *again)),
    )


def add_drawing(context: Context, record: Record, case: Case) -> None:
    """Add the events of calls in which only random numbers differ. A function that was recompiled up to the limit
    counts as recompiled on every call."""
    limited = {event.place for event in record.skips if event.gb_type == RECOMPILE_LIMIT}
    add(context, record, case, warm=False)
    places = {(context.names.path(place.path), place.line) for place in limited}
    context.journal.add(
        recompiles=tuple(
            replace(item, on_other_numbers=True)
            if (item.path, item.line) in places and item.case == case.name
            else item
            for item in context.journal.observation.recompiles
        )
    )
