"""Make calls with the same inputs without resetting random generators: all other calls of a run start from one seed.

Code that draws with Python's or NumPy's generators may be recompiled for each number, or keep the numbers of its
first call. Neither shows in calls that draw the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from tcready.dynamic.worker.core.calling import CALLS, call, seed_generators
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.generators import Generators
from tcready.dynamic.worker.measure.agreement import ComparedCalls, Prepare
from tcready.dynamic.worker.measure.call_outcome import CallOutcome, Unequal, join_outcomes
from tcready.dynamic.worker.measure.outcome_structure import differs
from tcready.dynamic.worker.measure.output_comparison import outcome_of
from tcready.dynamic.worker.torch_internals import dynamo, pytree
from tcready.dynamic.worker.torch_internals.compile_calls import compile_callable
from tcready.dynamic.worker.torch_internals.recording import recording
from tcready.portable.events.record import RECOMPILE_LIMIT, Record

COMPARED = 5
"""The number of calls that are compared; the first draws what every other call of the run draws."""
OFTEN = 3
"""If that many of the others recompile, calls continue until the limit is reached, or until `FURTHER` calls were made."""
FURTHER = 16


def may_vary(context: Context, eager: Generators, compiled: Generators) -> bool:
    """Return whether calls that draw other numbers may recompile or return something else, judging by the generator
    states after an eager and a compiled call.

    Numbers that operations of one graph draw are drawn again in each call. Python's and NumPy's numbers are not, nor
    are numbers that compiled code does not draw, and after a break any number may be a constant.
    """
    seed_generators()
    seeded = Generators.now()
    if eager == seeded:
        return False
    return graphs_ended(context) or eager != compiled or eager.others != seeded.others


def graphs_ended(context: Context) -> bool:
    """Return whether Dynamo ended a graph, or skipped a frame with tensor operations, in the calls so far."""
    seen = context.journal.observation
    return bool(seen.break_sites) or any(not frame.benign for frame in seen.skipped_frames)


def eager_outputs(context: Context, case: Case) -> tuple[CallOutcome, ...]:
    """Return the outputs of calls of a new model. It is called as often before as the compiled model is. Raises what a
    call raises."""
    with torch.compiler.set_stance("force_eager"):
        model = context.build()
        for _ in CALLS:
            call(context, model, case)
        return tuple(_outputs(context, model, case, range(COMPARED)))


def compare_compiled(
    context: Context,
    compiled: Callable[..., Any],
    case: Case,
    expected: Sequence[CallOutcome],
    watching: Callable[[], contextlib.AbstractContextManager[Any]],
) -> tuple[Record, Unequal | None]:
    """Make the same calls of the compiled function. Return Dynamo's record of them, and the outputs that are not equal.

    Raises what a call raises.
    """
    record = Record()
    unequal: dict[int, CallOutcome] = {}
    again = 0

    def watched() -> Iterator[contextlib.AbstractContextManager[Any]]:
        yield recording(record, every_guard=True)
        yield watching()

    for number in range(COMPARED):
        before = len(record.recompiles)
        [output] = _outputs(context, compiled, case, [number], watched)
        again += len(record.recompiles) > before
        if differs(expected[number], output):
            unequal[number] = output
    if again >= OFTEN:
        for _ in range(FURTHER):
            if reached_limit(record):
                break
            call(context, compiled, case, *watched(), seed=False)
    if not unequal:
        return record, None
    numbers = tuple(unequal)
    return record, Unequal(case, numbers, _joined(numbers, expected), join_outcomes(_named(unequal)))


def reached_limit(record: Record) -> bool:
    """Return whether Dynamo stopped compiling a function because it was compiled too often."""
    return any(event.gb_type == RECOMPILE_LIMIT for event in record.skips)


def is_troubled(context: Context, case: Case) -> bool:
    """Return whether the unmodified model recompiles for other random numbers, or returns something else than eager
    code."""
    return case.label in context.eager_random and (
        bool(context.unequal_random) or any(event.on_other_numbers for event in context.journal.observation.recompiles)
    )


def calls_of(
    context: Context, unequal: Unequal, compiled: Callable[[Any], Callable[..., Any]] | None = None
) -> ComparedCalls:
    """Return the calls with unequal outputs, in a form that can be repeated. `compiled` compiles the model; by default
    it is compiled as in the stage `capture`."""

    def outputs(function: Any, case: Case) -> CallOutcome:
        made = tuple(_outputs(context, function, case, range(max(unequal.numbers) + 1)))
        return _joined(unequal.numbers, made)

    return repeated_calls(context, unequal, outputs, compiled)


def repeated_calls(
    context: Context,
    unequal: Unequal,
    outputs: Callable[[Any, Case], CallOutcome],
    compiled: Callable[[Any], Callable[..., Any]] | None = None,
) -> ComparedCalls:
    """Make the calls that lead up to unequal outputs, and return the result of `outputs` for a function and a case."""

    def compiling(model: Any) -> Callable[..., Any]:
        found: Callable[..., Any] = compile_callable(model, backend="eager", **context.compile_options)
        return found

    def run(model: Any, prepare: Prepare, is_compiled: bool) -> CallOutcome:
        function = model
        if is_compiled:
            dynamo.reset()
            function = (compiled or compiling)(model)
        case = prepare(unequal.case)
        before = case if unequal.before is None else prepare(unequal.before)
        for _ in CALLS:
            call(context, function, before)
        return outputs(function, case)

    return ComparedCalls(run, cases=(unequal.case,))


def _outputs(
    context: Context,
    function: Callable[..., Any],
    case: Case,
    numbers: Iterable[int],
    watchers: Callable[[], Iterable[contextlib.AbstractContextManager[Any]]] = tuple,
) -> Iterator[CallOutcome]:
    """Return the output of each call as copies, because later calls may write to it. The generators are seeded only for
    call 0."""
    for number in numbers:
        output = call(context, function, case, *watchers(), seed=number == 0)
        yield copied(output)


def copied(output: Any) -> CallOutcome:
    """Return a copy of an output, which later calls cannot change."""
    return outcome_of(pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), output))


def _joined(numbers: Sequence[int], outputs: Sequence[CallOutcome]) -> CallOutcome:
    return join_outcomes(_named({number: outputs[number] for number in numbers}))


def _named(outputs: dict[int, CallOutcome]) -> dict[str, CallOutcome]:
    """Return outputs by the suffix of their name."""
    return {f" of call {number + 1}": output for number, output in outputs.items()}
