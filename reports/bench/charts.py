"""The charts of a bench: distributions of calls, break-even of compiling, phases of cold starts, the course of a
soak."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeGuard

from tcready.portable.quantities import UNKNOWN, plain_number, size_text, time_text
from tcready.reports.bench.bench_view import CARRY_WORD, REST, pays_after, phases, time_interval
from tcready.reports.html.drawing import (
    LEFT,
    LETTER,
    PLOT,
    RIGHT,
    ROW,
    Bar,
    Chart,
    Curve,
    Dot,
    Label,
    Scale,
    across,
    key,
    named_row,
    up,
)
from tcready.schema.bench import Bench, BenchCase, Figure, Soak, SoakPoint
from tcready.schema.enums import EAGER

KINDS = 6
"""Number of colors in the style; the first is eager's."""
_ROOM_FOR_AN_INTERVAL = 130.0
_TAIL = 4.0
"""Slow calls of an arm are drawn up to this multiple of its median."""
_LEAST_RANGE = 0.05
"""Minimum range of an axis relative to the value, so that small changes over a soak do not look large."""


def case_charts(case: BenchCase) -> tuple[Chart, ...]:
    """Return the charts of one case: every block of every arm, single calls, and the time of n calls."""
    found = (_distribution(case), _single_calls(case), _break_even(case))
    return tuple(chart for chart in found if chart is not None)


def charts(bench: Bench) -> tuple[Chart, ...]:
    """Return the charts of all cases together: cold starts, and the soak."""
    soak = _soak(bench.soak) if bench.soak is not None else ()
    return tuple(chart for chart in (_cold_starts(bench), *soak) if chart is not None)


def _finite(figure: Figure | None) -> TypeGuard[Figure]:
    return figure is not None and all(map(math.isfinite, (figure.median, figure.low, figure.high)))


def _kinds(case: BenchCase) -> Mapping[str, str]:
    """Return the color of each arm."""
    others = (arm.arm for arm in case.arms if arm.arm != EAGER)
    return {EAGER: "s0"} | {arm: f"s{1 + at % (KINDS - 1)}" for at, arm in enumerate(others)}


# Where calls lie


def _distribution(case: BenchCase) -> Chart | None:
    """Draw a row for each process of each arm: a dot for each block, a bar over the middle half, a line at the
    median."""
    values = [value for arm in case.arms for blocks in arm.blocks for value in blocks if math.isfinite(value)]
    if not values:
        return None
    low, high = min(values), max(values)
    pad = (high - low or high or 1.0) * 0.04
    scale = Scale(0.0 if low < high / 2 else low - pad, high + pad, LEFT, RIGHT)
    kinds = _kinds(case)
    bars, dots, curves, labels = list[Bar](), list[Dot](), list[Curve](), list[Label]()
    rows = list[tuple[str, ...]]()
    y = 4.0
    for arm in (arm for arm in case.arms if any(arm.blocks)):
        kind = kinds[arm.arm]
        labels.append(named_row(arm.arm, y + 15))
        for process, given in enumerate(arm.blocks, 1):
            blocks = [block for block in given if math.isfinite(block)]
            if not blocks:
                continue
            middle = statistics.median(blocks)
            first, third = _middle_half(blocks)
            half = f"half of it {time_text(first)} to {time_text(third)}"
            title = f"{arm.arm}, process {process}: median {time_text(middle)}, {half}"
            left, at = scale.at(first), scale.at(middle)
            bars.append(Bar(left, y + 3, scale.at(third) - left, ROW - 6, f"{kind} soft", title))
            curves.append(Curve(((at, y + 2), (at, y + ROW - 2)), kind))
            dots += [Dot(scale.at(block), y + ROW / 2, kind) for block in blocks]
            ends = (min(blocks), middle, max(blocks))
            rows.append((arm.arm, str(process), str(len(blocks)), *map(time_text, ends)))
            y += ROW
        y += 8
    axis = across(scale, 0, y, time_text)
    return Chart(
        f"Calls in {case.case}",
        "A dot is one call, as the mean of a block of them; a row is a process, a bar the middle half of its blocks.",
        y + 24,
        tuple(bars),
        tuple(dots),
        (*axis.curves, *curves),
        (*axis.labels, *labels),
        ("arm", "process", "blocks", "least", "median", "most"),
        tuple(rows),
    )


def _middle_half(values: Sequence[float]) -> tuple[float, float]:
    if len(values) == 1:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def _single_calls(case: BenchCase) -> Chart | None:
    """Draw the cumulative distribution of call times, a line for each arm.

    The axis ends after 95 % of them, but not far beyond the median: a few slow calls would hide all others.
    """
    shown = [arm for arm in case.arms if len(arm.single_calls) > 1 and all(map(math.isfinite, arm.single_calls))]
    if not shown:
        return None
    low = min(arm.single_calls[0] for arm in shown)
    high = max(min(calls[-2], _TAIL * calls[len(calls) // 2]) for calls in (arm.single_calls for arm in shown))
    pad = (high - low or high or 1.0) * 0.04
    took = Scale(max(low - pad, 0.0), high + pad, LEFT, RIGHT)
    top = ROW * len(shown) + 6
    share = Scale(0.0, 1.0, top + PLOT, top)
    kinds = _kinds(case)
    named = key([(kinds[arm.arm], arm.arm) for arm in shown])
    curves, rows = list[Curve](), list[tuple[str, ...]]()
    for arm in shown:
        steps = len(arm.single_calls) - 1
        places = tuple(
            (took.at(seconds), share.at(at / steps))
            for at, seconds in enumerate(arm.single_calls)
            if seconds <= took.high
        )
        middle = arm.single_calls[steps // 2]
        curves.append(Curve(places, kinds[arm.arm], f"{arm.arm}: half of the calls within {time_text(middle)}"))
        quarters = (arm.single_calls[round(steps * part)] for part in (0, 0.25, 0.5, 0.75, 0.95, 1))
        rows.append((arm.arm, *map(time_text, quarters)))
    below, beside = across(took, top, top + PLOT, time_text), up(share, lambda part: f"{part:.0%}")
    return Chart(
        f"Single calls in {case.case}",
        "How many of the calls that were timed one by one took no longer than so much.",
        top + PLOT + 24,
        (),
        (),
        (*below.curves, *beside.curves, *named.curves, *curves),
        (*below.labels, *beside.labels, *named.labels),
        ("arm", "least", "25 %", "50 %", "75 %", "95 %", "most"),
        tuple(rows),
    )


# When compiling has paid


@dataclass(frozen=True)
class _Start:
    """An arm from a cold start, or from a warm cache."""

    name: str
    start: float
    """Seconds until its calls take no longer than warm ones."""
    call: float
    kind: str
    pays: str = UNKNOWN
    crossing: Figure | None = None

    @property
    def title(self) -> str:
        begins = f"{time_text(self.start)} and " if self.start else ""
        found = "pays after calls: " if self.crossing else "pays: "
        return f"{self.name}: {begins}{time_text(self.call)} a call" + (
            "" if self.pays == UNKNOWN else f", {found}{self.pays}"
        )


def _starts(case: BenchCase) -> Iterator[_Start]:
    """Return the starts, eager first."""
    kinds = _kinds(case)
    for arm in sorted(case.arms, key=lambda arm: arm.arm != EAGER):
        kind, cold, warm = kinds[arm.arm], arm.cold_seconds, arm.cold_warm_cache_seconds
        if not _finite(arm.seconds) or not (_finite(cold) or arm.arm == EAGER):
            continue
        call, crossing = arm.seconds.median, arm.break_even_calls
        start = cold.median if _finite(cold) else 0.0
        yield _Start(arm.arm, start, call, kind, pays_after(arm, crossing, cold), crossing)
        if _finite(warm) and arm.arm != EAGER:
            crossing = arm.break_even_warm_calls
            pays = pays_after(arm, crossing, warm)
            yield _Start(f"{arm.arm}, warm cache", warm.median, call, f"{kind} dashed", pays, crossing)


def _break_even(case: BenchCase) -> Chart | None:
    """Draw the time of n calls including the start, a line for each arm, and where it crosses eager's."""
    shown = tuple(_starts(case))
    if len(shown) < 2 or shown[0].name != EAGER or shown[0].call <= 0:
        return None
    eager = shown[0]
    crossings = [one.crossing.median for one in shown if _finite(one.crossing)]
    most = 1.6 * max([*crossings, 0.0]) or 1.6 * max(one.start for one in shown) / eager.call
    if most <= 0:
        return None
    top = ROW * len(shown) + 6
    highest = eager.start + most * eager.call
    calls, total = Scale(0.0, most, LEFT, RIGHT), Scale(0.0, highest, top + PLOT, top)
    named = key([(one.kind, one.title) for one in shown])
    curves, dots = list[Curve](), list[Dot]()
    for one in shown:
        if one.start <= total.high:
            curves.append(Curve(_inside(calls, total, one), one.kind, one.title))
        if _finite(one.crossing):
            x = calls.at(one.crossing.median)
            y = total.at(eager.start + one.crossing.median * eager.call)
            ends = (min(max(end, 0.0), most) for end in (one.crossing.low, one.crossing.high))
            dots.append(Dot(x, y, one.kind, big=True))
            curves.append(Curve(tuple((calls.at(end), y) for end in ends), f"{one.kind} wide"))
    below, beside = across(calls, top, top + PLOT, plain_number), up(total, time_text)
    return Chart(
        f"Time of n calls in {case.case}",
        "From the start until n calls are done. Where an arm's line goes below eager's, compiling has paid for itself.",
        top + PLOT + 40,
        (),
        tuple(dots),
        (*below.curves, *beside.curves, *named.curves, *curves),
        (*below.labels, *beside.labels, *named.labels, Label((LEFT + RIGHT) / 2, top + PLOT + 34, "calls", "middle")),
        ("arm", "cold start", "one call", "pays after calls"),
        tuple((one.name, time_text(one.start), time_text(one.call), one.pays) for one in shown),
    )


def _inside(calls: Scale, total: Scale, one: _Start) -> tuple[tuple[float, float], ...]:
    """Return the part of a line inside the plot."""
    last = min(calls.high, (total.high - one.start) / one.call) if one.call > 0 else calls.high
    return (calls.at(0.0), total.at(one.start)), (calls.at(last), total.at(one.start + one.call * last))


# Cold starts


@dataclass(frozen=True)
class _Cold:
    name: str
    figure: Figure
    parts: tuple[tuple[str, float], ...] = ()


def _cold_starts(bench: Bench) -> Chart | None:
    """Draw a bar for each start, divided if its phases are known; one that is the same in several cases is drawn
    once."""
    saved = (
        _Cold(f"{each.arm}, {CARRY_WORD[each.way]}", Figure(each.seconds, each.seconds, each.seconds, 1))
        for each in bench.carried
        if each.way != "cache_artifacts" and each.seconds is not None and not each.error
    )
    starts = tuple(dict.fromkeys((*(one for case in bench.cases for one in _cold(case)), *saved)))
    if not starts:
        return None
    scale = Scale(0.0, max(one.figure.median for one in starts) or 1.0, LEFT, RIGHT - _ROOM_FOR_AN_INTERVAL)
    named = tuple(dict.fromkeys(part for one in starts for part, _ in one.parts))
    kinds = {part: f"p{at % KINDS}" for at, part in enumerate(named)}
    bars, labels = list[Bar](), list[Label]()
    y = 4.0
    for one in starts:
        labels.append(named_row(one.name, y + 16))
        begun = 0.0
        for part, seconds in one.parts or (("", one.figure.median),):
            wide = scale.at(seconds) - LEFT
            title = f"{one.name}: {f'{part} ' if part else ''}{time_text(seconds)}"
            fits = len(part) * LETTER + 10 < wide
            bars.append(Bar(scale.at(begun), y, wide, ROW + 2, kinds.get(part, "plain"), title, part if fits else ""))
            begun += seconds
        end = scale.at(max(begun, one.figure.median))
        labels.append(Label(end + 8, y + 16, time_interval(one.figure)))
        y += ROW + 10
    axis = across(scale, 0, y, time_text)
    return Chart(
        "Cold starts",
        f"From an arm's first call until it is warm, parted by what torch names; {REST} is in no such part.",
        y + 24,
        tuple(bars),
        (),
        axis.curves,
        (*axis.labels, *labels),
        ("start", *named, "whole"),
        tuple(
            (one.name, *(_label(dict(one.parts).get(part), time_text) for part in named), time_interval(one.figure))
            for one in starts
        ),
    )


def _cold(case: BenchCase) -> Iterator[_Cold]:
    for arm in case.arms:
        if _finite(arm.cold_seconds):
            yield _Cold(arm.arm, arm.cold_seconds, phases(arm))
        if _finite(arm.cold_warm_cache_seconds):
            yield _Cold(f"{arm.arm}, warm cache", arm.cold_warm_cache_seconds)
        if _finite(arm.cold_carried_seconds):
            yield _Cold(f"{arm.arm}, carried artifacts", arm.cold_carried_seconds)


def _label(value: float | None, words: Callable[[float], str]) -> str:
    return UNKNOWN if value is None else words(value)


# A soak


_Series = tuple[str, Callable[[SoakPoint], float | None]]


def _soak(soak: Soak) -> tuple[Chart | None, ...]:
    """Draw its calls, with the numbers of all points, and its memory."""
    calls: tuple[_Series, ...] = (("p50", attrgetter("p50")), ("p99", attrgetter("p99")))
    resident: tuple[_Series, ...] = (("resident memory", attrgetter("resident_bytes")),)
    device: tuple[_Series, ...] = (("device memory", attrgetter("device_bytes")),)
    rows = tuple(
        (
            time_text(point.seconds),
            f"{point.calls:,}",
            time_text(point.p50),
            _label(point.p99, time_text),
            _label(point.resident_bytes, size_text),
            _label(point.device_bytes, size_text),
            str(point.recompiles),
        )
        for point in soak.points
    )
    headings = ("since the start", "calls", "p50", "p99", "resident memory", "device memory", "recompiles")
    return (
        _over_time(soak, f"Calls of {soak.arm} over the soak", calls, time_text, headings, rows),
        _over_time(soak, f"Resident memory of {soak.arm} over the soak", resident, size_text),
        _over_time(soak, f"Device memory of {soak.arm} over the soak", device, size_text),
    )


def _over_time(
    soak: Soak,
    title: str,
    series: Sequence[_Series],
    words: Callable[[float], str],
    headings: tuple[str, ...] = (),
    rows: tuple[tuple[str, ...], ...] = (),
) -> Chart | None:
    every = [(name, list(_unbroken([(point.seconds, of(point)) for point in soak.points]))) for name, of in series]
    found = [(name, stretches) for name, stretches in every if stretches]  # p99 needs many calls
    values = [value for _, stretches in found for stretch in stretches for _, value in stretch]
    if not values:
        return None
    low, high = min(values), max(values)
    room = max(high - low, abs(high) * _LEAST_RANGE) or 1.0
    top = ROW * len(found) + 6
    since = Scale(0.0, max([soak.seconds, *(point.seconds for point in soak.points)]) or 1.0, LEFT, RIGHT)
    scale = Scale(max(low - room / 2, 0.0), high + room / 2, top + PLOT, top)
    kinds = [f"s{number} dashed" if number else "s1" for number in range(len(found))]
    named = key([(kind, name) for kind, (name, _) in zip(kinds, found, strict=True)])
    curves, dots = list[Curve](), list[Dot]()
    for kind, (name, stretches) in zip(kinds, found, strict=True):
        for stretch in stretches:
            places = tuple((since.at(seconds), scale.at(value)) for seconds, value in stretch)
            curves.append(Curve(places, kind, f"{name}: {words(stretch[0][1])} to {words(stretch[-1][1])}"))
            dots += [Dot(x, y, kind) for x, y in places]
    below, beside = across(since, top, top + PLOT, time_text), up(scale, words)
    begins = words(scale.low) if scale.low else "0"
    return Chart(
        title,
        f"{words(low)} at the least, {words(high)} at the most; the axis begins at {begins}.",
        top + PLOT + 24,
        (),
        tuple(dots),
        (*below.curves, *beside.curves, *named.curves, *curves),
        (*below.labels, *beside.labels, *named.labels),
        headings,
        rows,
    )


def _unbroken(points: Sequence[tuple[float, float | None]]) -> Iterator[list[tuple[float, float]]]:
    """Yield runs of points that were measured."""
    run: list[tuple[float, float]] = []
    for seconds, value in points:
        if value is not None and math.isfinite(value):
            run.append((seconds, value))
        elif run:
            yield run
            run = []
    if run:
        yield run
