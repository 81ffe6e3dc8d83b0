"""Profile one warm call of each arm and case with `torch.profiler`."""

from __future__ import annotations

import contextlib
import inspect
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tcready.dynamic.worker.bench import process_memory
from tcready.dynamic.worker.bench.measurement_loop import (
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
from tcready.dynamic.worker.core.calling import autocast, settle
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.torch_internals import dynamo, inductor
from tcready.dynamic.worker.torch_internals.guards import GuardCosts, guard_costs
from tcready.schema.bench import BenchAnswer, BenchRequest, Profile
from torch import nn
from torch.profiler import ProfilerActivity, profile

CALLS = 10
"""The number of calls without the profiler that measure the time of the host and of the processors."""
ENERGY_SECONDS = 2.0
"""The duration of the energy measurement: the driver updates its counter about every tenth of a second."""
NO_KERNELS = ("Memcpy", "Memset")
"""Prefixes of the names of device activities that are not kernels."""


def run(context: Context, request: BenchRequest, keep: Callable[[BenchAnswer], None]) -> BenchAnswer:
    """Profile one arm and case after the other. The answer grows with each."""
    # The profiler shows compiled CPU kernels only if they are compiled with a profiling option.
    seen = contextlib.nullcontext() if process_memory.is_cuda(context) else inductor.kernels_in_profiles()
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
    """Add a profile to a warm lane. Energy is measured for at most `seconds`. Raises what calls raise."""
    context.journal.write(f"bench: {lane.name}, profile")
    lane.add(profile=_run_profiler(context, lane, min(seconds, ENERGY_SECONDS)))


def _run_profiler(context: Context, lane: Lane, seconds: float) -> Profile:
    assert lane.arm is not None
    lane.arm.rewind()
    events, span = _events(context, lane)
    cuda = process_memory.is_cuda(context)
    joules, reason = _energy(context, lane, seconds)
    lane.arm.rewind()
    host, processors = _seconds(context, lane)
    called = _top_level_calls(events)
    dynamo_seconds = None if lane.arm.eager else _in_dynamo(context, lane)
    costs = _guards(context, lane)
    found = Profile(cpu_seconds=processors, dynamo_seconds=dynamo_seconds, energy_joules=joules, energy_reason=reason)
    if costs is not None:
        found = replace(
            found,
            guards=costs.number,
            python_guards=costs.in_python,
            expensive_guards=costs.expensive,
            changing_floats=costs.changing_floats,
        )
    if cuda:
        kernels = [event for event in events if _is_kernel(event)]
        seconds_in_kernels = sum(_duration(event) for event in kernels)
        return replace(found, kernel_seconds=seconds_in_kernels, kernels=len(kernels), host_seconds=host)
    inside = sum(_duration(event) for event in called)
    return replace(found, kernels=len(called), host_seconds=max(0.0, span - inside))


def _events(context: Context, lane: Lane) -> tuple[Sequence[Any], float]:
    """Return the events of one warm call, and its seconds. The first use of the profiler includes its setup, so it is
    discarded."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if process_memory.is_cuda(context) else [])]
    with profile(activities=activities):
        lane.timed(context, 1)
    lane.timed(context, 1)
    with profile(activities=activities) as profiler:
        (span,) = lane.timed(context, 1)
    return profiler.events() or (), span


def _in_dynamo(context: Context, lane: Lane) -> float:
    """Return the mean seconds in Dynamo over consecutive calls: in a first call, the processor's caches are cold."""
    calls = lane.calls_at_once(CALLS)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        lane.timed(context, calls)
    return sum(_duration(event) for event in profiler.events() or () if event.name in dynamo.EVENTS) / calls


def _guards(context: Context, lane: Lane) -> GuardCosts | None:
    """Return the costs of the guards of the frame that a call enters first."""
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
    """Return whether an event is a kernel of the device, not a copy or a user annotation."""
    return (
        "CUDA" in str(event.device_type)
        and not getattr(event, "is_user_annotation", False)
        and not event.name.startswith(NO_KERNELS)
    )


def _top_level_calls(events: Sequence[Any]) -> list[Any]:
    """Return the operators and compiled kernels that no other operator or kernel called."""
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
    """Return the seconds of an event."""
    return float(event.time_range.elapsed_us()) / 1e6


def _seconds(context: Context, lane: Lane) -> tuple[float, float]:
    """Return the seconds until a call returns, without waiting for the device, and the seconds of all processors."""
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
    """Return the joules of one call for the whole GPU, other users included; or why they are not known."""
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
