"""Time all arms in turn, block by block, after their times have settled."""

from __future__ import annotations

import contextlib
import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from tcready.dynamic.worker.bench import process_memory
from tcready.dynamic.worker.bench.measurement_loop import (
    GAVE_UP,
    Lane,
    Missing,
    alive,
    compiler,
    count,
    error_of,
    first_calls,
    lanes_of,
    measured,
    warm_up,
    watched,
)
from tcready.dynamic.worker.bench.profile import add_profile
from tcready.dynamic.worker.core.calling import settle
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.measure.precision import bytes_of
from tcready.dynamic.worker.torch_internals.recording import recording
from tcready.portable.events.record import Record
from tcready.portable.quantities import time_text
from tcready.schema.bench import BenchAnswer, BenchRequest, MemoryUse
from tcready.schema.enums import EAGER
from torch.utils.benchmark import Timer

BLOCK_SECONDS, NOISY_SECONDS = 0.1, 1.0
"""The least duration of a block, if there is enough time for all blocks. The second one applies if the blocks of an arm
differ much."""
NOISY = 1.05
"""The ratio of the slowest to the fastest block of an arm and case above which blocks are made longer."""
BLOCK_WARM = 2
"""The number of calls that the Timer makes before it measures, for up to 200 calls; for more, one in 100."""
LEAST_ROUNDS = 3
"""The least number of blocks of each arm and case, however long they take."""
IN_A_ROW = 10
"""The number of single calls of one arm before the next arm has its turn. An extra call before them is not counted,
because its data is no longer in the processor's caches."""
TURN_SECONDS = 0.02
"""The overhead of a turn of single calls."""
WARM_SHARE, LATENCY_SHARE = 0.25, 0.25
"""The shares of the given seconds for warm-ups (without first calls), and for single calls."""


def run(context: Context, request: BenchRequest, keep: Callable[[BenchAnswer], None]) -> BenchAnswer:
    """Run first calls, warm-up, blocks and single calls. The answer grows with each step."""
    with compiler(context, request) as missing:
        lanes = lanes_of(context, request, missing)
        first_calls(context, lanes, missing)
        answer = BenchAnswer("steady", measured(lanes))
        keep(answer)
        began = time.monotonic()
        share = request.seconds * WARM_SHARE / max(len(alive(lanes)), 1)
        warmed: dict[str | None, int] = {}
        for lane in alive(lanes):
            if lane.arm is None:  # an arm of an earlier lane gave up meanwhile
                continue
            like = warmed.get(lane.found.case) if lane.drifts else None
            warm_up(context, lane, request, share, missing, like)
            if not lane.found.error:
                warmed.setdefault(lane.found.case, lane.found.warm_calls)
            _drop_eager(lanes)
            keep(replace(answer, measured=measured(lanes)))
        end = began + request.seconds
        left = max(0.0, end - time.monotonic())
        turns = len(alive(lanes)) * math.ceil(request.latencies / IN_A_ROW)
        expected = 1.2 * request.latencies * sum(lane.seconds for lane in alive(lanes)) + TURN_SECONDS * turns
        single = min(left * LATENCY_SHARE, expected)
        order = random.Random(request.seed)  # noqa: S311  an order of measurements

        def shuffled() -> list[Lane]:
            return order.sample(alive(lanes), len(alive(lanes)))

        until = end - single
        for number in range(request.blocks):
            if number >= LEAST_ROUNDS and time.monotonic() > until:
                break
            _plan_blocks(lanes, request.blocks - number, until - time.monotonic())
            context.journal.write("bench: blocks of calls", number, request.blocks)
            for lane in shuffled():
                _measure_or_drop(context, lane, missing, lambda lane: _block(context, lane))
            if request.seed == 0 and not context.journal.news:
                context.journal.news = first_answer(lanes, request.calls)
            keep(replace(answer, measured=measured(lanes)))
        context.journal.write("bench: single calls")
        until = max(end, time.monotonic() + single)
        while wanting := [lane for lane in shuffled() if len(lane.found.latencies) < request.latencies]:
            if time.monotonic() > until:
                break
            for lane in wanting:
                _measure_or_drop(context, lane, missing, lambda lane: _singly(context, lane, request.latencies))
            keep(replace(answer, measured=measured(lanes)))
        _drop_eager(lanes)
        if request.profile and process_memory.is_cuda(context):
            for lane in alive(lanes):
                _measure_or_drop(context, lane, missing, lambda lane: lane.add(memory=memory_of_call(context, lane)))
            for lane in alive(lanes):
                with contextlib.suppress(
                    Exception
                ):  # times are valid without it, and a separate process reports the error
                    add_profile(context, lane, share)
                keep(replace(answer, measured=measured(lanes)))
        return replace(answer, measured=measured(lanes))


def memory_of_call(context: Context, lane: Lane) -> MemoryUse:
    """Return the device memory of a warm call: that of the arm's model, that of what its first calls left, and that of
    the call. This is not the memory of the process, because arms in a process may share their weights."""
    assert lane.arm is not None
    lane.arm.rewind()
    process_memory.forget_device_peak(context)
    before = process_memory.allocated(context)
    lane.timed(context, 1)
    taken = (process_memory.device_peak(context) or before) - before
    return MemoryUse(device_steady=bytes_of(lane.arm.model) + lane.arm.retained_bytes + taken)


def first_answer(lanes: list[Lane], calls: int) -> str:
    """Describe the rounds so far: each arm and eager in the slowest case. `calls` calls are timed as one. Empty before
    there are LEAST_ROUNDS."""
    eager = [lane for lane in alive(lanes) if lane.found.arm == EAGER and len(lane.found.blocks) >= LEAST_ROUNDS]
    if not eager:
        return ""
    base = max(eager, key=lambda lane: statistics.median(lane.found.blocks)).found
    others = [lane.found for lane in alive(lanes) if lane.found.case == base.case and lane.found.arm != EAGER]
    parts = []
    for arm in others:
        rounds = sorted(one / two for one, two in zip(base.blocks, arm.blocks, strict=False))
        if len(rounds) >= LEAST_ROUNDS:
            middle = statistics.median(rounds)
            # As in the report: few rounds say little, so the interval is twice as wide as needed to hold them.
            wide = max(middle / rounds[0], rounds[-1] / middle) ** 2
            ratio = f"{middle:.2f} times ({middle / wide:.2f} to {middle * wide:.2f} in this process)"
            parts.append(f"{arm.arm} {time_text(statistics.median(arm.blocks))}, {ratio}")
    where = f" in {base.case}" if base.case else ""
    where += f" for {calls} calls" if calls > 1 else ""
    eager_text = f"eager {time_text(statistics.median(base.blocks))}{where}"
    return ", ".join([eager_text, *parts]) if parts else ""


def _drop_eager(lanes: list[Lane]) -> None:
    """Drop lanes that run eagerly although they should be compiled: they would measure neither."""
    for lane in alive(lanes):
        if lane.gave_up:
            lane.out(GAVE_UP)


def _plan_blocks(lanes: list[Lane], blocks: int, seconds: float) -> None:
    """Set the number of calls in the next block of each lane so that `blocks` blocks fit into `seconds`, if possible."""
    share = seconds / max(blocks * len(alive(lanes)), 1)
    is_noisy = any(_is_noisy(lane.found.blocks) for lane in alive(lanes))
    least = NOISY_SECONDS if is_noisy else BLOCK_SECONDS
    for lane in alive(lanes):
        once = max(statistics.median((lane.seconds, *lane.found.blocks)), 1e-7)
        fitting = max(1, int(min(share / once - BLOCK_WARM, 1e6)))
        calls = min(fitting, math.ceil(least / once))
        lane.add(block_calls=lane.calls_at_once(calls))
    for lane in alive(lanes):
        if lane.drifts:
            of_case = [each for each in alive(lanes) if each.found.case == lane.found.case]
            lane.add(block_calls=min(each.found.block_calls for each in of_case))


def _is_noisy(blocks: Sequence[float]) -> bool:
    return len(blocks) >= LEAST_ROUNDS and max(blocks) > NOISY * min(blocks)


def _measure_or_drop(context: Context, lane: Lane, missing: Missing, measure: Callable[[Lane], None]) -> None:
    """Run `measure`, unless the lane was dropped. If it raises, drop the lane but keep its earlier results."""
    if lane.arm is None:
        return
    try:
        measure(lane)
    except Exception as error:
        lane.out(error_of(error, context, missing))


def _block(context: Context, lane: Lane) -> None:
    calls = lane.found.block_calls
    record = Record()

    def clock() -> float:
        settle(context)
        return time.perf_counter()

    assert lane.arm is not None
    lane.arm.rewind()
    inputs = lane.inputs(calls + max(calls // 100, BLOCK_WARM))
    with recording(record), lane.arm.in_place():
        timer = Timer(
            "step(inputs)",
            timer=clock,
            globals={"step": lane.step, "inputs": inputs},
            num_threads=torch.get_num_threads(),
        )
        seconds = timer.timeit(calls).mean
    lane.add(blocks=(*lane.found.blocks, seconds))
    count(context, lane, record)


def _singly(context: Context, lane: Lane, wanted: int) -> None:
    assert lane.arm is not None
    lane.arm.rewind()
    calls = min(IN_A_ROW, wanted - len(lane.found.latencies))
    lane.add(latencies=(*lane.found.latencies, *watched(context, lane, calls + 1)[1:]))
