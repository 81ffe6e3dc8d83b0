"""Capture graphs with Dynamo: three compiled calls of each case, with every break and recompilation, and counted
operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from tcready.dynamic.worker.bench import machine_load
from tcready.dynamic.worker.core import compiled_calls, distributed
from tcready.dynamic.worker.core.calling import CALLS, call, compile_error, error_place, time_again
from tcready.dynamic.worker.core.case import Case, NoValuesError, RunError
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.cost_attribution import compiled_again, find_owners
from tcready.dynamic.worker.core.generators import Generators
from tcready.dynamic.worker.core.journal import counted, one_line
from tcready.dynamic.worker.core.step import Step, failing
from tcready.dynamic.worker.custom_ops import operator_calls
from tcready.dynamic.worker.inputs.loss import Loss
from tcready.dynamic.worker.inputs.stand_ins import speaks_of_meta
from tcready.dynamic.worker.measure import other_values
from tcready.dynamic.worker.measure.call_outcome import sharing
from tcready.dynamic.worker.measure.coverage import coverage, weight_by_case, with_cost
from tcready.dynamic.worker.measure.dispatch_counts import CountingBackend, Counts, module_tree
from tcready.dynamic.worker.measure.effects import EffectRecorder
from tcready.dynamic.worker.measure.gradients import Trained, watched_step
from tcready.dynamic.worker.measure.random_calls import compare_compiled, eager_outputs, may_vary
from tcready.dynamic.worker.torch_internals import dynamo, tracing
from tcready.dynamic.worker.torch_internals.compile_calls import compile_callable
from tcready.dynamic.worker.torch_internals.recording import recording
from tcready.portable.events import to_schema
from tcready.portable.events.record import Record
from tcready.portable.events.to_schema import line_sets
from tcready.schema.capture_failures import CaptureFailures
from tcready.schema.run import Explain

NOTE = "capture under torch._dynamo.explain"


@dataclass
class _Captured:
    """Totals over all cases."""

    model: Any = None
    """The model that was compiled last; all cases have the same modules."""
    counts: Counts = field(default_factory=Counts)
    by_case: list[tuple[Case, Counts]] = field(default_factory=list)
    splits: distributed.Splits = field(default_factory=list)
    traced: set[tuple[str, int]] = field(default_factory=set)
    """Files and lines that Dynamo traced."""


def run(context: Context) -> None:
    """Store the outcome of the cold compiled call of each case in `context`; in inference, also that of the second
    call."""
    found = _Captured()
    context.compiled_outcomes, context.compiled_again, context.compiled_steps = [], {}, []
    context.eager_random, context.unequal_random, context.unequal_values = {}, [], []
    context.raised_for_values = None
    with failing(context, "capture", NOTE, "compile_error"):
        began = machine_load.Moment.now()
        for number, case in enumerate(context.cases):
            many = (number, len(context.cases)) if len(context.cases) > 1 else ()
            context.journal.write(f"{NOTE}{case.label}", *many)
            try:
                _case(context, case, found)
            finally:
                if context.stand_ins is not None:
                    context.stand_ins.report(context.journal)
        covered = weight_by_case(coverage(found.counts, context.work.options.device), found.by_case)
        if covered is not None and covered.time_share is not None:
            covered = replace(covered, busy=machine_load.others_between(began, machine_load.Moment.now()))
        context.journal.add(
            coverage=covered,
            ddp=distributed.describe_parallel(found.model, context.work, found.splits, context),
            modules=module_tree(found.model, found.counts, context.names, True),
            traced=line_sets(found.traced, context.names),
        )
        context.journal.end("pass", _summary(context))


def _case(context: Context, case: Case, found: _Captured) -> None:
    """Make the calls of one case; the cold call also provides the output of `torch._dynamo.explain`."""
    journal = context.journal
    dynamo.reset()
    model = found.model = context.build()
    if journal.observation.parallel is None:
        journal.add(parallel=distributed.shared_as(model, context))
        journal.write(journal.note, *journal.counted)  # if the process dies in the call, it names the call
    backend = CountingBackend(model, context.work.options.device)
    explained = dynamo.explaining(backend)
    compiled = compile_callable(
        distributed.wrap_in_ddp(model, context.work), backend=explained, **context.compile_options
    )
    observed = EffectRecorder(context, model, compiled)
    cold = Record()
    drawn: Generators | None = None
    with tracing.traced_into(context.work.options.trace_out):
        for name in CALLS:
            record = cold if name == CALLS[0] else Record()
            counting = [backend.count(), operator_calls.watching(context.custom_ops, case)] if name == CALLS[-1] else []
            # From the cold call on: a graph is replaced when it is made.
            watchers = [backend.adopting(), *counting]
            splitting = distributed.watching(found.splits, case.name, context)
            try:
                watching = [recording(record, every_guard=True), splitting, *watchers]
                if name == CALLS[0]:
                    steps, loss = context.compiled_steps, _loss(context)
                    output = watched_step(context, model, observed, case, watching, steps, loss)
                    drawn = Generators.now()
                    context.compiled_outcomes.append(observed.outcome(output))
                    del output
                elif name == CALLS[1] and case.label in context.eager_again:
                    output = call(context, observed, case, *watching)
                    second = observed.outcome(output)
                    context.compiled_again[case.label] = sharing(second, context.compiled_outcomes[-1])
                    del output
                else:  # in training the output would keep all activations
                    call(context, compiled, case, *watching)
            except Exception as error:
                _raise(context, case, error, name, cold)
            finally:
                compiled_calls.add(context, record, case, warm=name == CALLS[-1])
            found.traced |= record.traced
            if name == CALLS[0]:
                if journal.observation.explain is None:
                    journal.add(explain=_explain(explained.output()))
                backend.owners = find_owners(record, context.names)
            else:
                again = backend.owners.again | compiled_again(record)
                backend.owners = replace(backend.owners, again=again)
    if drawn is not None:
        _draw_on(context, compiled, case, drawn, backend, found, cold)
    _change_values(context, compiled, case, backend)
    if context.measures and context.stand_ins is None:
        time_again(context, compiled, case, backend)
    graphs = to_schema.graphs(cold, context.names, context.work.options.mode, case.name, backend.owned)
    journal.add(
        break_sites=with_cost(journal.observation.break_sites, case.name, backend.counts),
        graphs=(*journal.observation.graphs, *graphs),
    )
    found.counts.add(backend.counts)
    found.by_case.append((case, backend.counts))


def _change_values(context: Context, compiled: Callable[..., Any], case: Case, backend: CountingBackend) -> None:
    """Call eager and compiled code with other values, if these may lead to other code."""
    if not context.compares or context.work.options.processes or context.stand_ins is not None:
        return
    if not other_values.may_matter(context, case):
        return
    found = other_values.varied_output(context, case)
    if isinstance(found, Exception):
        why = one_line(found, context.work.root)
        context.journal.warn(f"a call with other values was not made: eager code raised {why}")
        return
    other, expected = found
    context.varied[case.label] = other
    try:
        unequal = other_values.compare_compiled(context, compiled, case, other, expected, backend.adopting())
    except Exception as error:
        why = f"called with other values, compiled code raised {compile_error(error, context)}{case.label}"
        context.raised_for_values = context.raised_for_values or why
        return
    # After calls with other random numbers, the state of the compiled model is not that of the eager one.
    if unequal is not None and case.label not in context.eager_random:
        context.unequal_values.append(unequal)


def _draw_on(
    context: Context,
    compiled: Callable[..., Any],
    case: Case,
    drawn: Generators,
    backend: CountingBackend,
    found: _Captured,
    cold: Record,
) -> None:
    """Make calls between which random generators run on, eager and compiled, if the model may depend on that. Not in a
    run over several processes, of which each draws its own numbers."""
    if not context.compares or context.work.options.processes or context.stand_ins is not None:
        return
    if not may_vary(context, context.eager_generators[case.label], drawn):
        return
    try:
        expected = context.eager_random[case.label] = eager_outputs(context, case)
    except Exception as error:
        why = one_line(error, context.work.root)
        context.journal.warn(f"calls with other random numbers were not made: eager code raised {why}")
        return
    try:
        record, unequal = compare_compiled(context, compiled, case, expected, backend.adopting)
    except Exception as error:
        _raise(context, case, error, "next", cold)
    compiled_calls.add_drawing(context, record, case)
    context.unequal_random += [unequal] if unequal is not None else []
    found.traced |= record.traced


def _loss(context: Context) -> Loss | None:
    """Return the loss of the eager step of the next case; None if it has none."""
    at = len(context.compiled_outcomes)
    step = context.eager_steps[at] if at < len(context.eager_steps) else None
    return step.loss if isinstance(step, Trained) else None


def _raise(context: Context, case: Case, error: Exception, name: str, cold: Record) -> NoReturn:
    """Raise RunError, or NoValuesError if missing values may be the cause. In that case, earlier graphs are reported."""
    why, stand_ins = compile_error(error, context, name), context.stand_ins
    eager = context.journal.done.get("eager")
    if stand_ins is None or (not speaks_of_meta(error) and (eager is None or eager.state == "pass")):
        raise RunError(why) from error
    journal = context.journal
    graphs = to_schema.graphs(cold, context.names, context.work.options.mode, case.name, {})
    journal.add(graphs=(*journal.observation.graphs, *graphs))
    place = error_place(error)
    raise NoValuesError(f"{why}; {stand_ins.unknown_from(place[:2] if place else None)}") from error


def _explain(found: Any) -> Explain:
    """Return the output of explain for the graphs and reasons that it collected."""
    reasons = tuple(str(item.reason).strip().split("\n")[0] for item in found.break_reasons)
    return Explain(found.graph_count, found.graph_break_count, reasons, found.op_count)


def _summary(context: Context) -> str:
    seen = context.journal.observation
    return f"{counted(len(seen.graphs), 'graph')}, {CaptureFailures.of(seen).summary()}"


STEP = Step("capture", run, requires=("eager",))
