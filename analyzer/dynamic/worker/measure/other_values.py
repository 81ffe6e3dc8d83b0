"""Make one more call with inputs of the same sizes and other values.

All other calls of a run have the same inputs. Code that reads a number from a tensor, or takes one as an argument,
may compile for the first value and raise for the second: Dynamo makes the number a symbol only then. (0 and 1 it never
makes one.)
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
    Python number that Dynamo may make a symbol."""
    broke = graphs_ended(context)
    leaves = pytree.tree_leaves((case.args, case.kwargs))
    return any(_is_number(leaf) or (broke and _is_floating(leaf)) for leaf in leaves)


def varied_cases(case: Case) -> list[Case]:
    """Return the case with other floating values and Python integers, if it has such integers, and with other floating
    values alone: an integer may be a size, or choose what is computed. Tensors of integers do not change."""

    def other(leaf: Any, with_integers: bool) -> Any:
        if _is_floating(leaf):
            return (leaf.detach() * FACTOR).requires_grad_(leaf.requires_grad)
        if _is_symbolic_integer(leaf):
            return leaf + 1 if with_integers else leaf
        return leaf * FACTOR if isinstance(leaf, float) else leaf

    leaves, structure = pytree.tree_flatten((case.args, case.kwargs))
    found = []
    for with_integers in (True, False) if any(map(_is_symbolic_integer, leaves)) else (False,):
        args, kwargs = pytree.tree_unflatten([other(leaf, with_integers) for leaf in leaves], structure)
        found.append(replace(case, args=args, kwargs=kwargs))
    return found


def eager_output(context: Context, case: Case, other: Case) -> CallOutcome:
    """Return the output of eager code for the varied case after as many calls as compiled code had before. Raises what
    a call raises."""
    with torch.compiler.set_stance("force_eager"):
        model = context.build()
        for _ in CALLS:
            call(context, model, case)
        return copied(call(context, model, other))


def varied_output(context: Context, case: Case) -> tuple[Case, CallOutcome] | Exception:
    """Return the first varied case that eager code takes, and its output; what the last of them raised if none."""
    raised: Exception | None = None
    for other in varied_cases(case):
        try:
            return other, eager_output(context, case, other)
        except Exception as error:
            raised = error
    assert raised is not None
    return raised


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


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, float) or _is_symbolic_integer(leaf)


def _is_symbolic_integer(leaf: Any) -> bool:
    """Return whether Dynamo may make it a symbol."""
    return type(leaf) is int and leaf not in (0, 1)


def _is_floating(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
