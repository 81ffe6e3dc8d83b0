"""Eager against compiled, of the same seeds and inputs: outputs, and in training gradients and buffers."""

from __future__ import annotations

from tcready.dynamic.worker import gradients
from tcready.dynamic.worker.calling import eager_again
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.journal import counted
from tcready.dynamic.worker.parity import compare
from tcready.dynamic.worker.step import Step


def run(context: Context) -> None:
    journal = context.journal
    journal.begin("parity")
    compared = 0
    equal: list[str] = []
    for case, expected, actual in zip(
        context.cases, context.eager_outputs, context.compiled_outputs, strict=True
    ):
        result = compare(expected, actual, context.tolerance)
        compared += result.tensors
        if result.difference and compare(expected, eager_again(context, case), context.tolerance).difference:
            why = f"eager differs from eager under the same seeds{case.label}"
            journal.end("not_run", why, "not_comparable")
            return
        if result.difference:
            journal.end("fail", result.difference + case.label, "mismatch")
            return
    if compared:
        equal.append(counted(compared, "tensor"))
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
        journal.end("pass", f"{', '.join(equal)} within tolerance")


STEP = Step(
    "parity", run, requires=("capture", "in_turn"), asked=lambda context: context.compares, needs_values=True
)
