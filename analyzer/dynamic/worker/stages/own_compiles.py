"""Call a model with the parts compiled that its own code compiles, and record the outcome of each such call."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from tcready.dynamic.worker.core.calling import CALLS, call
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.frames import user_stack
from tcready.dynamic.worker.core.journal import one_line
from tcready.dynamic.worker.core.step import Step
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.compile_calls import isolates_recompiles
from tcready.dynamic.worker.torch_internals.inner_compile import InnerCall, InnerCalls
from tcready.dynamic.worker.torch_internals.recording import recording
from tcready.portable.events import to_schema
from tcready.portable.events.record import Record
from tcready.schema.capture_failures import at_recompile_limit
from tcready.schema.code_line import Frame
from tcready.schema.run import OwnCompile
from torch import nn


def run(context: Context) -> None:
    """Add `own_compiles` to the observation. Exceptions fail no stage. A crash of the process counts for the stage
    `capture`."""
    journal = context.journal
    captured = journal.done["capture"]
    journal.begin("capture", "parts that the model compiles itself")
    try:
        found = _called(context)
        limited = [each for each in found if each.limit]
        if limited and isolates_recompiles():
            isolated = {each.place: each for each in _called(context, isolate_recompiles=True)}
            found = tuple(_with_trial(each, isolated.get(each.place)) for each in found)
    except Exception as error:  # the model, its constructor or Dynamo may raise anything
        journal.warn(f"the parts that the model compiles itself were not judged: {one_line(error, context.work.root)}")
        found = ()
    finally:
        dynamo.reset()
    journal.add(own_compiles=found)
    journal.end("pass")
    journal.done["capture"] = captured


def _called(context: Context, **options: Any) -> tuple[OwnCompile, ...]:
    """Return the outcome of each line that compiles, after the calls of the first case; `options` are added to those of
    each torch.compile."""
    case = context.cases[0]
    dynamo.reset()
    inner = InnerCalls()
    with inner.watched(**options):
        assert context.rebuild is not None
        model = context.rebuild()
        records: list[Record] = []
        for _ in CALLS:
            record = inner.next_record()
            records.append(record)
            call(context, model, case, recording(record, every_guard=True))
    names = {id(module): name for name, module in model.named_modules()} if isinstance(model, nn.Module) else {}
    return tuple(_by_line(context, inner.calls, names))


def _by_line(context: Context, calls: Sequence[InnerCall], names: dict[int, str]) -> Iterator[OwnCompile]:
    """Yield the calls of each line together, in order of the first; only those whose result the model calls."""
    lines: dict[Frame, list[InnerCall]] = {}
    for each in calls:
        found = user_stack([*each.stack])
        if found is not None and each.called:
            lines.setdefault(context.names.frame(*found[0]), []).append(each)
    for place, some in lines.items():
        events = Record(
            recompiles=[event for each in some for event in each.recompiles],
            skips=[event for each in some for event in each.skips],
        )
        skipped = to_schema.skipped_frames(events, context.names, None)
        yield OwnCompile(
            place=place,
            how="module.compile()" if some[0].is_in_place else "torch.compile",
            parts=tuple(_name(each, names) for each in some),
            eager=tuple(_name(each, names) for each in some if not each.graphs),
            recompiles=to_schema.join_recompiles(to_schema.recompiles(events, context.names, None, False)),
            limit=tuple(Frame(each.path, each.line, each.symbol) for each in skipped if at_recompile_limit(each)),
            compiled_again=sum(event.recompiled for event in events.recompiles),
        )


def _name(call: InnerCall, names: dict[int, str]) -> str:
    """Return the name of the module in the model, or else of the function."""
    name = names.get(id(call.module))
    if name is None:
        return str(getattr(call.subject, "__qualname__", type(call.subject).__name__))
    return ".".join(part for part in name.split(".") if part != dynamo.WRAPPED)


def _with_trial(found: OwnCompile, isolated: OwnCompile | None) -> OwnCompile:
    """Add whether all parts are compiled if each has a limit of its own."""
    worked = isolated is not None and not isolated.eager and not isolated.limit
    return dataclasses.replace(found, isolated=worked)


def _is_requested(context: Context) -> bool:
    return context.compiles_itself and context.rebuild is not None and context.stand_ins is None


STEP = Step("own_compiles", run, requires=("capture",), is_requested=_is_requested)
"""Not a stage of a report."""
