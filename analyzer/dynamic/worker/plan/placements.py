"""Execute one placement of `torch.compile` in a new copy of the model, and measure it."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tcready.dynamic.worker.core.calling import QUICK, call, compile_error, settle, time_again
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import counted, one_line
from tcready.dynamic.worker.measure import gradients
from tcready.dynamic.worker.measure.agreement import case_calls, judge
from tcready.dynamic.worker.measure.call_outcome import CallOutcome, Unequal
from tcready.dynamic.worker.measure.coverage import coverage, weight_by_case
from tcready.dynamic.worker.measure.dispatch_counts import CountingBackend, Counts, module_tree
from tcready.dynamic.worker.measure.effects import EffectRecorder
from tcready.dynamic.worker.measure.outcome_structure import differs
from tcready.dynamic.worker.measure.output_comparison import compare, tensors_in
from tcready.dynamic.worker.measure.random_calls import calls_of, compare_compiled, is_troubled, reached_limit
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.compile_calls import execute, restored
from tcready.dynamic.worker.torch_internals.recording import recording
from tcready.portable.events import to_schema
from tcready.portable.events.record import RECOMPILE_LIMIT, Record
from tcready.schema.observation import ModuleShare
from tcready.schema.run import Coverage
from torch import nn

WARM_CALLS = 3
"""The number of calls over which the time of a warm call is the median, if they are quick."""


@dataclass(frozen=True)
class ExpectedOutputs:
    """The results of eager code, by case."""

    outcomes: Sequence[CallOutcome] | None
    """None if nothing can be compared: eager runs differ, or return no tensor."""
    steps: Sequence[gradients.Trained] = ()
    """In training, if there is something to train."""


@dataclass
class Measured:
    """The result of executing one placement, over all cases."""

    error: str | None = None
    """The exception of the lines, or of a call after them."""
    difference: str | None = None
    """The difference between an output and that of eager."""
    compared: bool = False
    graphs: int = 0
    recompiles: int = 0
    identical: int = 0
    """The number of functions that were recompiled in the third of three calls with the same inputs."""
    limit: bool = False
    """True if a function reached the recompile limit."""
    sites: dict[tuple[str, int], str] = field(default_factory=dict)
    """The places of breaks, with their reasons."""
    compile_seconds: float = 0.0
    steady_seconds: float = 0.0
    coverage: Coverage | None = None
    modules: tuple[ModuleShare, ...] = ()
    """The module tree with the captured operations of each module."""
    called: Mapping[str, int] = field(default_factory=dict)
    """Operations in graphs, by the module that called the graph."""
    keys: tuple[str, ...] = ()
    """Keys of the state_dict that changed."""
    draws_to_limit: bool = False
    """True if calls in which only random numbers differ are recompiled up to the limit."""
    unequal_random: list[Unequal] = field(default_factory=list)
    step_error: str | None = None
    """The exception of a training step through AOTAutograd."""

    @property
    def against(self) -> str | None:
        """Return why the placement is rejected; None if it works."""
        if self.error is not None:
            return f"raised: {to_schema.ADDRESS.sub('', self.error)}"
        if self.step_error is not None:
            return f"cannot be trained: a step through AOTAutograd raised {to_schema.ADDRESS.sub('', self.step_error)}"
        if self.difference is not None:
            return f"differs from eager: {self.difference}"
        if self.identical:
            return f"compiles again on an identical call ({counted(self.identical, 'function')})"
        if self.draws_to_limit:
            return "compiles again for other random numbers, until the limit"
        return None


def measure(context: Context, code: str, expected: ExpectedOutputs) -> Measured:
    """Execute `code` on a new model and call it three times with the inputs of each case.

    The backend is the counting one: graphs run like eager code. Exceptions are part of the result.
    """
    found = Measured()
    unequal: list[tuple[Case, CallOutcome, CallOutcome]] = []
    counts = Counts()
    by_case: list[tuple[Case, Counts]] = []
    model: Any = None
    try:
        for index, case in enumerate(context.cases):
            with fresh(context) as model:
                backend = CountingBackend(model, context.work.options.device)
                keys = keys_of(model)
                placed = execute(code, model, backend)
                found.keys = changed_keys(keys, placed)
                with backend.adopting():
                    other = _case(context, case, model, placed, backend, found)
            if expected.outcomes is not None:
                one = expected.outcomes[index]
                found.compared = found.compared or tensors_in(one) > 0
                if context.work.options.processes or differs(one, other):
                    unequal.append((case, one, other))
            counts.add(backend.counts)
            by_case.append((case, backend.counts))
            if expected.steps and found.step_error is None and found.difference is None:
                _step(context, code, case, expected.steps[index], found)
        for case, one, other in unequal:
            if (
                found.difference is None
                and not (agrees := judge(context, one, other, case_calls(context, case, _make_placing(code)))).ok
            ):
                found.difference = agrees.text + case.label
        for each in found.unequal_random:
            agrees = judge(context, each.eager, each.compiled, calls_of(context, each, _make_placing(code)))
            if not agrees.ok:
                found.difference = found.difference or agrees.text + each.case.label
    except Exception as error:
        found.error = compile_error(error, context)
        return found
    finally:
        dynamo.reset()
    found.coverage = weight_by_case(coverage(counts, context.work.options.device), by_case)
    found.modules = module_tree(model, counts, context.names, True)
    found.called = counts.called
    return found


@contextlib.contextmanager
def fresh(context: Context) -> Iterator[Any]:
    """Yield a newly built model, with nothing compiled. Changes that lines of a plan make beside it are undone
    afterwards."""
    dynamo.reset()
    model = context.build()
    classes = [type(module) for module in model.modules()] if isinstance(model, nn.Module) else []
    with restored(classes):
        yield model


def _case(
    context: Context, case: Case, model: Any, placed: Any, backend: CountingBackend, found: Measured
) -> CallOutcome:
    """Make three calls, and more that are timed. Return the outcome of the first."""
    cold, second, warm = Record(), Record(), Record()
    started = time.perf_counter()
    observed = EffectRecorder(context, model, placed)
    output = call(context, observed, case, recording(cold))
    cold_seconds = time.perf_counter() - started
    outcome = observed.outcome(output)
    call(context, placed, case, recording(second))
    call(context, placed, case, recording(warm), backend.count())
    if is_troubled(context, case):
        drawing, unequal = compare_compiled(context, placed, case, context.eager_random[case.label], backend.adopting)
        found.draws_to_limit = found.draws_to_limit or reached_limit(drawing)
        found.unequal_random += [unequal] if unequal is not None else []
    steady = steady_seconds(context, placed, case)
    time_again(context, placed, case, backend)
    found.graphs += sum(1 for frame in cold.compiled if frame.ops)
    found.recompiles += sum(1 for record in (cold, second, warm) for event in record.recompiles if event.recompiled)
    found.identical += sum(1 for event in warm.recompiles if event.recompiled)
    found.limit = found.limit or any(
        event.gb_type == RECOMPILE_LIMIT for record in (cold, second, warm) for event in record.skips
    )
    if context.raised_for_values:  # so may this
        call(context, placed, context.varied.get(case.label, case), backend.adopting())
    for site in to_schema.break_sites(cold, context.names, case.name):
        found.sites.setdefault((site.path, site.line), site.reason)
    found.compile_seconds += max(0.0, cold_seconds - steady)
    found.steady_seconds += steady
    return outcome


def _make_placing(code: str, backend: str | None = "eager") -> Callable[[Any], Callable[..., Any]]:
    """Return a function that executes the lines of a placement on a model; by default its graphs run like eager code,
    and with None the lines choose the backend."""
    return lambda model: execute(code, model, backend)


def steady_seconds(context: Context, function: Any, case: Case) -> float:
    """Return the seconds of a warm call, the median of several if they are quick."""
    spent: list[float] = []
    while len(spent) < WARM_CALLS and sum(spent) < QUICK:
        settle(context)
        started = time.perf_counter()
        call(context, function, case)
        settle(context)
        spent.append(time.perf_counter() - started)
    return statistics.median(spent)


def _step(context: Context, code: str, case: Case, expected: gradients.Trained, found: Measured) -> None:
    """Compare gradients and buffers of one training step with those of eager code.

    The step goes through AOTAutograd. If that draws other random numbers than eager code, the gradients of the
    captured graphs are compared instead.
    """
    placing = _make_placing(code, gradients.THROUGH_AOT)
    try:
        actual = _train(context, placing, case, expected)
    except Exception as error:
        found.step_error = one_line(dynamo.inner_error(error), context.work.root)
        return
    if actual.random and compare(expected.output, actual.output).difference:
        placing = _make_placing(code)
        actual = _train(context, placing, case, expected)
    found.compared = found.compared or any(each is not None for each in expected.gradients.values())
    agrees = gradients.judge_step(context, case, expected, actual, placing)
    if agrees.verdict == "mistake":
        found.difference = f"{agrees.text}{case.label}"


def raises_with_inductor(context: Context, code: str, expected: ExpectedOutputs) -> str | None:
    """Return the exception that a call, and a training step if there is one, raises if Inductor compiles."""
    placing = _make_placing(code, None)
    try:
        for index, case in enumerate(context.cases):
            with fresh(context) as model:
                call(context, placing(model), case)
            if expected.steps:
                _train(context, placing, case, expected.steps[index])
    except Exception as error:  # of Inductor, or of the model itself
        return compile_error(error, context)
    finally:
        dynamo.reset()
    return None


def _train(
    context: Context, placing: Callable[[Any], Callable[..., Any]], case: Case, expected: gradients.Trained
) -> gradients.Trained:
    """Return the step of a new model that is compiled in this way."""
    with fresh(context) as model:
        return gradients.train(context, model, placing(model), case, expected.loss)


def changed_keys(before: Mapping[str, int], placed: Any) -> tuple[str, ...]:
    """Return keys under which eager code would no longer find its parameters, as `old -> new`."""
    after = keys_of(placed)
    named = {tensor: key for key, tensor in before.items()}
    renamed = {key: named[tensor] for key, tensor in after.items() if key not in before and tensor in named}
    gone = set(before) - set(after) - set(renamed.values())
    return (*(f"{old} -> {new}" for new, old in renamed.items()), *(f"{key} is gone" for key in sorted(gone)))


def keys_of(model: Any) -> dict[str, int]:
    """Return each key of the state_dict with the identity of its tensor."""
    if not isinstance(model, nn.Module):
        return {}
    return {key: id(value) for key, value in model.state_dict(keep_vars=True).items()}
