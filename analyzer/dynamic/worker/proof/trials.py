"""The work of one process of a proof: the unmodified code makes the trace, and each variant is compared with it."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.pipeline import TO_GRAPHS
from tcready.dynamic.worker.core.step import climb
from tcready.dynamic.worker.measure.precision import NotWideError
from tcready.dynamic.worker.proof.behaviour import Behaviour
from tcready.dynamic.worker.proof.behaviour_differences import (
    another_message,
    changes_between_calls,
    difference,
    noticed,
    restless,
    same_digits,
)
from tcready.dynamic.worker.proof.branch_coverage import BranchCoverage
from tcready.dynamic.worker.proof.building import begin, start, weights_built
from tcready.dynamic.worker.proof.calls import (
    Key,
    alone,
    calls_of_model,
    cost,
    numbers_of_callees,
    reached_modules,
    sizes_beside_integers,
)
from tcready.dynamic.worker.proof.compiled_comparison import capture_variant, compiled_errors_of
from tcready.dynamic.worker.proof.constructors import fitting_builds
from tcready.dynamic.worker.proof.global_state import environment_read, global_state, left_otherwise
from tcready.dynamic.worker.proof.repeated_calls import TrainingStudy, compare_training
from tcready.dynamic.worker.proof.rounding import UnsettledError, WideCalls
from tcready.dynamic.worker.proof.shared_models import Models
from tcready.dynamic.worker.proof.sharing import described
from tcready.dynamic.worker.proof.source_overlay import Overlay
from tcready.dynamic.worker.proof.trace import (
    CallTrace,
    DeviceLostError,
    TooLongError,
    describe_conditions,
    ended_after,
    is_condition,
    is_private,
    measure_clocks,
    measure_cost,
    measure_rounding,
    on_device,
    save_of,
    says_nothing,
    shared_of,
    threads_of,
)
from tcready.dynamic.worker.proof.variations import (
    FOR_NONE_IN_MODULES,
    GIVEN,
    LOGGED,
    OTHER_TYPES,
    RETYPED,
    SEEDED,
    VARIATIONS,
)
from tcready.dynamic.worker.proof.warmed_models import CalledBefore
from tcready.dynamic.worker.proof.widening import WideCall, Widening
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.graphs import squeezes_seen
from tcready.schema.enums import Mode
from tcready.schema.proof import CallId, ProofRequest, ProofResult, Trial, Variant

LEAST = 1.5
"""Seconds that a function gets, alone, in one mode."""
SLOW = 10
"""A call with varied inputs is left out if it took more than this multiple of the longest call so far."""


def before(context: Context, request: ProofRequest, trace_path: Path) -> ProofResult:
    """Make every call on the unmodified code and save the trace to a file; or return the inputs with which the device
    was lost."""
    try:
        return _run_unmodified(context, request, trace_path)
    except DeviceLostError as error:
        return ProofResult(lost=error.variation)


def _run_unmodified(context: Context, request: ProofRequest, trace_path: Path) -> ProofResult:
    paths = {span.path for span in (*request.tests, *request.statements)}
    texts = {path: importlib.util.decode_source(Path(path).read_bytes()) for path in paths}
    sides = BranchCoverage(request.tests, request.statements)
    overlay = Overlay(texts, functools.partial(sides.marked, texts))
    with sides:
        build = begin(context, request)
        if build.failure:
            return ProofResult(failure=build.failure)
        models = Models(context)
        request, set_first = _make_first_call(context, request, sides)
        trace = CallTrace(
            weights=weights_built(models, request),
            building=build.seen,
            set_first=Behaviour(process=set_first),
            constants=request.constants,
            environment=request.environment,
            builds=request.builds,
        )
        until: dict[tuple[object, ...], float] = {}
        longest = LEAST / 5
        raised: set[str | None] = {None}
        left_out = 0
        of_a_function = request.seconds / max(len(request.functions) * len(request.modes), 1)
        for calls in (calls_of_model(models, request), alone(models, request, request.functions)):
            for key, call in calls:
                # if one takes all of its time, the others still have theirs: only they may take a branch
                what = (key.function, key.mode) if key.function is not None else ()
                seconds = max(of_a_function, LEAST) if key.function is not None else request.seconds
                ends = until.setdefault(what, time.monotonic() + seconds)
                if key.variation != GIVEN and time.monotonic() > ends:
                    left_out += 1
                    continue
                known = sides.ways()
                sides.alone = key.function is not None
                try:
                    begun = time.monotonic()
                    with ended_after(longest * SLOW if key.variation not in SEEDED else math.inf):
                        seen = on_device(context, key, call)
                    longest = max(longest, time.monotonic() - begun)
                except TooLongError:
                    sides.settle(counts=False, raised=True, compared=False)
                    continue
                trace.calls.append((key, seen))
                nothing = says_nothing(key, seen)
                sides.settle(
                    counts=seen.is_comparable and not nothing, raised=seen.error is not None, compared=not nothing
                )
                is_of_a_type = key.variation in RETYPED and seen.error is None
                if key.function is None and seen.error not in raised and not says_nothing(key, seen):
                    trace.raising.append(key)
                    raised.add(seen.error)
                if key.function is None and (sides.ways() != known or is_of_a_type):
                    trace.telling.append(key)
                elif key.function is not None and (sides.ways() != known or seen.raised):
                    trace.alone.append(key)
        overlay.unmark()
        _, once_more = next(calls_of_model(Models(context), request))  # built once more, too
        first, again = trace.calls[0][1], once_more()
        trace.restless = restless(first, again) | _restless_if_logged(context, request)
        trace.restless |= build.restless
        if context.work.options.device != "cpu" or not same_digits(first, again):
            trace.rounding = measure_rounding(Models(context), request, trace)
        found = difference(first, trace.rounded(None, first, again), trace.restless)
        if found and found[0] != "state":  # names of a module keep the values that earlier calls left in them
            return ProofResult(
                failure="two calls of the unmodified model with the same seed differ, so no change can be verified: "
                + found[1]
            )
        trace.clocks = measure_clocks(Models(context), request, trace)
        trace.shared = shared_of(trace, sides)
        trace.threads = threads_of(models, request, trace)
        trace.seconds = cost(models, request)
        trace.compiled_errors, trace.left, trace.passed = compiled_errors_of(models, request, trace)
        if "train" in request.modes and any(each.settings for each in request.variants):
            watched = reached_modules({place.path for place in request.functions})
            trace.trained = compare_training(
                models, watched, trace.restless, trace.differing_by_tolerance, request.seeds[0]
            )
    save_of(trace, trace_path)
    given = [seen for key, seen in trace.calls if key.variation == GIVEN and key.function is None]
    if given and all(seen.error for seen in given):
        return ProofResult(failure=f"the unmodified model raises {given[0].error}: {given[0].message}")
    return ProofResult(
        sides=sides.taken(),
        calls=len(trace.calls),
        left_out=left_out,
        variations=tuple(dict.fromkeys(key.variation for key, _ in trace.calls)),
        seconds=trace.seconds,
        not_run=sides.not_run,
    )


def _restless_if_logged(context: Context, request: ProofRequest) -> frozenset[str]:
    """Return the differences between two first calls of the model with other levels of loggers: they may log the time."""
    request = replace(request, seeds=request.seeds[:1])
    one, other = (
        {key: call() for key, call in calls_of_model(Models(context), request) if key.variation in LOGGED}
        for _ in range(2)
    )
    return frozenset(name for key in one for name in restless(one[key], other[key]))


def _first_call(context: Context, request: ProofRequest) -> dict[str, Any]:
    """Make a call before those that are compared, so that names of Python modules have the same values before and after
    a change. Return the settings of the process that it leaves: a later call that sets the same changes nothing."""
    before = global_state()
    next(calls_of_model(Models(context), request))[1]()
    return left_otherwise(before, global_state())


NUMBERS = 5
"""The number of values of names that are tried as numbers in inputs."""
STRINGS = 8
"""The same for strings."""


def _make_first_call(
    context: Context, request: ProofRequest, sides: BranchCoverage
) -> tuple[ProofRequest, dict[str, Any]]:
    """Return the request with the values that a first call reads (numbers in changed code, environment variables), and
    the settings of the process that the call leaves."""
    with environment_read() as names:
        set_first = _first_call(context, request)
    sides.settle(counts=False, raised=False)
    read = (*sides.numbers, *numbers_of_callees(request.functions))
    found = [number for number in read if math.isfinite(number) and number not in (0.0, 1.0)]
    constants = dict.fromkeys(
        (*request.constants, *found[:NUMBERS], *[*sides.strings][:STRINGS], *sizes_beside_integers(context))
    )
    watched = reached_modules({place.path for place in request.functions})
    builds = fitting_builds(context, watched, tuple(constants))
    request = replace(request, constants=tuple(constants), environment=tuple(names), builds=builds)
    return request, set_first


def call_widely(
    context: Context, request: ProofRequest, variant: Variant | None, trace_path: Path, wide_path: Path
) -> ProofResult:
    """Make the calls of the trace in a wide dtype, with a variant or the unmodified code, and save them to a file."""
    trace: CallTrace = torch.load(trace_path, weights_only=False)
    found: dict[Key, WideCall | str] = {}
    wanted = {key for key, seen in trace.calls if not says_nothing(key, seen)}
    Overlay(dict(variant.sources) if variant is not None else {})
    request = replace(request, constants=trace.constants, environment=trace.environment, builds=trace.builds)
    if start(context) is None:
        torch.set_num_threads(trace.threads)
        _first_call(context, request)
        models, widening = Models(context), Widening()
        functions = variant.functions if variant is not None else request.functions
        until = time.monotonic() + 2 * request.seconds
        for key, call in itertools.chain(
            calls_of_model(models, request, widening), alone(models, request, functions, widening=widening)
        ):
            if key not in wanted or time.monotonic() > until:
                continue
            try:
                found[key] = widening.made(call())
            except Exception as error:  # no wide dtype, or an object that cannot be copied
                found[key] = str(error) if isinstance(error, NotWideError) else type(error).__name__
    save_of(found, wide_path)
    return ProofResult()


def after(
    context: Context, request: ProofRequest, variant: Variant, trace_path: Path, wide_paths: Sequence[Path] = ()
) -> Trial:
    """Make the same calls with a variant; if all agree, capture it and compare compiled code with eager code.

    `wide_paths`: the results of `call_widely` for the unmodified code and for the variant. Without them the trial
    ends unsettled if values differ.
    """
    try:
        return _after(context, request, variant, trace_path, wide_paths)
    except UnsettledError:
        return Trial(variant.name, context.journal.observation, unsettled=True)


def _after(
    context: Context, request: ProofRequest, variant: Variant, trace_path: Path, wide_paths: Sequence[Path]
) -> Trial:
    context.measures = False
    texts = dict(variant.sources)
    sides = BranchCoverage(variant.asked, variant.written)
    overlay = Overlay(texts, functools.partial(sides.marked, texts))
    usual: dict[str, Any] = {}
    for name, value in map(dynamo.set_flag, variant.settings):
        usual.setdefault(name, value)
    with sides:
        trial, trace, models = _compare_eager(context, request, variant, trace_path, wide_paths, sides)
        overlay.unmark()
    if trace is None:
        return trial
    request = replace(request, constants=trace.constants, environment=trace.environment, builds=trace.builds)
    climb(context, TO_GRAPHS)
    seen = context.journal.observation
    seconds = measure_cost(models, request, trace.seconds)
    trial = replace(trial, observation=seen, seconds=seconds, not_run=sides.not_run, sides=sides.taken())
    squeezed: list[str] = []
    with squeezes_seen(squeezed.append):
        trial = capture_variant(models, request, variant, trial, trace)
    if not trial.difference:
        watched = reached_modules({place.path for place in request.functions})
        study = TrainingStudy(
            models,
            watched,
            trace.restless,
            trace.differing_by_tolerance,
            request.seeds[0],
            usual,
            trace.trained,
            request.seconds,
        )
        trial = study.judged(trial)
    if squeezed and not trial.difference:
        trial = replace(trial, difference=SQUEEZED, differs="compiled")
    return trial


SQUEEZED = "`squeeze` is called on a size that depends on data: for one item, only eager code drops the dimension"


def _compare_eager(
    context: Context,
    request: ProofRequest,
    variant: Variant,
    trace_path: Path,
    wide_paths: Sequence[Path],
    sides: BranchCoverage,
) -> tuple[Trial, CallTrace | None, Models]:
    """Compare the calls with a variant with those in the trace. Return the trial and the models that made the calls,
    without the trace if something differs."""
    models = Models(context)
    build = begin(context, request)
    if build.failure:
        return Trial(variant.name, context.journal.observation), None, models
    trace: CallTrace = torch.load(trace_path, weights_only=False)
    if wide_paths:
        trace.wide = WideCalls(*(torch.load(path, weights_only=False) if path.exists() else {} for path in wide_paths))
    found = difference(trace.building, build.seen, trace.restless)
    text = f"{found[1]} (while the model is imported and built)" if found is not None else None
    if weights_built(models, request) != trace.weights:
        text = "the `state_dict` of the built model differs"
    if text is not None:
        seen = context.journal.observation
        return Trial(variant.name, seen, difference=text, differs="state"), None, models
    torch.set_num_threads(trace.threads)  # sums of weights were those of all threads
    set_first = Behaviour(process=_first_call(context, request))
    sides.settle(counts=False, raised=False)
    if found := difference(trace.set_first, set_first, trace.restless):
        seen = context.journal.observation
        return Trial(variant.name, seen, difference=f"{found[1]} (in the first call)", differs="state"), None, models
    begun: CalledBefore | None = None
    if variant.called_before:
        begun, models = CalledBefore(context), Models(context)
    request = replace(request, constants=trace.constants, environment=trace.environment, builds=trace.builds)
    compared = 0
    raises: str | None = None
    notice: str | None = None
    conditions: dict[str, str] = {}
    of_other_types: dict[str, str] = {}
    wanted = {key: seen for key, seen in trace.calls if key.function is None or key.function in variant.functions}
    changes = Changes(trace.restless)
    for calls in (calls_of_model(models, request), alone(models, request, variant.functions)):
        for key, call in calls:
            expected = wanted.pop(key, None)
            if expected is None:
                continue
            compared += 1
            sides.alone = key.function is not None
            actual = trace.rounded(key.function, expected, call())
            changes.note(key, actual)
            nothing = says_nothing(key, expected)
            # results of a private function are for its callers, which are compared
            nothing |= (
                is_private(key.function)
                and expected.error is None is actual.error
                and (expected.structure != actual.structure or len(expected.inputs) != len(actual.inputs))
            )
            sides.settle(
                counts=actual.is_comparable and not nothing, raised=actual.error is not None, compared=not nothing
            )
            compared -= nothing
            if nothing:
                continue
            if begun is None:
                actual, found = trace.differing(key, expected, actual)
            else:
                found = begun.difference(key, expected, actual, trace.restless)
            apart = trace.shared.get(key.function, frozenset()) & expected.shared - actual.shared
            if found is None and apart and actual.error is None:
                found = ("state", f"{described(min(apart))} no longer share memory, or are no longer one object")
            if found is not None and trace.joins_autograd(key, expected, actual):
                conditions.setdefault(key.only, "an output requires grad, with gradients of zero, and did not before")
                continue
            if found is not None and is_condition(trace, key, expected, actual):
                of_kind = of_other_types if key.variation in OTHER_TYPES else conditions
                of_kind.setdefault(key.only, found[1])
                continue
            if found is None and expected.warned != actual.warned:
                warned = next(iter({*expected.warned} ^ {*actual.warned}), "").strip()
                if {*actual.warned} <= {*expected.warned}:
                    notice = notice or f"torch no longer warns: {warned[:MOST]}"
                else:
                    conditions.setdefault(key.only, f"torch warns differently: {warned[:MOST]}")
            if found is not None:
                kind, text = found
                text = f"{text} ({key.words})"
                if kind == "exception" and expected.error and actual.error:
                    raises = raises or text
                    continue
                seen = context.journal.observation
                failing = CallId(key.mode, key.seed, key.case, key.variation, key.function)
                trial = Trial(variant.name, seen, compared, difference=text, differs=kind, failing=failing)
                return trial, None, models
            if another := another_message(expected, actual):
                raises = raises or f"{another} ({key.words})"
            notice = notice or noticed(expected, actual)
    seen = context.journal.observation
    if text := changes.missing(trace.calls):
        return Trial(variant.name, seen, compared, difference=text, differs="state"), None, models
    wanted = {
        key: seen
        for key, seen in wanted.items()
        if (key in trace.alone or not is_private(key.function)) and key.variation not in FOR_NONE_IN_MODULES
    }
    if wanted:  # a side that they took has not been seen after the change
        cause = "its function is gone, is decorated otherwise, or is not called"
        text = f"a call cannot be repeated, because {cause} ({next(iter(wanted)).words})"
        return Trial(variant.name, seen, compared, difference=text, differs="value"), None, models
    trial = Trial(
        variant.name,
        seen,
        compared,
        raises=raises,
        notice=notice,
        condition=describe_conditions(conditions),
        of_other_types=describe_conditions(of_other_types),
    )
    return trial, trace, models


MOST = 200
"""The number of characters of a warning that are quoted."""


class Changes:
    """Counts how often state that differs between equal calls, such as the time of day, changes from call to call."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._last: dict[tuple[Mode, int], dict[str, Any]] = {}
        self._found: Counter[str] = Counter()

    def note(self, key: Key, seen: Behaviour) -> None:
        """Compare a call with the one before it that has the same model, if only the inputs are varied."""
        if key.function is None and seen.error is None and key.variation in VARIATIONS:
            of = key.mode, key.seed
            self._last[of] = changes_between_calls(self._last.get(of), seen, self._names, self._found)

    def missing(self, calls: Iterable[tuple[Key, Behaviour]]) -> str | None:
        """Return which state changes in these calls of the unmodified code, and never in those after the change."""
        before = Changes(self._names)
        for key, seen in calls:
            before.note(key, seen)
        name = next((name for name in sorted(before._found) if name not in self._found), None)
        return None if name is None else f"{name} changes from call to call before the change, and never after it"
