"""One compiled callable for several calls of an object that was given, one after the other, as its owner calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tcready.dynamic.worker import compiled_calls
from tcready.dynamic.worker.calling import call
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.journal import StageFailedError, one_line
from tcready.dynamic.worker.parity import compare
from tcready.dynamic.worker.step import Step
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.placement import compile_callable
from tcready.dynamic.worker.torch_internals.recording import recording
from tcready.events.record import Record


def run(context: Context) -> None:
    """What recompiles or breaks is added to the journal; `in_turn` of the context says how outputs differ.

    Raises StageFailedError where it raises; where the eager one does, too, that is the failure.
    """
    journal = context.journal
    try:
        with torch.compiler.set_stance("force_eager"):
            expected, again = (_all_outputs(context, context.build()) for _ in range(2))
    except Exception as error:
        journal.begin("eager")
        journal.end("fail", f"the calls in turn raised {one_line(error, context.work.root)}", "error")
        raise StageFailedError from error
    if any(compare(*pair, context.tolerance).difference for pair in zip(expected, again, strict=True)):
        expected = []
    dynamo.reset()
    compiled = compile_callable(context.build(), backend="eager", **context.compile_options)
    for index, case in enumerate(context.cases):
        record = Record()
        try:
            output = call(context, compiled, case, recording(record, every_guard=True))
        except Exception as error:
            journal.begin("capture")
            why = f"called in turn, {case.name} raised {one_line(error, context.work.root)}"
            journal.end("fail", why, "compile_error")
            raise StageFailedError from error
        finally:
            compiled_calls.add(context, record, case, warm=False)
        if index < len(expected) and context.in_turn is None:
            difference = compare(expected[index], output, context.tolerance).difference
            context.in_turn = f"{difference}{case.label}, called in turn" if difference else None


def _all_outputs(context: Context, function: Callable[..., Any]) -> list[Any]:
    return [call(context, function, case) for case in context.cases]


def _asked(context: Context) -> bool:
    return context.given and not context.as_a_target and len(context.cases) > 1


STEP = Step("in_turn", run, requires=("capture",), asked=_asked)
