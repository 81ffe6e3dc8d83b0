"""Find and describe operators and functions that are neither Python nor torch's own, and check them with opcheck."""

from __future__ import annotations

import time
from typing import Any

import torch
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.step import Step
from tcready.dynamic.worker.custom_ops import native_calls
from tcready.dynamic.worker.custom_ops.observed_calls import Seen
from tcready.dynamic.worker.custom_ops.operator_calls import MANY_ELEMENTS, copied, record_custom_ops
from tcready.dynamic.worker.torch_internals import dynamo, pytree
from tcready.schema.run import OpCheck

CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
"""The tests of `torch.library.opcheck`, in its order."""
CHECKS_SECONDS = 20.0
"""Seconds after which no further test of opcheck is begun."""
UNDER_WAY = "under way when the process ended"


def run(context: Context) -> None:
    """Run the stage. It does not require capturing, which often fails because an operator has no fake kernel."""
    native_calls.find_native_calls(context)
    record_custom_ops(context)
    check(context)


def check(context: Context) -> None:
    """Run `torch.library.opcheck` on what was observed of each operator, test by test, within CHECKS_SECONDS."""
    found = context.custom_ops
    started = time.monotonic()
    for seen in list(found.seen.values()):
        if seen.operator is None or seen.name in found.checks or seen.call is None:
            continue
        why = ""
        if not seen.call.whole:
            why = f"the arguments have more than {MANY_ELEMENTS:,} elements"
        results: list[OpCheck] = []
        for name in CHECKS:
            reason = why or (f"cut after {CHECKS_SECONDS:g} s" if time.monotonic() - started > CHECKS_SECONDS else "")
            if reason:
                results.append(OpCheck(name, "not_run", reason))
                continue
            found.checks[seen.name] = (*results, OpCheck(name, "not_run", UNDER_WAY))
            record_custom_ops(context)
            results.append(_check(seen, name))
        found.checks[seen.name] = tuple(results)
        record_custom_ops(context)
    if found.checks:
        dynamo.reset()


def _check(seen: Seen, name: str) -> OpCheck:
    assert seen.call is not None
    args, kwargs = pytree.tree_map_only(torch.Tensor, copied, (seen.call.args, seen.call.kwargs))
    try:
        verdict = torch.library.opcheck(seen.operator, args, kwargs, test_utils=name, raise_exception=False)[name]
    except Exception as error:
        return OpCheck(name, "not_run", f"opcheck itself failed: {_first_line(error)}")
    return OpCheck(name, "pass") if verdict == "SUCCESS" else OpCheck(name, "fail", _first_line(verdict))


def _first_line(error: Any) -> str:
    """Return an exception in one line; opcheck returns exceptions instead of raising them."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ": ".join([type(error).__name__, *lines[:1]])[:300]


STEP = Step("custom_ops", run, requires=("eager",), needs_values=True)
