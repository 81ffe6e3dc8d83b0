"""Make one more call with inputs of the same sizes and other values.

All other calls of a run have the same inputs. Code that reads a number from a tensor, or takes one as an argument,
may compile for the first value and raise for the second: Dynamo makes the number a symbol only then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from tcready.dynamic.worker.core.calling import CALLS, call
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.measure.agreement import ComparedCalls
from tcready.dynamic.worker.measure.call_outcome import CallOutcome, Unequal
from tcready.dynamic.worker.measure.outcome_structure import differs
from tcready.dynamic.worker.measure.random_calls import copied, graphs_ended, repeated_calls
from tcready.dynamic.worker.torch_internals import pytree

FACTOR = 0.75
"""The factor for floating values: values between bounds that contain 0 remain between them."""


def may_matter(context: Context, case: Case) -> bool:
    """Return whether other values may lead to other code: values are read where a graph ends, or an argument is a
    Python float."""
    broke = graphs_ended(context)
    leaves = pytree.tree_leaves((case.args, case.kwargs))
    return any(isinstance(leaf, float) or (broke and _is_floating(leaf)) for leaf in leaves)


def vary_values(case: Case) -> Case:
    """The case with other floating values. Integers do not change, since they may be sizes or choose what is computed."""

    def other(leaf: Any) -> Any:
        if _is_floating(leaf):
            return (leaf.detach() * FACTOR).requires_grad_(leaf.requires_grad)
        return leaf * FACTOR if isinstance(leaf, float) else leaf

    args, kwargs = pytree.tree_map(other, (case.args, case.kwargs))
    return replace(case, args=args, kwargs=kwargs)


def eager_output(context: Context, case: Case, other: Case) -> CallOutcome:
    """Return the output of eager code for the varied case after as many calls as compiled code had before. Raises what
    a call raises."""
    with torch.compiler.set_stance("force_eager"):
        model = context.build()
        for _ in CALLS:
            call(context, model, case)
        return copied(call(context, model, other))


def compare_compiled(
    context: Context,
    compiled: Callable[..., Any],
    case: Case,
    other: Case,
    expected: CallOutcome,
    *watchers: contextlib.AbstractContextManager[Any],
) -> Unequal | None:
    """Call the compiled function with the varied case; return the outputs if they are not equal. Raises what the call
    raises."""
    output = copied(call(context, compiled, other, *watchers))
    return Unequal(other, (0,), expected, output, before=case) if differs(expected, output) else None


def calls_of(context: Context, unequal: Unequal) -> ComparedCalls:
    """Return the earlier calls and the call with unequal outputs, in a form that can be repeated."""
    return repeated_calls(context, unequal, lambda function, case: copied(call(context, function, case)))


def _is_floating(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
