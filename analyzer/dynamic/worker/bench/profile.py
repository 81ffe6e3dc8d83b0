"""What one warm call of each arm and case is made of, by `torch.profiler`."""

from __future__ import annotations

import contextlib
import inspect
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tcready.dynamic.worker.bench import memory
from tcready.dynamic.worker.bench.lanes import (
    Lane,
    alive,
    compiler,
    error_of,
    first_calls,
    lanes_of,
    measured,
    warm_up,
)
from tcready.dynamic.worker.bench.nvml import Gpu, NvmlError
from tcready.dynamic.worker.calling import autocast, settle
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.torch_internals import dynamo, inductor
from tcready.dynamic.worker.torch_internals.guards import GuardCosts, guard_costs
from tcready.schema.bench import BenchAnswer, BenchRequest, Profile
from torch import nn
from torch.profiler import ProfilerActivity, profile

CALLS = 10
"""Calls without the profiler, for the seconds of the host and of the processors."""
ENERGY_SECONDS = 2.0
"""The driver's counter moves every tenth of a second or so."""
NO_KERNELS = ("Memcpy", "Memset")
"""What a device does besides kernels, by the start of its name."""


def run(context: Context, request: BenchRequest, keep: Callable[[BenchAnswer], None]) -> BenchAnswer:
    """One arm and case after the other: the answer grows with each."""
    # Compiled kernels of a CPU are seen by the profiler only if they are compiled to be seen.
    seen = contextlib.nullcontext() if memory.is_cuda(context) else inductor.kernels_in_profiles()
    with seen, compiler(context, request) as missing:
        lanes = lanes_of(context, request, missing)
        first_calls(context, lanes, missing)
        answer = BenchAnswer("profile", measured(lanes))
        keep(answer)
        share = request.seconds / 2 / max(len(alive(lanes)), 1)
        for lane in alive(lanes):
            warm_up(context, lane, request, share, missing)
            if lane.found.error:
                continue
            try:
                add_profile(context, lane, share)
            except Exception as error:
                lane.out(error_of(error, context, missing))
            keep(replace(answer, measured=measured(lanes)))
        return replace(answer, measured=measured(lanes))


def add_profile(context: Context, lane: Lane, seconds: float) -> None:
    """Of a lane that is warm. The energy is counted for so many seconds at most. Raises what calls raise."""
    context.journal.write(f"bench: {lane.name}, profile")
    lane.add(profile=_profiled(context, lane, min(seconds, ENERGY_SECONDS)))


def _profiled(context: Context, lane: Lane, seconds: float) -> Profile:
    assert lane.arm is not None
    lane.arm.rewind()
    events, span = _events(context, lane)
    cuda = memory.is_cuda(context)
    joules, reason = _energy(context, lane, seconds)
    lane.arm.rewind()
    host, processors = _seconds(context, lane)
    called = _called(events)
    dynamo_seconds = None if lane.arm.eager else _in_dynamo(context, lane)
    costs = _guards(context, lane)
    found = Profile(
        cpu_seconds=processors,
        dynamo_seconds=dynamo_seconds,
        energy_joules=joules,
        energy_reason=reason,
    )
    if costs is not None:
        found = replace(
            found,
            guards=costs.number,
            python_guards=costs.in_python,
            expensive_guards=costs.expensive,
        )
    if cuda:
        kernels = [event for event in events if _is_kernel(event)]
        seconds_in_kernels = sum(_duration(event) for event in kernels)
        return replace(found, kernel_seconds=seconds_in_kernels, kernels=len(kernels), host_seconds=host)
    inside = sum(_duration(event) for event in called)
    return replace(found, kernels=len(called), host_seconds=max(0.0, span - inside))


def _events(context: Context, lane: Lane) -> tuple[Sequence[Any], float]:
    """What happened in one warm call, and its seconds; the first use of the profiler pays for setting it up."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if memory.is_cuda(context) else [])]
    with profile(activities=activities):
        lane.timed(context, 1)
    lane.timed(context, 1)
    with profile(activities=activities) as profiler:
        (span,) = lane.timed(context, 1)
    return profiler.events() or (), span


def _in_dynamo(context: Context, lane: Lane) -> float:
    """Seconds of one call, of several in a row: the first one finds less in the processor's caches."""
    calls = lane.calls_at_once(CALLS)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        lane.timed(context, calls)
    return sum(_duration(event) for event in profiler.events() or () if event.name in dynamo.EVENTS) / calls


def _guards(context: Context, lane: Lane) -> GuardCosts | None:
    """Those of the frame that a call enters first."""
    assert lane.arm is not None
    model = lane.arm.model
    function = type(model).forward if isinstance(model, nn.Module) else model
    code = getattr(function, "__code__", None)
    if lane.arm.eager or code is None:
        return None
    args, kwargs = next(lane.inputs(1))
    try:
        bound = inspect.signature(function, follow_wrapped=False).bind(
            *([model] if isinstance(model, nn.Module) else []), *args, **kwargs
        )
    except TypeError:
        return None
    bound.apply_defaults()
    with lane.arm.in_place(), autocast(context):
        return guard_costs(code, bound.arguments)


def _is_kernel(event: Any) -> bool:
    """Whether it is one of the device's, and neither a copy nor a range that code named."""
    return (
        "CUDA" in str(event.device_type)
        and not getattr(event, "is_user_annotation", False)
        and not event.name.startswith(NO_KERNELS)
    )


def _called(events: Sequence[Any]) -> list[Any]:
    """Operators and compiled kernels that no other one called."""
    return [event for event in events if _is_call(event) and not _below_a_call(event)]


def _is_call(event: Any) -> bool:
    if "CPU" not in str(event.device_type):
        return False
    operator = "::" in event.name and not event.name.startswith(("autograd::", "##"))
    return operator or inductor.is_kernel_name(event.name)


def _below_a_call(event: Any) -> bool:
    parent = event.cpu_parent
    while parent is not None:
        if _is_call(parent):
            return True
        parent = parent.cpu_parent
    return False


def _duration(event: Any) -> float:
    """Seconds."""
    return float(event.time_range.elapsed_us()) / 1e6


def _seconds(context: Context, lane: Lane) -> tuple[float, float]:
    """Of one call: until it comes back to the thread that calls, the device not waited for; of all processors."""
    assert lane.arm is not None
    assert lane.step is not None
    calls = lane.calls_at_once(CALLS)
    inputs = lane.inputs(calls)
    times = []
    with lane.arm.in_place():
        settle(context)
        processors = time.process_time()
        for _ in range(calls):
            began = time.perf_counter()
            lane.step(inputs)
            times.append(time.perf_counter() - began)
            settle(context)
        processors = time.process_time() - processors
    return statistics.median(times), processors / calls


def _energy(context: Context, lane: Lane, seconds: float) -> tuple[float | None, str]:
    """Joules of one call, or why they are not known. Of the whole GPU, whoever else uses it."""
    try:
        gpu = Gpu.of(context.work.options.device)
        begun, before, calls = time.monotonic(), gpu.energy(), 0
        while time.monotonic() - begun < seconds:
            at_once = lane.calls_at_once(CALLS)
            lane.timed(context, at_once)
            calls += at_once
        return (gpu.energy() - before) / calls, ""
    except NvmlError as error:
        return None, f"not run: {error}"
