"""Measure one arm from its first call: what starting it costs, and how much memory it takes."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tcready.dynamic.worker.bench import process_memory
from tcready.dynamic.worker.bench.carried_code import compare_outputs, lines_for
from tcready.dynamic.worker.bench.loops import loop_of
from tcready.dynamic.worker.bench.measurement_loop import (
    COMPILED_NOTHING,
    FIRST_CALLS,
    Lane,
    Missing,
    alive,
    built_or_why,
    compiler,
    error_of,
    measured,
)
from tcready.dynamic.worker.bench.timed_inputs import Feed
from tcready.dynamic.worker.bench.variant_parity import recompile
from tcready.dynamic.worker.bench.variants import RunningVariant, Unmeasured, loss_for
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.request import write_whole
from tcready.dynamic.worker.torch_internals import compile_calls, compile_time
from tcready.schema.bench import Arm, ArmMeasured, BenchAnswer, BenchRequest, CarriedCode, ColdStart, MemoryUse

WARM_CALLS = 10
"""The number of calls that give the median of a warm one, if they are quick."""
WARM_SECONDS = 5.0
"""The most seconds for the warm calls of all cases."""
LEAST_WARM = 2


def run(context: Context, request: BenchRequest, keep: Callable[[BenchAnswer], None]) -> BenchAnswer:
    """Run the first calls of every case, in order, then warm ones. The first case holds the seconds and memory of all.

    Excluded are the time to load torch's compiler, and work that a machine does once for all models (the choice of vector
    instructions, precompiled headers).
    """
    if len(request.arms) != 1:
        raise Unmeasured("a cold start is that of one arm")
    arm = request.arms[0]
    with compiler(context, request) as missing:
        load_seconds = _load(request)
        running = built_or_why(context, arm, missing)
        if isinstance(running, str):
            return BenchAnswer("cold", tuple(ArmMeasured(arm.name, case.name, running) for case in context.cases))
        lanes = [_lane(context, request, running, case) for case in context.cases]
        gc.collect()
        process_memory.forget_device_peak(context)
        compile_time.begin()
        with process_memory.ResidentPeak() as resident:
            first = _run_first_calls(context, lanes, missing)
        graphs, breaks = compile_time.graphs(), compile_time.breaks()
        phases = compile_time.phases("triton" if process_memory.is_cuda(context) else "cpp")
        hits, misses = compile_time.cache_counts()
        device_peak = process_memory.device_peak(context)
        if not running.eager:
            for lane in lanes:
                lane.add(graphs=graphs, breaks=breaks)
                if not graphs and not lane.found.error:
                    lane.out(COMPILED_NOTHING)
        answer = BenchAnswer("cold", measured(lanes))
        keep(answer)
        process_memory.forget_device_peak(context)
        seconds = _run_warm_calls(context, lanes, first, missing) + (load_seconds or 0.0)
        if alive(lanes):
            lane = alive(lanes)[0]
            cold = ColdStart(max(0.0, seconds))
            if not running.eager:
                cold = replace(cold, phases=phases, cache_hits=hits, cache_misses=misses)
            lane.add(
                cold=cold,
                memory=MemoryUse(
                    process_memory.device_peak(context), device_peak, process_memory.resident(), resident.bytes
                ),
            )
            _save(request)
        answer = replace(answer, measured=measured(lanes))
        if load_seconds is not None and request.artifacts is not None:
            keep(answer)
            carried = _carried(context, request, arm, request.artifacts)
            if len(alive(lanes)) == len(lanes):
                carried = replace(carried, seconds=max(0.0, seconds), load_seconds=load_seconds)
            answer = replace(answer, carried=(carried,))
        return answer


def run_starts(context: Context, lanes: Sequence[Lane], missing: Missing) -> float:
    """Run the first calls of every lane, then warm ones. Return the seconds of the first ones beyond warm ones."""
    return _run_warm_calls(context, lanes, _run_first_calls(context, lanes, missing), missing)


def _run_first_calls(context: Context, lanes: Sequence[Lane], missing: Missing) -> list[list[float]]:
    """Return the seconds of the first calls of every lane that has no error."""
    found: list[list[float]] = []
    for lane in lanes:
        if lane.found.error:
            found.append([])
            continue
        context.journal.write(f"bench: {lane.name}, first calls")
        found.append(_first(context, lane, missing))
    return found


def _run_warm_calls(
    context: Context, lanes: Sequence[Lane], first: Sequence[Sequence[float]], missing: Missing
) -> float:
    """Run warm calls of every lane that has no error. Return the seconds of the first calls beyond warm ones."""
    seconds = 0.0
    for lane, times in zip(lanes, first, strict=True):
        if lane.found.error:
            continue
        context.journal.write(f"bench: {lane.name}, warm calls")
        _warm(context, lane, WARM_SECONDS / len(lanes), missing)
        seconds += sum(times) - len(times) * lane.seconds
    return seconds


def _carried(context: Context, request: BenchRequest, arm: Arm, path: str) -> CarriedCode:
    """Return whether the outputs of an arm that found artifacts agree with eager code, and the lines to use these."""

    def load(model: Any, _: int) -> RunningVariant:
        return recompile(context, arm, model)

    def compile_anew(model: Any, _: Case) -> RunningVariant:
        return recompile(context, arm, model)

    same, detail = compare_outputs(context, load, compile_anew, request.seconds)
    lines = lines_for(context, "cache_artifacts", is_module=True, arm=arm.code)
    return CarriedCode(
        "cache_artifacts",
        arm.name,
        bytes=os.path.getsize(path),
        same=same,
        detail=detail,
        save_code=lines.save,
        load_code=lines.start,
    )


def _lane(context: Context, request: BenchRequest, running: RunningVariant, case: Case) -> Lane:
    """Return the lane of one case. Each of its calls gets a copy of the inputs, because no earlier call showed whether
    they change them."""
    lane = Lane(ArmMeasured(running.arm.name, case.name), accumulate=request.accumulate)
    loss, loop = None, loop_of(context, request)
    if context.work.options.mode == "train" and loop is None:
        with compile_calls.stance("force_eager"):
            loss = loss_for(context, context.build(), case)
    lane.arm, lane.feed, lane.step = running, Feed(case, "call"), running.step(loss, request.accumulate, loop)
    return lane


def _first(context: Context, lane: Lane, missing: Missing) -> list[float]:
    """Return the seconds of the first calls. If they raise, the lane gets an error."""
    try:
        return lane.timed(context, FIRST_CALLS)
    except Exception as error:
        lane.out(error_of(error, context, missing))
        return []


def _warm(context: Context, lane: Lane, seconds: float, missing: Missing) -> None:
    times: list[float] = []
    began = time.monotonic()
    try:
        while len(times) < WARM_CALLS and (len(times) < LEAST_WARM or time.monotonic() - began < seconds):
            times += lane.timed(context, 1)
    except Exception as error:
        lane.out(error_of(error, context, missing))
        return
    lane.seconds = statistics.median(times)


def _load(request: BenchRequest) -> float | None:
    """Load the artifacts of another process, and return the seconds that it took; None if there is no file of them.
    Raises Unmeasured for a torch that cannot load them."""
    if request.artifacts is None:
        return None
    if not compile_time.has_artifacts():
        raise Unmeasured("this torch has no torch.compiler.save_cache_artifacts")
    if not os.path.exists(request.artifacts):
        return None
    began = time.perf_counter()
    with open(request.artifacts, "rb") as file:
        compile_time.load_artifacts(file.read())
    return time.perf_counter() - began


def _save(request: BenchRequest) -> None:
    """Save the artifacts for another process, if no process has left a file."""
    if request.artifacts is not None and not os.path.exists(request.artifacts):
        data = compile_time.saved_artifacts()
        if data is not None:
            write_whole(request.artifacts, data)
