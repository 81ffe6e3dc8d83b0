"""Which of the placements that were measured serves best. Pure; torch is not loaded."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tcready.schema.run import Placement, RegionTrial
from tcready.schema.words import PLACEMENT_WORDS

SAME = 1e-6
NEAR = 0.01
"""Shares of operations this close count as equal."""
NEAR_TIME = 0.05
"""How far below the best share of time the quickest placement may be."""
QUICKER = 0.75
SAVED = 0.5
"""Compile seconds are less than others if they are below this part of them and at least so many seconds below: the same
lines differ by as much from run to run."""
HOT = 0.8
"""The share of the time that the smallest placement holds."""
SETTING = "torch._dynamo.config."
"""How a line of code begins that makes a setting."""


def chosen(placements: Sequence[Placement]) -> tuple[Placement, str] | None:
    """The recommended placement and why; None if none is sound and has an operation in a graph.

    Most operations; of those within 0.01 the most time; then the least compile seconds. Never less than what compiling
    the whole model captures, if that is sound.
    """
    sound = [item for item in placements if item.sound and item.share]
    if not sound:
        return None
    most = max(item.share or 0.0 for item in sound)
    least = max((item.share or 0.0 for item in sound if item.name == "whole"), default=0.0)
    near = [item for item in sound if (item.share or 0.0) >= max(most - NEAR, least)]
    best_time = max(_time(item, near) for item in near)
    timely = [item for item in near if _time(item, near) >= best_time - NEAR]
    best = timely[0]
    for item in timely[1:]:
        ours, others = item.compile_seconds or 0.0, best.compile_seconds or 0.0
        if ours < QUICKER * others and others - ours >= SAVED:
            best = item
    return best, _why(best, [item for item in placements if not item.sound], sound, near, timely)


def _time(placement: Placement, others: Sequence[Placement]) -> float:
    """Its share of the time. As many operations in graphs are the same ones: what their times differ by is noise."""
    same = [item for item in others if abs((item.share or 0.0) - (placement.share or 0.0)) < SAME]
    return statistics.median(item.time_share or 0.0 for item in same)


def _why(
    best: Placement,
    out: Sequence[Placement],
    sound: Sequence[Placement],
    near: Sequence[Placement],
    timely: Sequence[Placement],
) -> str:
    share = f"{best.share or 0.0:.1%} of the operations run in graphs"
    more = max((item for item in out if item.share), key=lambda item: item.share or 0.0, default=None)
    if more is not None and (more.share or 0.0) > (best.share or 0.0):
        share += (
            f"; {PLACEMENT_WORDS[more.name]} would have {more.share or 0.0:.1%}, and is out: it {more.reason}"
        )
    if len(sound) == 1:
        return f"{share}; no other placement that was tried works and captures anything"
    if len(near) == 1:
        other = max((item for item in sound if item is not best), key=lambda item: item.share or 0.0)
        beside = "with" if SETTING in other.code else "without"
        settings = f" {beside} the settings" if other.name == best.name else ""
        next_best = f"{PLACEMENT_WORDS[other.name]}{settings} with {other.share or 0.0:.1%}"
        return f"{share}, the most of {len(sound)} placements that work; next is {next_best}"
    if len(timely) == 1:
        return f"{share}, as with others, and it holds the most time"
    if any((item.compile_seconds or 0.0) > (best.compile_seconds or 0.0) for item in timely):
        return f"{share}, as with others, and of these it is the quickest to compile or the simplest"
    return f"{share}, as with others, and it is the simplest"


def quickest(placements: Sequence[Placement]) -> Placement | None:
    """The quickest to compile among those within 0.05 of the best share of time."""
    timed = [item for item in placements if item.sound and item.share and item.time_share is not None]
    best = max((item.time_share or 0.0 for item in timed), default=0.0)
    return min(
        (item for item in timed if (item.time_share or 0.0) >= best - NEAR_TIME),
        key=lambda item: item.compile_seconds or 0.0,
        default=None,
    )


def smallest_of(proved: Sequence[RegionTrial]) -> list[RegionTrial]:
    """Of regions that lie in none of each other, those with the fewest operations that hold 80 % of the time."""
    options = [[trial] for trial in proved if (trial.time_share or 0.0) >= HOT]
    parts = sorted(
        (trial for trial in proved if trial.name), key=lambda trial: trial.time_share or 0.0, reverse=True
    )
    some: list[RegionTrial] = []
    for trial in parts:
        some.append(trial)
        if sum(item.time_share or 0.0 for item in some) >= HOT:
            options.append(some)
            break
    return min(options, key=lambda option: sum(item.ops_share or 0.0 for item in option), default=[])
