"""Choose the best of the measured placements. Pure; torch is not loaded."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tcready.portable.quantities import time_text
from tcready.schema.enums import PLACEMENT_WORDS
from tcready.schema.run import Placement, RegionTrial

SAME = 1e-6
NEAR = 0.01
"""Shares of operations that differ by less than this count as equal."""
NEAR_TIME = 0.05
"""Shares of time that differ by less than this count as equal: they vary by as much between runs."""
FASTER = 1.05
"""The ratio of call times from which a placement counts as slower."""
LEAST_ROUNDS = 3
"""With fewer rounds, times are not compared."""
HOT = 0.8
"""The share of the time that the smallest placement holds."""
SETTING = "torch._dynamo.config."
"""Prefix of a line of code that changes a setting."""


@dataclass(frozen=True)
class SteadyTimes:
    """Seconds of warm calls of several placements, measured in turn."""

    rounds: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By the code of a placement: seconds of one call in each round."""
    missing: str = ""
    """The reason why some or all have none."""

    def median(self, placement: Placement) -> float | None:
        """Return the median; None if there are too few rounds."""
        rounds = self.rounds.get(placement.code, ())
        return statistics.median(rounds) if len(rounds) >= LEAST_ROUNDS else None

    def ratios(self, one: Placement, other: Placement) -> list[float]:
        """Return the ratio of the seconds of `one` to those of `other`, round by round; empty if there are too few."""
        ours, theirs = (self.rounds.get(item.code, ()) for item in (one, other))
        found = [mine / its for mine, its in zip(ours, theirs, strict=False)]
        return found if len(found) >= LEAST_ROUNDS else []

    def is_faster(self, one: Placement, other: Placement) -> bool:
        """Return whether `one` is faster by more than 5 % in each round."""
        ratios = self.ratios(other, one)
        return bool(ratios) and min(ratios) > FASTER

    def is_slower(self, one: Placement, other: Placement) -> bool:
        """Return whether `one` is slower by more than 5 % in the median of the rounds."""
        ratios = self.ratios(one, other)
        return bool(ratios) and statistics.median(ratios) > FASTER


@dataclass(frozen=True)
class PlacementChoice:
    """The recommended placement."""

    placement: Placement
    reason: str
    """The captured parts, compared with other placements."""
    chosen_by: str
    """The criterion that chose among placements that capture the same."""


def choose(placements: Sequence[Placement], times: SteadyTimes | None = None) -> PlacementChoice | None:
    """Return the recommended placement; None if none is sound and has an operation in a graph.

    Of those that capture most, the simplest, unless another one is faster in each round; but the whole model rather
    than a placement that is slower. Compile times do not matter.
    """
    times = times or SteadyTimes()
    sound = _sound(placements)
    if not sound:
        return None
    alike = _most_captured(sound)
    best = alike[0]
    for item in alike[1:]:
        if times.is_faster(item, best):
            best = item
    whole = _whole_model(sound)
    if whole is not None and times.is_slower(best, whole):
        best = whole
    out = [item for item in placements if not item.sound]
    return PlacementChoice(best, _captured(best, out, sound, alike), _chosen_by(best, alike, whole, times))


def worth_timing(placements: Sequence[Placement]) -> list[Placement]:
    """Return the placements between which steady times decide: none, or at least two with different code."""
    sound = _sound(placements)
    if not sound:
        return []
    whole = _whole_model(sound)
    found = {item.code: item for item in [*_most_captured(sound), *([whole] if whole is not None else [])]}
    return [*found.values()] if len(found) > 1 else []


def _sound(placements: Sequence[Placement]) -> list[Placement]:
    return [item for item in placements if item.sound and item.share]


def _whole_model(sound: Sequence[Placement]) -> Placement | None:
    """Return the whole model in its simplest form."""
    return next((item for item in sound if item.name == "whole"), None)


def _most_captured(sound: Sequence[Placement]) -> list[Placement]:
    """The placements that capture the most operations and time, the simplest first: they are tried in that order."""
    near = _near(sound)
    best_time = max(_time(item, near) for item in near)
    return [item for item in near if _time(item, near) >= best_time - NEAR_TIME]


def _near(sound: Sequence[Placement]) -> list[Placement]:
    """Return those that capture the most operations. Never less than compiling the whole model captures."""
    most = max(item.share or 0.0 for item in sound)
    least = max((item.share or 0.0 for item in sound if item.name == "whole"), default=0.0)
    return [item for item in sound if (item.share or 0.0) >= max(most - NEAR, least)]


def _time(placement: Placement, others: Sequence[Placement]) -> float:
    """Return the share of the time of a placement. If placements have equally many operations in graphs, these are the
    same operations, and differences between their times are noise."""
    same = [item for item in others if abs((item.share or 0.0) - (placement.share or 0.0)) < SAME]
    return statistics.median(item.time_share or 0.0 for item in same)


def _captured(best: Placement, out: Sequence[Placement], sound: Sequence[Placement], alike: Sequence[Placement]) -> str:
    share = f"{best.share or 0.0:.1%} of the operations run in graphs"
    more = max((item for item in out if item.share), key=lambda item: item.share or 0.0, default=None)
    if more is not None and (more.share or 0.0) > (best.share or 0.0):
        share += f"; {PLACEMENT_WORDS[more.name]} would have {more.share or 0.0:.1%}, and is out: it {more.reason}"
    if len(sound) == 1:
        return f"{share}; no other placement that was tried works and captures anything"
    if best not in alike:
        return f"{share}; {_words(alike[0])} would have {alike[0].share or 0.0:.1%}, and is slower"
    if len(alike) > 1:
        return f"{share}, as with {_listed([item for item in alike if item is not best])}"
    if len(_near(sound)) > 1:
        return f"{share}, as with others, and it holds the most time"
    other = max((item for item in sound if item is not best), key=lambda item: item.share or 0.0)
    beside = "with" if _has_settings(other) else "without"
    settings = f" {beside} the settings" if other.name == best.name else ""
    next_best = f"{PLACEMENT_WORDS[other.name]}{settings} with {other.share or 0.0:.1%}"
    return f"{share}, the most of {len(sound)} placements that work; next is {next_best}"


def _listed(placements: Sequence[Placement]) -> str:
    return " and ".join(dict.fromkeys(map(_words, placements)))


def _chosen_by(best: Placement, alike: Sequence[Placement], whole: Placement | None, times: SteadyTimes) -> str:
    others = {item.code: item for item in [*alike, *([whole] if whole is not None else [])]}
    others.pop(best.code, None)
    own = times.median(best)
    timed = [item for item in others.values() if times.median(item) is not None]
    only = not any(item.code != best.code for item in alike)
    if own is None or not timed:
        if only:
            return "by what it captures"
        return "by simplicity: no time was measured" + (f": {times.missing}" if times.missing else "")
    beside = whole if whole in timed else min(timed, key=lambda item: times.median(item) or 0.0)
    assert beside is not None
    figures = f"{time_text(own)} against {time_text(times.median(beside) or 0.0)} of {_shortly(beside)}"
    if only and best in alike:
        return f"by what it captures: steady times are {figures}"
    if best is not alike[0] or times.is_slower(beside, best):
        return f"by measured steady time: {figures}"
    return f"by simplicity: measured steady times differ by too little, {figures}"


def _shortly(placement: Placement) -> str:
    """Return the code of a placement if it is one line."""
    first, *more = placement.code.splitlines()
    return _words(placement) if more else first.partition("  #")[0]


def _words(placement: Placement) -> str:
    return PLACEMENT_WORDS[placement.name] + (" with settings" if _has_settings(placement) else "")


def _has_settings(placement: Placement) -> bool:
    """Return whether the lines of a placement set more than what is compiled."""
    return SETTING in placement.code or "recompile_limit=" in placement.code


def quickest(placements: Sequence[Placement]) -> Placement | None:
    """Return the placement that compiles fastest among those within 0.05 of the best share of time."""
    timed = [item for item in placements if item.sound and item.share and item.time_share is not None]
    best = max((item.time_share or 0.0 for item in timed), default=0.0)
    return min(
        (item for item in timed if (item.time_share or 0.0) >= best - NEAR_TIME),
        key=lambda item: item.compile_seconds or 0.0,
        default=None,
    )


def smallest_of(proved: Sequence[RegionTrial]) -> list[RegionTrial]:
    """The regions with the fewest operations that hold 80 % of the time: one region, or the largest ones together."""
    options = [[trial] for trial in proved if (trial.time_share or 0.0) >= HOT]
    parts = sorted((trial for trial in proved if trial.name), key=lambda trial: trial.time_share or 0.0, reverse=True)
    some: list[RegionTrial] = []
    for trial in parts:
        some.append(trial)
        if sum(item.time_share or 0.0 for item in some) >= HOT:
            options.append(some)
            break
    return min(options, key=lambda option: sum(item.ops_share or 0.0 for item in option), default=[])
