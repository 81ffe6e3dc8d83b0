"""Eager against compiled, of the same seeds and inputs: outputs, and in training gradients and buffers."""

from __future__ import annotations

from dataclasses import replace

from tcready.dynamic.worker import gradients
from tcready.dynamic.worker.agreement import UNSTEADY_WORDS, case_calls, judge, rounding_words
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.journal import counted
from tcready.dynamic.worker.parity import outcome_of, tensors_in
from tcready.dynamic.worker.step import Step
from tcready.schema.run import Compared


def run(context: Context) -> None:
    journal = context.journal
    journal.begin("parity")
    tensors = 0
    notes: list[str] = []
    compared: list[Compared] = []
    for case, expected, actual in zip(
        context.cases, context.eager_outputs, context.compiled_outputs, strict=True
    ):
        one, other = outcome_of(expected), outcome_of(actual)
        found = judge(context, one, other, case_calls(context, case))
        tensors += tensors_in(one)
        if found.compared is not None:
            compared.append(replace(found.compared, case=case.name))
            journal.add(compared=tuple(compared))
        if found.verdict == "not_comparable":
            journal.end("not_run", f"{UNSTEADY_WORDS}{case.label}", "not_comparable")
            return
        if found.verdict == "mistake":
            journal.end("fail", found.text + case.label, "mismatch")
            return
        if found.compared is not None:
            notes.append(rounding_words(found.compared) + case.label)
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


STEP = Step(
    "parity", run, requires=("capture", "in_turn"), asked=lambda context: context.compares, needs_values=True
)
