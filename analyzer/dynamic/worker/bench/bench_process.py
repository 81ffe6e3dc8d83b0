"""One process of a bench: build a model and measure what is requested; the answer grows with every step."""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

import torch
from tcready.dynamic.worker.bench import carry, cold, endurance, loader, process_memory, profile, steady, variant_parity
from tcready.dynamic.worker.bench.case_items import case_items
from tcready.dynamic.worker.bench.machine_load import load
from tcready.dynamic.worker.bench.stack import stack_of
from tcready.dynamic.worker.bench.variants import Unmeasured
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import RunEndedError, one_line
from tcready.dynamic.worker.core.pipeline import OF_AN_OBJECT, TO_A_MODEL
from tcready.dynamic.worker.core.request import next_request, write_json
from tcready.dynamic.worker.core.step import climb
from tcready.dynamic.worker.proof.source_overlay import Overlay
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.schema.bench import BenchAnswer, BenchKind, BenchRequest

Keep = Callable[[BenchAnswer], None]
"""Takes the measurements so far; they remain if the process ends."""
KINDS: Mapping[BenchKind, Callable[[Context, BenchRequest, Keep], BenchAnswer]] = MappingProxyType(
    {
        "steady": steady.run,
        "cold": cold.run,
        "profile": profile.run,
        "parity": variant_parity.run,
        "soak": endurance.run,
        "loader": loader.run,
        "carry": carry.run,
    }
)


def serve(context: Context, room: Path) -> None:
    """Answer requests one after the other with the model of a finished run: `request-N.json` is the N-th, `done-N`
    means that it was answered, and `done-0` that the run is over. The sender of the requests ends the process."""
    forget_calls(context)
    for number in itertools.count():
        run(context, next_request(BenchRequest, room, number), room, is_built=True)


def wait(context: Context, room: Path) -> NoReturn:
    """Answer the next request, `request-1.json`, in a process that has imported torch in the meantime. The sender of
    the request ends the process."""
    wanted = next_request(BenchRequest, room, 0)
    context.work = replace(context.work, bench=wanted)
    run(context, wanted, room)
    next_request(BenchRequest, room, 1)
    sys.exit(1)  # there are no more requests


def forget_calls(context: Context) -> None:
    """Drop the data that the stages left for each other, and everything that Dynamo compiled."""
    context.eager_outcomes, context.compiled_outcomes = [], []
    context.eager_again, context.compiled_again = {}, {}
    context.eager_steps, context.compiled_steps = [], []
    dynamo.reset()
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def run(context: Context, request: BenchRequest, room: Path, *, is_built: bool = False) -> None:
    """Measure what is requested, and leave `result.json` in `room`, complete after every step.

    An exception of the target becomes the `failure` of the answer. `is_built`: the stages up to `build` are done already.
    """
    path = str(room / "result.json")
    context.journal.news = ""
    answer = BenchAnswer(request.kind)

    def keep(measured: BenchAnswer) -> None:
        nonlocal answer
        answer = replace(
            measured,
            weights=answer.weights,
            items=answer.items,
            stack=answer.stack,
            notes=answer.notes,
            device_peak_bytes=process_memory.highest_device_peak(context),
        )
        write_json(path, answer)

    try:
        if not is_built:
            Overlay(_sources(request))
            if why := _not_begun(context):
                raise Unmeasured(why)
        busy, notes = load(context)
        answer = replace(
            answer,
            weights=tuple((case.name, case.weight) for case in context.cases if case.name is not None),
            items=case_items(context, request),
            stack=(*stack_of(context, request), *busy),
            notes=notes,
        )
        context.journal.begin("speed", f"bench, {request.kind}")
        keep(answer)
        keep(KINDS[request.kind](context, request, keep))
    except Unmeasured as error:
        keep(replace(answer, failure=str(error)))
    except Exception as error:
        keep(replace(answer, failure=one_line(error, context.work.root)))
    context.journal.close()


def _sources(request: BenchRequest) -> dict[str, str]:
    """Return the sources that the arms put in place of files. Raises Unmeasured if they do not agree, because a module
    is imported only once."""
    if len({arm.sources for arm in request.arms}) > 1:
        raise Unmeasured("arms with different sources cannot be measured in one process")
    return dict(request.arms[0].sources) if request.arms else {}


def _not_begun(context: Context) -> str | None:
    """Import and build; for an object that was passed in, make one copy. Return why there is no model, None if there is
    one."""
    steps = [step for step in TO_A_MODEL if not context.given or step.name in OF_AN_OBJECT]
    try:
        if climb(context, steps) is None:
            return None
    except RunEndedError:
        return context.journal.rest[0]
    stages = context.journal.observation.stages
    return next((stage.detail for stage in stages if stage.state == "fail"), "it could not be built")
