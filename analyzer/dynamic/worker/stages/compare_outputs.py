"""Compare eager and compiled code with the same seeds and inputs: outputs, and effects of a call on the model and on
its arguments; in inference also those of a second call, and in training the gradients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import counted
from tcready.dynamic.worker.core.step import Step
from tcready.dynamic.worker.measure import gradients, other_values
from tcready.dynamic.worker.measure.agreement import UNSTEADY_WORDS, case_calls, judge, rounding_words
from tcready.dynamic.worker.measure.call_outcome import CallOutcome
from tcready.dynamic.worker.measure.output_comparison import tensors_in
from tcready.dynamic.worker.measure.parity_causes import find_cause
from tcready.dynamic.worker.measure.random_calls import calls_of
from tcready.schema.run import Compared


def run(context: Context) -> None:
    journal = context.journal
    journal.begin("parity")
    if context.raised_for_values:
        journal.end("fail", context.raised_for_values, "compile_error")
        return
    tensors = 0
    notes: list[str] = []
    compared: list[Compared] = []
    for pair in _pairs(context):
        case, label = pair.case, pair.case.label + (" in the second call" if pair.number > 1 else "")
        found = judge(context, pair.eager, pair.compiled, case_calls(context, case, number=pair.number))
        if pair.number == 1:
            tensors += tensors_in(pair.eager)
        if found.compared is not None and (pair.number == 1 or not found.ok):
            compared.append(replace(found.compared, case=case.name))
            journal.add(compared=tuple(compared))
        if found.verdict == "not_comparable":
            journal.end("not_run", f"{UNSTEADY_WORDS}{label}", "not_comparable")
            return
        if found.verdict == "mistake":
            if pair.number == 1:
                journal.add(parity_cause=find_cause(context, case, pair.eager))
            journal.end("fail", found.text + label, "mismatch")
            return
        if found.compared is not None and pair.number == 1:
            notes.append(rounding_words(found.compared) + label)
    for unequal in context.unequal_random:
        found = judge(context, unequal.eager, unequal.compiled, calls_of(context, unequal))
        if found.verdict == "mistake":
            drawn = f", where random generators run on from call to call{unequal.case.label}"
            journal.end("fail", found.text + drawn, "mismatch")
            return
    for unequal in context.unequal_values:
        found = judge(context, unequal.eager, unequal.compiled, other_values.calls_of(context, unequal))
        if found.verdict == "mistake":
            journal.end("fail", f"{found.text}, called with other values{unequal.case.label}", "mismatch")
            return
    equal = [counted(tensors, "tensor")] if tensors else []
    if context.work.options.mode == "train":
        state, detail, reason = gradients.parity(context)
        if state == "fail":
            journal.end("fail", detail, reason)
            return
        if state == "pass":
            equal.append(detail)
    if not equal:
        journal.end("not_run", "no tensor in the outputs", "not_comparable")
    elif context.in_turn:
        journal.end("fail", context.in_turn, "mismatch")
    else:
        journal.end("pass", "; ".join([f"{', '.join(equal)} within tolerance", *notes]))


@dataclass(frozen=True)
class _Pair:
    """Outputs and effects of eager and compiled code in one call, the first or the second one of a case."""

    case: Case
    number: int
    eager: CallOutcome
    compiled: CallOutcome


def _pairs(context: Context) -> Iterator[_Pair]:
    for case, expected, actual in zip(context.cases, context.eager_outcomes, context.compiled_outcomes, strict=True):
        yield _Pair(case, 1, expected, actual)
        if case.label in context.eager_again and case.label in context.compiled_again:
            yield _Pair(case, 2, context.eager_again[case.label], context.compiled_again[case.label])


STEP = Step(
    "parity", run, requires=("capture", "in_turn"), is_requested=lambda context: context.compares, needs_values=True
)
