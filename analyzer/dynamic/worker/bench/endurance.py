"""Run one arm over its cases in turn, for a long time: detect growing memory, recompilations and slower calls."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from tcready.dynamic.worker.bench import process_memory
from tcready.dynamic.worker.bench.measurement_loop import (
    Lane,
    alive,
    any_given_up,
    compiler,
    first_calls,
    lanes_of,
    warm_up,
)
from tcready.dynamic.worker.bench.variants import Unmeasured
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import counted
from tcready.dynamic.worker.torch_internals.recording import recording
from tcready.portable.events.record import Record
from tcready.schema.bench import BenchAnswer, BenchRequest, CheckState, Soak, SoakPoint

STRETCHES = 20
WARM_SHARE = 0.15
"""The share of the seconds for the warm-up of all cases."""
MANY = 200
"""The least number of calls for a meaningful 99th percentile."""
LEAST_POINTS = 8
"""With fewer stretches, no trend can be determined."""
DRIFT = 0.10
"""Calls that get slower by more than this fraction fail a soak."""
FAST = 0.1
"""The share of the calls of a stretch that are its fastest. They must get slower too: other load on the machine slows
down the median, but seldom every call."""
LEAST_GROWTH = 4 << 20
"""The least growth in bytes in the second half of a soak: an allocator varies by less."""
STEADY = 0.2
"""Memory grows steadily if each step from one third of the second half to the next is at least this part of the growth:
a single jump or a sawtooth does not count."""


@dataclass
class _Stretch:
    """Calls of one stretch, by the name of their case."""

    times: dict[str | None, list[float]] = field(default_factory=dict)

    def part(self, part: float) -> dict[str | None, float]:
        """The time below which this part of the calls is."""
        return {case: sorted(times)[int(len(times) * part)] for case, times in self.times.items()}


def run(context: Context, request: BenchRequest, keep: Callable[[BenchAnswer], None]) -> BenchAnswer:
    """Run the soak. Raises Unmeasured if the arm cannot be called in any case."""
    # one arm: noted once, and not at each of many calls
    with context.journal.running(request.arms[0].name), compiler(context, request) as missing:
        lanes = lanes_of(context, request, missing)
        warm = Record()
        with recording(warm):
            first_calls(context, lanes, missing)
            for lane in alive(lanes):
                warm_up(context, lane, request, request.seconds * WARM_SHARE / len(alive(lanes)), missing)
        if not alive(lanes):
            raise Unmeasured(next((lane.found.error for lane in lanes), "there is no case"))
        gave_up = any_given_up(warm)
        return _long(context, request, lanes, gave_up, keep)


def _long(
    context: Context, request: BenchRequest, lanes: list[Lane], gave_up: bool, keep: Callable[[BenchAnswer], None]
) -> BenchAnswer:
    arm = request.arms[0].name
    order = random.Random(request.seed)  # noqa: S311  an order of measurements
    weights = {case.name: case.weight for case in context.cases}
    points: list[SoakPoint] = []
    medians: list[dict[str | None, float]] = []
    fastest: list[dict[str | None, float]] = []
    began = time.monotonic()
    for number in range(STRETCHES):
        context.journal.write("bench: soak, stretches", number, STRETCHES)
        until = began + request.seconds * (number + 1) / STRETCHES
        record, stretch = Record(), _Stretch()
        with recording(record):
            while (left := alive(lanes)) and (not stretch.times or time.monotonic() < until):
                (lane,) = order.choices(left, [weights[lane.found.case] for lane in left])
                _call(context, lane, stretch)
        if not stretch.times:
            break
        gave_up = gave_up or any_given_up(record)
        medians.append(stretch.part(0.5))
        fastest.append(stretch.part(FAST))
        points.append(_point(context, stretch, record, time.monotonic() - began))
        keep(_answer(arm, points, (medians, fastest), gave_up, _failed(lanes)))
        if time.monotonic() - began > request.seconds:
            break
    return _answer(arm, points, (medians, fastest), gave_up, _failed(lanes))


def _call(context: Context, lane: Lane, stretch: _Stretch) -> None:
    try:
        stretch.times.setdefault(lane.found.case, []).extend(lane.timed(context, 1))
    except Exception as error:
        stretch.times = {case: times for case, times in stretch.times.items() if times}
        lane.out(f"after the warm-up it raises {type(error).__name__}: {error}")


def _failed(lanes: list[Lane]) -> str:
    return next((f"{lane.name}: {lane.found.error}" for lane in lanes if lane.found.error), "")


def _point(context: Context, stretch: _Stretch, record: Record, seconds: float) -> SoakPoint:
    times = sorted(time for each in stretch.times.values() for time in each)
    return SoakPoint(
        round(seconds, 3),
        len(times),
        statistics.median(times),
        statistics.quantiles(times, n=100)[98] if len(times) >= MANY else None,
        process_memory.resident(),
        torch.cuda.memory_allocated(context.work.options.device) if process_memory.is_cuda(context) else None,
        sum(event.recompiled for event in record.recompiles),
    )


def _answer(
    arm: str,
    points: Sequence[SoakPoint],
    times: tuple[Sequence[dict[str | None, float]], Sequence[dict[str | None, float]]],
    gave_up: bool,
    failed: str,
) -> BenchAnswer:
    """Return the answer. `times`: for each stretch the medians, and the times of the fastest calls, by the name of
    their case."""
    soak = Soak(
        arm,
        points[-1].seconds if points else 0.0,
        sum(point.calls for point in points),
        tuple(points),
        sum(point.recompiles for point in points),
    )
    if len(points) >= LEAST_POINTS:
        soak = replace(soak, growth_bytes_per_hour=growth(points), drift=drift(times[0]))
    state, reason = judge_soak(soak, drift(times[1]), gave_up, failed)
    return BenchAnswer("soak", soak=replace(soak, state=state, reason=reason))


def judge_soak(soak: Soak, fastest: float | None, gave_up: bool = False, failed: str = "") -> tuple[CheckState, str]:
    """Return whether memory, recompilations and latency stay constant, and describe what does not.

    `fastest`: the drift of the fastest calls; `gave_up`: whether Dynamo reached its limit of recompilations;
    `failed`: the exception of a call.
    """
    half = soak.points[len(soak.points) // 2 :]
    late = sum(point.recompiles for point in half)
    wrong = [failed] if failed else []
    if len(soak.points) >= LEAST_POINTS:
        for what, sizes in (
            ("device memory", [point.device_bytes for point in half]),
            ("resident memory", [point.resident_bytes for point in half]),
        ):
            grown = steady_growth(sizes)
            if grown is not None:
                seconds = half[-1].seconds - half[0].seconds
                wrong.append(f"{what} grows steadily, by {_bytes(grown)} in the last {seconds:.0f} s")
                break
    if late:
        wrong.append(f"it still compiles again: {late} times in the second half")
    if gave_up:
        wrong.append("Dynamo reached its limit of recompilations, and what it gave up runs as eager code since")
    slower = soak.drift is not None and soak.drift > DRIFT
    if slower and fastest is not None and fastest > DRIFT:
        wrong.append(f"calls got {soak.drift:.0%} slower from the first quarter to the last")
    if wrong:
        return "fail", "; ".join(wrong)
    if len(soak.points) < LEAST_POINTS:
        return "not_measured", f"calls are too slow: {counted(len(soak.points), 'stretch')} of {STRETCHES}"
    early = soak.recompiles - late
    notes = [f"it compiled again {early} times in the first half"] if early else []
    if slower:
        notes.append(f"the median call got {soak.drift:.0%} slower, the fastest calls did not: others use the machine")
    more = f" ({'; '.join(notes)})" if notes else ""
    detail = f"in {soak.calls} calls of {soak.seconds:.0f} s memory did not grow steadily, and calls got no slower"
    return "pass", f"{detail}{more}"


def growth(points: Sequence[SoakPoint]) -> float | None:
    """Return the growth in bytes per hour, by a least-squares line through the second half of the points: of the device
    if it counts, else of resident memory; None if neither is known."""
    half = points[len(points) // 2 :]
    sizes = [p.device_bytes if p.device_bytes is not None else p.resident_bytes for p in half]
    known = [size for size in sizes if size is not None]
    if len(known) < len(half) or len(half) < 2:
        return None
    return statistics.linear_regression([point.seconds for point in half], known).slope * 3600


def steady_growth(sizes: Sequence[int | None]) -> float | None:
    """Return the bytes by which memory grew from the first third to the last; None if it did not grow steadily, or by too
    little.

    The lower medians of thirds are compared: a jump, a sawtooth and the noise of an allocator do not rise in both steps.
    """
    known = [size for size in sizes if size is not None]
    third = len(known) // 3
    if not third:
        return None
    first, middle, last = (
        statistics.median_low(part) for part in (known[:third], known[third : len(known) - third], known[-third:])
    )
    grown = last - first
    if grown < LEAST_GROWTH * (1 - third / len(known)):
        return None
    return grown if min(middle - first, last - middle) >= STEADY * grown else None


def drift(medians: Sequence[dict[str | None, float]]) -> float | None:
    """Return how much slower calls are in the last quarter of the stretches than in the first, as a fraction: the
    median over the cases, each by itself because their order is random. None if no case ran in both."""
    quarter = max(1, len(medians) // 4)
    first, last = medians[:quarter], medians[-quarter:]
    changes = []
    for case in dict.fromkeys(name for stretch in medians for name in stretch):
        before = [stretch[case] for stretch in first if case in stretch]
        after = [stretch[case] for stretch in last if case in stretch]
        if before and after:
            changes.append(statistics.median(after) / statistics.median(before) - 1)
    return statistics.median(changes) if changes else None


def _bytes(number: float) -> str:
    return f"{number / (1 << 20):.1f} MiB"
