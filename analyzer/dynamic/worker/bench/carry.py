"""Measure the start of a process that loads what another process compiled for a model, and compare its outputs.

Two processes measure this: one saves the code in every way that this torch has, and for each of these ways another one
loads it. A third way, the artifacts of the caches, is a cold start that finds them: see `cold`.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from tcready.dynamic.worker.bench import cold
from tcready.dynamic.worker.bench.carried_code import compare_outputs, lines_for
from tcready.dynamic.worker.bench.carry_lines import as_function, files_of
from tcready.dynamic.worker.bench.measurement_loop import Lane, Missing, compiler, error_of
from tcready.dynamic.worker.bench.timed_inputs import Feed
from tcready.dynamic.worker.bench.variants import RunningVariant, Unmeasured
from tcready.dynamic.worker.core.calling import settle
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.toolchain import cache_folder, compiler_cache
from tcready.dynamic.worker.torch_internals import compile_calls, dynamo
from tcready.schema.bench import CARRY_WAYS, Arm, ArmMeasured, BenchAnswer, BenchRequest, CarriedCode, CarryWay
from torch import nn


def run(context: Context, request: BenchRequest, keep: Callable[[BenchAnswer], None]) -> BenchAnswer:
    """Save the code into `request.carried` in every way, or load it in one way: `request.way`."""
    if request.carried is None:
        raise Unmeasured("no folder for compiled code was named")
    with compiler(context, request) as missing:
        if request.way is not None:
            return _load(context, request, request.way, request.carried, keep, missing)
        os.makedirs(request.carried, exist_ok=True)
        found: tuple[CarriedCode, ...] = ()
        for way in CARRY_WAYS:
            context.journal.write(f"bench: saving compiled code, {way}")
            found = (*found, _save(context, request, way, request.carried, missing))
            keep(BenchAnswer("carry", carried=found))
    return BenchAnswer("carry", carried=found)


def _why_not(context: Context, request: BenchRequest, way: CarryWay) -> str:
    """Return why code cannot be saved in this way, before it is tried; empty if it can."""
    if not compile_calls.can_save(way):
        name = {"aot_compile": "torch.compile(...).aot_compile()", "precompile": "torch.compiler.precompile.capture"}
        return f"this torch has no {name.get(way, way)}"
    if context.work.options.mode != "infer":
        return "not measured for a training step"
    if request.loop is not None:
        return "not measured with --loop: the inputs of its calls are not known before"
    return ""


def _save(context: Context, request: BenchRequest, way: CarryWay, folder: str, missing: Missing) -> CarriedCode:
    """Compile for every case, and save the code. The caches are empty, so that nothing is taken from another way."""
    model = context.build()
    shown = lines_for(context, way, is_module=isinstance(model, nn.Module))
    found = CarriedCode(way, request.arms[0].name, save_code=shown.save, load_code=shown.start)
    if why := _why_not(context, request, way):
        return replace(found, error=why)
    dynamo.reset()
    seconds, size = 0.0, 0
    with cache_folder(context) as files, compiler_cache(context, files):
        for index, case in enumerate(context.cases):
            stem = _stem(folder, index)
            try:
                seconds += _save_case(context, way, model, case, stem)
                size += sum(os.path.getsize(each) for each in files_of(way, stem))
            except Exception as error:
                return replace(found, error=f"{error_of(error, context, missing)}{case.label}")
    return replace(found, save_seconds=seconds, bytes=size)


def _save_case(context: Context, way: CarryWay, model: Any, case: Case, stem: str) -> float:
    """Save the code of one case. Return the seconds that it took."""
    lines = lines_for(context, way, is_module=isinstance(model, nn.Module), stem=stem)
    args, kwargs = next(Feed(case, "call").take(1))
    began = time.perf_counter()
    _execute(lines.save, torch=torch, model=model, args=args, kwargs=kwargs)
    settle(context)
    return time.perf_counter() - began


def _load_case(context: Context, way: CarryWay, model: Any, stem: str) -> Callable[..., Any]:
    """Return a function that runs the code of one case, which was saved."""
    lines = lines_for(context, way, is_module=isinstance(model, nn.Module), stem=stem)
    names = _execute(f"{lines.load}\n{as_function(lines.call)}", torch=torch, model=model)
    function: Callable[..., Any] = names["call"]
    return function


def _execute(code: str, **names: Any) -> dict[str, Any]:
    exec(compile(code, "<carried>", "exec"), names)  # noqa: S102  they are our own lines, as they are shown
    return names


def _load(
    context: Context,
    request: BenchRequest,
    way: CarryWay,
    folder: str,
    keep: Callable[[BenchAnswer], None],
    missing: Missing,
) -> BenchAnswer:
    """Load the code of every case and call it as a cold start does; then compare it with eager code."""
    arm = Arm(way, request.arms[0].code)
    model = context.build()
    found = CarriedCode(way, request.arms[0].name)
    lanes: list[Lane] = []
    gc.collect()
    load_seconds = 0.0
    context.journal.write(f"bench: loading compiled code, {way}")
    for index, case in enumerate(context.cases):
        lane = Lane(ArmMeasured(way, case.name))
        lanes.append(lane)
        began = time.perf_counter()
        try:
            function = _load_case(context, way, model, _stem(folder, index))
        except Exception as error:
            lane.out(error_of(error, context, missing))
            continue
        load_seconds += time.perf_counter() - began
        running = RunningVariant(arm, context, model, function, None)
        lane.arm, lane.feed, lane.step = running, Feed(case, "call"), running.step(None)
    seconds = load_seconds + cold.run_starts(context, lanes, missing)
    failed = next((lane for lane in lanes if lane.found.error), None)
    if failed is not None:
        label = f" (case {failed.found.case})" if failed.found.case else ""
        return BenchAnswer("carry", carried=(replace(found, error=f"{failed.found.error}{label}"),))
    found = replace(found, seconds=max(0.0, seconds), load_seconds=load_seconds)
    keep(BenchAnswer("carry", carried=(found,)))

    def load(model: Any, index: int) -> RunningVariant:
        return RunningVariant(arm, context, model, _load_case(context, way, model, _stem(folder, index)), None)

    def compile_anew(model: Any, case: Case) -> RunningVariant:
        with cache_folder(context) as files:
            _save_case(context, way, model, case, _stem(files, 0))
            return RunningVariant(arm, context, model, _load_case(context, way, model, _stem(files, 0)), None)

    same, detail = compare_outputs(context, load, compile_anew, request.seconds)
    return BenchAnswer("carry", carried=(replace(found, same=same, detail=detail),))


def _stem(folder: str, index: int) -> str:
    """Return the beginning of the names of the files of a case."""
    return os.path.join(folder, f"case-{index}")
