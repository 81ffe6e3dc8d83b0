"""Under FSDP2, compile each sharded block by itself instead of the whole model, and record the results of this rank."""

from __future__ import annotations

from typing import Any

from tcready.dynamic.worker.core import distributed
from tcready.dynamic.worker.core.calling import CALLS, call
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.frames import is_user_file
from tcready.dynamic.worker.core.journal import counted, one_line
from tcready.dynamic.worker.core.step import Step
from tcready.dynamic.worker.measure.agreement import case_calls, judge
from tcready.dynamic.worker.measure.call_outcome import CallOutcome
from tcready.dynamic.worker.measure.coverage import coverage
from tcready.dynamic.worker.measure.dispatch_counts import CountingBackend, Counts
from tcready.dynamic.worker.measure.effects import outcome_of_call
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.compile_calls import compile_callable
from tcready.dynamic.worker.torch_internals.recording import recording
from tcready.portable.events import to_schema
from tcready.portable.events.record import Record
from tcready.schema.capture_failures import is_fsdp_hook
from tcready.schema.code_line import Frame
from tcready.schema.parallel import BlocksRun
from torch import nn


def run(context: Context) -> None:
    """Add to the observation's `parallel`. Exceptions fail no stage. A crash of the process counts for the stage
    `capture`."""
    journal = context.journal
    shared, captured = journal.observation.parallel, journal.done["capture"]
    if shared is None or not shared.sharded:
        return
    journal.begin("capture", "capture of each sharded block by itself")
    try:
        found = _compiled(context, shared.sharded)
    except Exception as error:  # any exception of the model, FSDP or Dynamo is the result
        found = BlocksRun("fail", one_line(error, context.work.root))
    journal.add(parallel=distributed.with_blocks(shared, found))
    journal.end("pass")
    journal.done["capture"] = captured


def _compiled(context: Context, blocks: tuple[str, ...]) -> BlocksRun:
    """Make the calls of the first case with the blocks compiled."""
    case = context.cases[0]
    dynamo.reset()
    model = context.build()
    backend = CountingBackend(model, context.work.options.device)
    for name in blocks:
        _compile(model.get_submodule(name), backend)
    calls = {name: Record() for name in CALLS}
    again: dict[Frame, None] = {}
    breaks: dict[Frame, None] = {}
    first: CallOutcome | None = None
    for name, record in calls.items():
        counting = [backend.count()] if name == CALLS[-1] else []
        if first is None:
            first = outcome_of_call(context, model, model, case, recording(record), *counting)
        else:
            call(context, model, case, recording(record), *counting)
        for site in to_schema.break_sites(record, context.names, case.name):
            if not is_fsdp_hook(site):
                breaks[Frame(site.path, site.line, site.symbol)] = None
        for each in to_schema.recompiles(record, context.names, case.name, name == CALLS[-1]):
            again[Frame(each.path, each.line, each.symbol)] = None
    graphs = to_schema.graphs(calls[CALLS[0]], context.names, context.work.options.mode, case.name, {})
    counts = Counts()
    counts.add(backend.counts)
    share = coverage(counts, context.work.options.device)
    difference = _difference(context, blocks, first)
    words = f"differs from eager: {difference}" if difference else f"{counted(len(blocks), 'block')} compiled"
    return BlocksRun(
        "fail" if difference else "pass",
        words,
        len(graphs),
        tuple(breaks),
        tuple(again),
        share.share if share is not None else None,
    )


def _difference(context: Context, blocks: tuple[str, ...], first: CallOutcome | None) -> str:
    """Return how the outputs differ from those of eager code; empty if only by rounding."""

    def compiled(model: Any) -> Any:
        for name in blocks:
            _compile(model.get_submodule(name), "eager")
        return model

    if first is None:
        return ""
    calls = case_calls(context, context.cases[0], compiled)
    found = judge(context, context.eager_outcomes[0], first, calls)
    return "" if found.ok else found.text


def _compile(module: nn.Module, backend: Any) -> None:
    """Compile a module. `compile()` of a module with torch's own forward compiles nothing, so its forward is passed
    then."""
    code = getattr(type(module).forward, "__code__", None)
    if code is not None and is_user_file(code.co_filename):
        module.compile(backend=backend)
    else:
        module.forward = compile_callable(module.forward, backend=backend)


def _is_requested(context: Context) -> bool:
    return context.work.options.parallel == "fsdp"


STEP = Step("blocks", run, requires=("capture",), is_requested=_is_requested)
"""Not a stage of a report: it adds the results of one rank to `parallel`."""
