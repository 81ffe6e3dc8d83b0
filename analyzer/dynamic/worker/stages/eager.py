"""Run the model without compiling: its outputs, the lines that run, its operations by module."""

from __future__ import annotations

import contextlib
import inspect
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tcready.dynamic.worker.core.case import Case, RunError
from tcready.dynamic.worker.core.compile_markers import find_intents
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.generators import Generators
from tcready.dynamic.worker.core.journal import one_line, user_place
from tcready.dynamic.worker.core.lines import executed_lines
from tcready.dynamic.worker.core.memory import measured_call
from tcready.dynamic.worker.core.step import Step, failing
from tcready.dynamic.worker.custom_ops import operator_calls
from tcready.dynamic.worker.inputs.stand_ins import StandIns, speaks_of_meta
from tcready.dynamic.worker.measure.call_outcome import sharing
from tcready.dynamic.worker.measure.dispatch_counts import Counts, counted_eager, module_tree
from tcready.dynamic.worker.measure.effects import EffectRecorder, outcome_of_call
from tcready.dynamic.worker.measure.gradients import watched_step
from tcready.portable.events.to_schema import line_sets


def run(context: Context) -> None:
    """Store the outcome of one eager call per case in `context`; in inference, also that of a second call."""
    lines: set[tuple[str, int]] = set()
    counts = Counts()
    context.eager_outcomes, context.eager_again, context.eager_steps = [], {}, []
    context.eager_generators = {}
    unknown = ""
    with failing(context, "eager"):
        for case in context.cases:
            model = context.build()
            if context.stand_ins is not None:
                model, unknown = _without_values(context, context.stand_ins, case, lines, counts)
                if unknown:
                    break
                continue
            with torch.compiler.set_stance("force_eager"), _naming_the_mode(context):
                observed = EffectRecorder(context, model, model)
                try:
                    output = _count_operations(context, model, observed, case, counts, lines)
                except Exception as error:  # the model raises, does not bear a mode around it, or is no good copy
                    context.stop_copying()
                    model = context.build()
                    observed = EffectRecorder(context, model, model)
                    watching = _watching(context, lines)
                    output = watched_step(context, model, observed, case, [watching], context.eager_steps)
                    context.journal.warn(f"operations were not counted by module: {one_line(error, context.work.root)}")
            context.eager_generators[case.label] = Generators.now()
            _refuse_asynchronous(output)
            context.eager_outcomes.append(observed.outcome(output))
            _call_again(context, model, observed, case)
        context.journal.add(
            executed=line_sets(lines, context.names),
            modules=module_tree(model, counts, context.names, False),
            intents=find_intents(model, lines, context.names),
        )
        if unknown:
            context.journal.end("fail", unknown, "no_values")
        else:
            context.journal.end("pass")
    operator_calls.record_custom_ops(context)


def _call_again(context: Context, model: Any, observed: EffectRecorder, case: Case) -> None:
    """In inference, store the outcome of a second call. It is made only if the first call changed something."""
    if context.work.options.mode != "infer" or not context.compares:
        return
    if not observed.changed:
        context.eager_again[case.label] = context.eager_outcomes[-1]
        return
    with torch.compiler.set_stance("force_eager"), contextlib.suppress(Exception):
        again = outcome_of_call(context, model, model, case)
        context.eager_again[case.label] = sharing(again, context.eager_outcomes[-1])


def _count_operations(
    context: Context, model: Any, function: Callable[..., Any], case: Case, counts: Counts, lines: set[tuple[str, int]]
) -> Any:
    """The output of a call of `function`, which calls `model`, with operations counted for the module that makes them."""
    own = Counts()
    watchers = [_watching(context, lines), counted_eager(model, own), operator_calls.watching(context.custom_ops, case)]
    with measured_call(context):
        output = watched_step(context, model, function, case, watchers, context.eager_steps)
    counts.add(own)
    return output


def _without_values(
    context: Context, stand_ins: StandIns, case: Case, lines: set[tuple[str, int]], counts: Counts
) -> tuple[Any, str]:
    """Make one eager call on the device `meta`. Return the model and why the call failed; the reason is empty if it
    did not.

    Compiled code starts with the same lines, so the run continues for breaks before the failing line. Raises the
    error of the call if it does not come from missing values.
    """
    model: Any = None

    def once() -> Any:
        nonlocal model
        model = context.build()
        with torch.compiler.set_stance("force_eager"), _naming_the_mode(context):
            return _count_operations(context, model, model, case, counts, lines)

    try:
        output = stand_ins.first(once)
    except Exception as error:
        if not stand_ins.found and not speaks_of_meta(error):
            raise
        return model, f"{one_line(error, context.work.root)}; {stand_ins.unknown_from(user_place(error))}"
    finally:
        stand_ins.report(context.journal)
    _refuse_asynchronous(output)
    return model, ""


@contextlib.contextmanager
def _naming_the_mode(context: Context) -> Iterator[None]:
    """In a run without gradients, turn an error from torch.autograd into a RunError that names `--mode train`."""
    try:
        yield
    except Exception as error:
        frames = traceback.walk_tb(error.__traceback__)
        if context.work.options.mode != "infer" or all(
            frame.f_code.co_filename != torch.autograd.__file__ for frame, _ in frames
        ):
            raise
        raise RunError(
            f"{one_line(error, context.work.root)}; only a run with --mode train records gradients"
        ) from error


def _refuse_asynchronous(output: Any) -> None:
    """Raise RunError if a call only created a coroutine: its code did not run, and nothing was captured."""
    if inspect.iscoroutine(output):
        output.close()  # else Python warns that it was never awaited
    elif not inspect.isasyncgen(output):
        return
    raise RunError(
        "the call returned a coroutine or an asynchronous generator: its code did not run, and torch.compile does "
        "not compile it; check the plain function or module that it calls"
    )


def _watching(context: Context, lines: set[tuple[str, int]]) -> contextlib.AbstractContextManager[None]:
    return executed_lines(lines) if context.watches_lines else contextlib.nullcontext()


STEP = Step("eager", run, requires=("build",))
