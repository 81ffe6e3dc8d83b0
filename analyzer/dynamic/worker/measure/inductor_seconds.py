"""Measure how long placements take to compile with Inductor, and compare the warm calls of several placements."""

from __future__ import annotations

import contextlib
import random
import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tcready.dynamic.worker.bench import machine_load
from tcready.dynamic.worker.bench.measurement_loop import GAVE_UP, Lane, alive, first_calls, lanes_of, watched
from tcready.dynamic.worker.core import budget
from tcready.dynamic.worker.core.calling import call, compile_error
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import one_line
from tcready.dynamic.worker.core.toolchain import cache_folder, compiler_cache, missing_toolchain
from tcready.dynamic.worker.plan.choice import LEAST_ROUNDS, SteadyTimes
from tcready.dynamic.worker.plan.placements import fresh, steady_seconds
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.compile_calls import execute, isolates_recompiles
from tcready.schema.bench import Arm, BenchRequest
from tcready.schema.run import Placement

ROUNDS = 6
"""The number of rounds, in which each placement has a block of calls, if SECONDS suffice."""
SECONDS = 4.0
"""Seconds for all blocks together."""
WARM_CALLS = 5
"""Calls of each placement before the rounds: they determine the number of calls in a block."""
MOST_CALLS = 1000
"""The most calls in a block."""


@dataclass(frozen=True)
class InductorClock:
    """Compiles every placement into an empty cache; `made` holds what Inductor compiled."""

    made: str

    @staticmethod
    @contextlib.contextmanager
    def of(context: Context) -> Iterator[InductorClock | None]:
        """Return a clock; None if Inductor cannot compile for the device."""
        with cache_folder(context) as made:
            missing = missing_toolchain(context.work.options.device, context)
            yield None if missing else InductorClock(made)

    def timed(self, context: Context, placement: Placement) -> Placement:
        """Return the placement with the seconds of Inductor, from an empty cache; an exception of Inductor excludes the
        placement."""
        cold = steady = 0.0
        try:
            for case in context.cases:
                with cache_folder(context) as folder, compiler_cache(context, folder), fresh(context) as model:
                    placed = execute(placement.code, model, None)
                    started = time.perf_counter()
                    call(context, placed, case)
                    first = time.perf_counter() - started
                    call(context, placed, case)
                    warm = steady_seconds(context, placed, case)
                    with contextlib.suppress(OSError):  # then it is compiled again
                        shutil.copytree(folder, self.made, dirs_exist_ok=True)
                cold += max(0.0, first - warm)
                steady += warm
        except Exception as error:
            return excluded(placement, compile_error(error, context))
        return replace(placement, compile_seconds=round(cold, 3), steady_seconds=round(steady, 6), backend="inductor")

    def in_turn(self, context: Context, placements: Sequence[Placement]) -> SteadyTimes:
        """Return the times of warm calls, block by block in turn; or why they are not measured. In training a call is a
        training step."""
        if why := _not_now(context, placements):
            return SteadyTimes(missing=why)
        try:
            dynamo.reset()
            with compiler_cache(context, self.made):
                found = _in_turn(context, [placement.code for placement in placements])
            busy = _busy(context)
            return SteadyTimes(missing=busy) if busy else found
        except Exception as error:
            return SteadyTimes(missing=one_line(error, context.work.root))
        finally:
            dynamo.reset()


def excluded(placement: Placement, failure: str) -> Placement:
    """Return a placement that raises with Inductor, so that it is not recommended."""
    return replace(placement, sound=False, reason=f"raised with Inductor: {failure}", backend="inductor")


def _not_now(context: Context, placements: Sequence[Placement]) -> str:
    """Return why times of these placements would be meaningless or too expensive; empty if they are measured."""
    if context.work.options.processes:
        return "the run has several processes"
    if not isolates_recompiles():
        return "this torch cannot keep several compiled models apart"
    seconds = context.work.options.timeout - (time.perf_counter() - context.journal.began)
    left = budget.left(context)
    needed = SECONDS + sum(placement.compile_seconds or 0.0 for placement in placements)
    if min(seconds, left if left is not None else seconds) < needed:
        return "too little of the time for this run was left"
    return _busy(context)


def _busy(context: Context) -> str:
    """Return a message if others use the machine: threads of a call that wait for each other then take several times as
    long in one placement as in another. Empty if they do not."""
    used = machine_load.others(context)
    return f"the machine was busy: {used}" if used else ""


def _in_turn(context: Context, codes: Sequence[str]) -> SteadyTimes:
    arms = {f"placement {number}": code for number, code in enumerate(codes, 1)}
    request = BenchRequest("steady", tuple(Arm(name, code) for name, code in arms.items()))
    lanes = lanes_of(context, request, None)
    first_calls(context, lanes, None)
    _rounds(context, lanes)
    own = {code: [lane for lane in lanes if lane.found.arm == name] for name, code in arms.items()}
    weights = [case.weight for case in context.cases]
    errors = dict.fromkeys(lane.found.error for lane in lanes if lane.found.error)
    return SteadyTimes(
        {
            code: _mean_calls(of_code, weights)
            for code, of_code in own.items()
            if not any(lane.found.error for lane in of_code)
        },
        "; ".join(errors),
    )


def _rounds(context: Context, lanes: list[Lane]) -> None:
    """Time as many calls of each lane in each round; the order changes from round to round."""
    order = random.Random(0)  # noqa: S311  an order of measurements
    for lane in lanes:
        if times := _block(context, lane, WARM_CALLS):
            lane.seconds = statistics.median(times)
    once = sum(lane.seconds for lane in alive(lanes))
    calls = min(MOST_CALLS, max(1, int(SECONDS / ROUNDS / max(once, 1e-6))))
    until = time.monotonic() + SECONDS
    for number in range(ROUNDS):
        if number >= LEAST_ROUNDS and time.monotonic() > until:
            break
        for lane in order.sample(lanes, len(lanes)):
            if times := _block(context, lane, calls):
                lane.add(blocks=(*lane.found.blocks, statistics.median(times)))


def _block(context: Context, lane: Lane, calls: int) -> list[float]:
    """Return the seconds of each call; empty for a lane that has failed, also in this block."""
    if lane.arm is None:
        return []
    context.journal.write(f"plan, steady times of {lane.name}")
    try:
        lane.arm.rewind()
        times = watched(context, lane, lane.calls_at_once(calls))
    except Exception as error:
        lane.out(compile_error(error, context))
        return []
    if lane.gave_up:
        lane.out(GAVE_UP)
        return []
    return times


def _mean_calls(lanes: Sequence[Lane], weights: Sequence[float]) -> list[float]:
    """Return the seconds of a call in each round, over cases weighted by their frequency."""
    rounds = zip(*(lane.found.blocks for lane in lanes), strict=False)
    return [
        sum(weight * seconds for weight, seconds in zip(weights, of_round, strict=True)) / sum(weights)
        for of_round in rounds
    ]
