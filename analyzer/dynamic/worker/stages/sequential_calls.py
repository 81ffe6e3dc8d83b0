"""Call one compiled callable with all cases, one after the other, as the owner of a live object would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tcready.dynamic.worker.core import compiled_calls
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import StageFailedError, one_line
from tcready.dynamic.worker.core.step import Step
from tcready.dynamic.worker.measure.agreement import ComparedCalls, Prepare, judge
from tcready.dynamic.worker.measure.call_outcome import CallOutcome, join_outcomes
from tcready.dynamic.worker.measure.effects import outcome_of_call
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.compile_calls import compile_callable
from tcready.dynamic.worker.torch_internals.recording import recording
from tcready.portable.events.record import Record


def run(context: Context) -> None:
    """Add breaks and recompilations to the journal, and set `context.in_turn` if outputs differ.

    Raises StageFailedError if a call raises. If an eager call does, the stage `eager` fails, else the stage `capture`.
    """
    journal = context.journal
    try:
        with torch.compiler.set_stance("force_eager"):
            model = context.build()
            expected = _outcome(context, model, model, _unchanged)
    except Exception as error:
        journal.begin("eager")
        journal.end("fail", f"calling the cases in turn raised {one_line(error, context.work.root)}", "error")
        raise StageFailedError from error
    del model  # it shares its parameters with the model that `judge` widens: both would be held
    actual = _compiled_in_turn(context)
    dynamo.reset()

    def run(model: Any, prepare: Prepare, is_compiled: bool) -> CallOutcome:
        if is_compiled:
            dynamo.reset()
        return _outcome(context, model, _compiled(context, model) if is_compiled else model, prepare)

    found = judge(context, expected, actual, ComparedCalls(run))
    context.in_turn = f"{found.text}, called in turn" if found.verdict == "mistake" else None


def _compiled_in_turn(context: Context) -> CallOutcome:
    """Return the joint outcome of all cases, called one after the other with one compiled callable."""
    journal = context.journal
    dynamo.reset()
    model = context.build()
    compiled = _compiled(context, model)
    actual: dict[str, CallOutcome] = {}
    for case in context.cases:
        record = Record()
        try:
            watching = recording(record, every_guard=True)
            actual[case.label] = outcome_of_call(context, model, compiled, case, watching)
        except Exception as error:
            journal.begin("capture")
            why = f"called in turn, {case.name} raised {one_line(error, context.work.root)}"
            journal.end("fail", why, "compile_error")
            raise StageFailedError from error
        finally:
            compiled_calls.add(context, record, case, warm=False)
    return join_outcomes(actual)


def _unchanged(case: Case) -> Case:
    return case


def _outcome(context: Context, model: Any, function: Callable[..., Any], prepare: Prepare) -> CallOutcome:
    """Return the joint outcome of all cases, called one after the other."""
    each = {case.label: outcome_of_call(context, model, function, prepare(case)) for case in context.cases}
    return join_outcomes(each)


def _compiled(context: Context, model: Any) -> Callable[..., Any]:
    compiled: Callable[..., Any] = compile_callable(model, backend="eager", **context.compile_options)
    return compiled


def _is_requested(context: Context) -> bool:
    return context.given and not context.as_a_target and len(context.cases) > 1


STEP = Step("in_turn", run, requires=("capture",), is_requested=_is_requested)
