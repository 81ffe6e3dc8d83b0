"""Under FSDP2, compile each sharded block by itself instead of the whole model."""

from __future__ import annotations

from typing import Any

from tcready.dynamic.worker import distributed
from tcready.dynamic.worker.agreement import case_calls, judge
from tcready.dynamic.worker.calling import CALLS, call
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.coverage import coverage
from tcready.dynamic.worker.effects import outcome_of_call
from tcready.dynamic.worker.frames import is_user_file
from tcready.dynamic.worker.journal import counted, one_line
from tcready.dynamic.worker.ops import CountingBackend, Counts
from tcready.dynamic.worker.outcome import Outcome
from tcready.dynamic.worker.step import Step
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.placement import compile_callable
from tcready.dynamic.worker.torch_internals.recording import recording
from tcready.events import narrate
from tcready.events.record import Record
from tcready.schema.frame import Frame
from tcready.schema.parallel import BlocksRun
from tcready.schema.troubles import is_fsdp_hook
from torch import nn


def run(context: Context) -> None:
    """Adds to the observation's `parallel`; what is raised fails no stage. Who ends the process ends it in `capture`."""
    journal = context.journal
    shared, captured = journal.observation.parallel, journal.done["capture"]
    if shared is None or not shared.sharded:
        return
    journal.begin("capture", "capture of each sharded block by itself")
    try:
        found = _compiled(context, shared.sharded)
    except Exception as error:  # whatever the model, FSDP or Dynamo raises is what came of it
        found = BlocksRun("fail", one_line(error, context.work.root))
    journal.add(parallel=distributed.with_blocks(shared, found))
    journal.end("pass")
    journal.done["capture"] = captured


def _compiled(context: Context, blocks: tuple[str, ...]) -> BlocksRun:
    """The calls of the first case with the blocks compiled."""
    case = context.cases[0]
    dynamo.reset()
    model = context.build()
    backend = CountingBackend(model, context.work.options.device)
    for name in blocks:
        _compile(model.get_submodule(name), backend)
    calls = {name: Record() for name in CALLS}
    again: dict[Frame, None] = {}
    breaks: dict[Frame, None] = {}
    first: Outcome | None = None
    for name, record in calls.items():
        counting = [backend.count()] if name == CALLS[-1] else []
        if first is None:
            first = outcome_of_call(context, model, model, case, recording(record), *counting)
        else:
            call(context, model, case, recording(record), *counting)
        for site in narrate.break_sites(record, context.names, case.name):
            if not is_fsdp_hook(site):
                breaks[Frame(site.path, site.line, site.symbol)] = None
        for each in narrate.recompiles(record, context.names, case.name, name == CALLS[-1]):
            again[Frame(each.path, each.line, each.symbol)] = None
    graphs = narrate.graphs(calls[CALLS[0]], context.names, context.work.options.mode, case.name, {})
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


def _difference(context: Context, blocks: tuple[str, ...], first: Outcome | None) -> str:
    """How the outputs differ from those of eager code; empty if only by rounding."""

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
    """`compile()` of a module whose forward is torch's own compiles nothing: its forward is handed over then."""
    code = getattr(type(module).forward, "__code__", None)
    if code is not None and is_user_file(code.co_filename):
        module.compile(backend=backend)
    else:
        module.forward = compile_callable(module.forward, backend=backend)


def _asked(context: Context) -> bool:
    return context.work.options.parallel == "fsdp"


STEP = Step("blocks", run, requires=("capture",), asked=_asked)
"""No stage of a report: it adds what one rank shows to `parallel`."""
