"""The work of one process of a proof: the unmodified code makes the trace, and each variant is compared with it."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from tcready.dynamic.worker.core.calling import settle
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.pipeline import TO_GRAPHS
from tcready.dynamic.worker.core.step import climb
from tcready.dynamic.worker.measure.precision import NotWideError
from tcready.dynamic.worker.proof import fake_kernels
from tcready.dynamic.worker.proof.branch_coverage import BranchCoverage
from tcready.dynamic.worker.proof.building import begin, start, weights_built
from tcready.dynamic.worker.proof.calls import (
    MODES,
    Key,
    Made,
    alone,
    called,
    calls_of_model,
    cost,
    numbers_of_callees,
    reached_modules,
    shortest,
    sizes_beside_integers,
)
from tcready.dynamic.worker.proof.compiling import Compiling
from tcready.dynamic.worker.proof.constructors import fitting_builds
from tcready.dynamic.worker.proof.effects_of_call import (
    Behaviour,
    another_message,
    compiled_difference,
    difference,
    ends_otherwise,
    left_by_exception,
    noticed,
    restless,
    same_digits,
    spoken_otherwise,
)
from tcready.dynamic.worker.proof.exception_handlers import Caught
from tcready.dynamic.worker.proof.global_state import environment_read, global_state, left_otherwise
from tcready.dynamic.worker.proof.repeated_calls import Later, Study, compare_training
from tcready.dynamic.worker.proof.rounding import (
    Rounding,
    UnsettledError,
    WideCalls,
    as_rounded,
    in_few_digits,
    judge_values,
    rounding,
    with_dtypes_of,
)
from tcready.dynamic.worker.proof.shared_models import Models
from tcready.dynamic.worker.proof.sharing import Pair, always, described
from tcready.dynamic.worker.proof.source_overlay import Overlay
from tcready.dynamic.worker.proof.variations import (
    BUILT,
    BY_CHANCE,
    DOUBLE_BY_DEFAULT,
    DTYPES,
    EMPTY,
    EMPTY_LISTS,
    FINITE,
    FOR_NONE_IN_MODULES,
    GIVEN,
    IN_FEW_DIGITS,
    IN_TURN,
    LOGGED,
    LONGER_COMPILED,
    MAY_NOT_FIT,
    OF_OTHER_STRIDES,
    OF_PYTHON,
    OF_SETTINGS,
    ON_META,
    ONE_TRUE,
    ONES,
    OTHER_NUMBERS,
    OTHER_TYPES,
    RESIZED,
    RETYPED,
    SEEDED,
    TWICE,
    UNDER_AUTOCAST,
    WITH_GRADIENTS,
    built_with,
    set_to,
    size_variations,
)
from tcready.dynamic.worker.proof.warmed_models import CalledBefore
from tcready.dynamic.worker.proof.widening import WideCall, Widening
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.compile_calls import compile_callable
from tcready.dynamic.worker.torch_internals.graphs import squeezes_seen
from tcready.schema.enums import Mode
from tcready.schema.proof import (
    SLOWER,
    Differs,
    FunctionPlace,
    ProofRequest,
    ProofResult,
    Trial,
    Variant,
)

REPEATS = 4
PAUSE = 0.1
LEAST = 1.5
"""Seconds that a function gets, alone, in one mode."""
SLOW = 10
"""A call with varied inputs is left out if it took more than this multiple of the longest call so far."""
SHARE = 0.3
"""The share of the seconds for varied inputs in which further calls are compared compiled."""
EAGER = frozenset({*OF_PYTHON, *OF_SETTINGS, *MAY_NOT_FIT} - {*OTHER_NUMBERS})
"""Variations with calls that are not compiled: other flags lead to other code, which may break again."""
CONDITIONAL = frozenset({EMPTY, EMPTY_LISTS, DOUBLE_BY_DEFAULT, *(OTHER_TYPES - BY_CHANCE)})
"""Variations with which a difference limits a change, but does not refute it."""
COMPILED = 6
"""The number of calls that are compared compiled against eager, unless more are needed to take each branch."""


DEVICE_LOST = "AcceleratorError"
"""The type of exception that torch raises for all further work on an accelerator after a kernel has failed on it."""


@dataclass
class Trace:
    """The results of the unmodified code."""

    calls: list[tuple[Key, Behaviour]] = field(default_factory=list)
    telling: list[Key] = field(default_factory=list)
    """The calls of the model that took a branch which no earlier one had taken."""
    raising: list[Key] = field(default_factory=list)
    """Those that raised what no earlier one had raised."""
    alone: list[Key] = field(default_factory=list)
    """The calls of functions alone that did so, or that a user exception ended."""
    weights: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    building: Behaviour = field(default_factory=Behaviour)
    """Output and settings of the process from importing and building the model."""
    set_first: Behaviour = field(default_factory=Behaviour)
    """Settings of the process from the first call."""
    shared: Mapping[FunctionPlace | None, frozenset[Pair]] = field(default_factory=dict)
    """For the model, and for functions alone, the values that shared memory in every call with a result; empty if these
    calls did not take both sides of every test, because a branch may decide it."""
    restless: frozenset[str] = frozenset()
    """Differences between two calls of the unmodified code."""
    rounding: Mapping[FunctionPlace | None, Rounding] = field(default_factory=dict)
    """For the model, and for functions alone, the rounding differences between two calls of the unmodified code."""
    compiled_errors: Mapping[Key, str | None] = field(default_factory=dict)
    """For calls that a user exception ended: the type that the unmodified code raises if compiled."""
    left: Mapping[Key, str | None] = field(default_factory=dict)
    """For such calls of the model: effects that differ from those of eager code then."""
    passed: Mapping[Key, Behaviour] = field(default_factory=dict)
    """For such calls of the model: those in which compiled code raises nothing."""
    trained: Later | None = None
    """The compiled training steps of the unmodified code."""
    seconds: float | None = None
    """Seconds of the shortest eager call."""
    threads: int = 1
    """The number of threads with which every variant is called."""
    wide: WideCalls | None = None
    """The calls in a wide dtype, once values were found to differ."""
    constants: tuple[float | str, ...] = ()
    """Values of inputs that are tried: those of the request, and values of names in changed code."""
    environment: tuple[str, ...] = ()
    """Names of environment variables that a call reads."""
    builds: tuple[str, ...] = ()
    """Variations with which the model is built again."""

    def rounded(self, function: FunctionPlace | None, expected: Behaviour, actual: Behaviour) -> Behaviour:
        """Return `actual` with expected values in place of those that are only rounded differently."""
        return as_rounded(expected, actual, self.rounding.get(function, {}))

    def differing(
        self, key: Key, expected: Behaviour, actual: Behaviour
    ) -> tuple[Behaviour, tuple[Differs, str] | None]:
        """Return the first difference in a call after a change, and the call without rounding differences."""
        otherwise = functools.partial(difference, ignored=self.restless)
        if key.variation in IN_FEW_DIGITS:
            actual = in_few_digits(expected, actual)
            return actual, otherwise(expected, actual)
        judged = judge_values(key, expected, actual, self.wide, otherwise, self.restless)
        found = judged.mistake or otherwise(expected, judged.actual)
        if found is not None and judged.why:
            found = found[0], f"{found[1]}; by tolerance, since {judged.why}"
        return judged.actual, found

    def differing_by_tolerance(
        self, expected: Behaviour, actual: Behaviour, ignored: frozenset[str]
    ) -> str | None:
        """Return the first difference in a compiled call of the model that has no counterpart in a wide dtype."""
        return compiled_difference(expected, self.rounded(None, expected, actual), ignored)

    def compiled_differing(
        self, key: Key, expected: Behaviour, actual: Behaviour, ignored: frozenset[str]
    ) -> str | None:
        """Return the first difference in a compiled call."""
        actual = self.rounded(key.function, expected, actual)
        otherwise = functools.partial(compiled_difference, ignored=ignored)
        judged = judge_values(key, expected, actual, self.wide, otherwise, ignored, compiled=True)
        if judged.mistake:
            return judged.mistake[1]
        found = otherwise(expected, judged.actual)
        return f"{found}; by tolerance, since {judged.why}" if found and judged.why else found


def before(context: Context, request: ProofRequest, trace_path: Path) -> ProofResult:
    """Make every call on the unmodified code and save the trace to a file; or return the inputs with which the device
    was lost."""
    try:
        return _run_unmodified(context, request, trace_path)
    except _DeviceLostError as error:
        return ProofResult(lost=error.variation)


class _DeviceLostError(Exception):
    """A kernel failed on an accelerator with these inputs, so this process cannot continue there."""

    def __init__(self, variation: str) -> None:
        super().__init__(variation)
        self.variation = variation


def _on_device(context: Context, key: Key, call: Callable[[], Behaviour]) -> Behaviour:
    """Return the effects of a call once the device has done its work. Raises _DeviceLostError if it cannot continue."""
    try:
        seen = call()
        settle(context)
    except Exception as error:
        if type(error).__name__ != DEVICE_LOST:
            raise
        raise _DeviceLostError(key.variation) from None
    if seen.error == DEVICE_LOST:
        raise _DeviceLostError(key.variation)
    return seen


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
        trace = Trace(
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
        of_a_function = request.seconds / max(len(request.functions) * len(request.modes), 1)
        for calls in (calls_of_model(models, request), alone(models, request, request.functions)):
            for key, call in calls:
                # if one takes all of its time, the others still have theirs: only they may take a branch
                what = (key.function, key.mode) if key.function is not None else ()
                seconds = max(of_a_function, LEAST) if key.function is not None else request.seconds
                ends = until.setdefault(what, time.monotonic() + seconds)
                if key.variation != GIVEN and time.monotonic() > ends:
                    continue
                known = sides.ways()
                sides.alone = key.function is not None
                try:
                    begun = time.monotonic()
                    with _ended_after(longest * SLOW if key.variation not in SEEDED else math.inf):
                        seen = _on_device(context, key, call)
                    longest = max(longest, time.monotonic() - begun)
                except _TooLongError:
                    sides.settle(counts=False, raised=True, compared=False)
                    continue
                trace.calls.append((key, seen))
                nothing = _says_nothing(key, seen)
                sides.settle(
                    counts=seen.is_comparable and not nothing,
                    raised=seen.error is not None,
                    compared=not nothing,
                )
                is_of_a_type = key.variation in RETYPED and seen.error is None
                if key.function is None and seen.error not in raised and not _says_nothing(key, seen):
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
            trace.rounding = _measure_rounding(Models(context), request, trace)
        found = difference(first, trace.rounded(None, first, again), trace.restless)
        if found and found[0] != "state":  # names of a module keep the values that earlier calls left in them
            return ProofResult(failure=f"the model differs from itself under the same seeds: {found[1]}")
        trace.shared = _shared(trace, sides)
        trace.threads = _threads(models, request, trace)
        trace.seconds = cost(models, request)
        trace.compiled_errors, trace.left, trace.passed = _compiled_errors(models, request, trace)
        if "train" in request.modes and any(each.settings for each in request.variants):
            watched = reached_modules({place.path for place in request.functions})
            trace.trained = compare_training(
                models, watched, trace.restless, trace.differing_by_tolerance, request.seeds[0]
            )
    _save(trace, trace_path)
    given = [seen for key, seen in trace.calls if key.variation == GIVEN and key.function is None]
    if given and all(seen.error for seen in given):
        return ProofResult(failure=f"the model raises {given[0].error}: {given[0].message}")
    return ProofResult(
        sides=sides.taken(),
        calls=len(trace.calls),
        variations=tuple(dict.fromkeys(key.variation for key, _ in trace.calls)),
        seconds=trace.seconds,
        not_run=sides.not_run,
    )


def _save(value: Any, path: Path) -> None:
    """Save a value for `torch.load`. Many small tensors take half the time in the older format."""
    torch.save(value, path, _use_new_zipfile_serialization=False)


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


class _TooLongError(BaseException):
    """A call took too long. User code that catches Exception does not catch this."""


@contextlib.contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """Interrupt code that does not end: a loop may run forever with an infinity."""
    if seconds == math.inf:
        yield
        return

    def end(*_: object) -> None:
        raise _TooLongError

    usual = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, usual)


def _shared(trace: Trace, sides: BranchCoverage) -> dict[FunctionPlace | None, frozenset[Pair]]:
    taken = sides.taken()
    found = always((key.function, seen.shared) for key, seen in trace.calls if seen.error is None)
    by_model = all(each.true and each.false for each in taken)
    by_functions = all(each.alone_true and each.alone_false for each in taken)
    return {what: pairs for what, pairs in found.items() if (by_model if what is None else by_functions)}


def _measure_rounding(
    models: Models, request: ProofRequest, trace: Trace
) -> dict[FunctionPlace | None, dict[tuple[str, str], float]]:
    """Repeat the calls with the inputs as given. Return what differs, and by how much."""
    known = dict(trace.calls)
    first = replace(request, seeds=request.seeds[:1])
    found: dict[FunctionPlace | None, dict[tuple[str, str], float]] = {}
    for calls in (calls_of_model(models, first), alone(models, first, request.functions)):
        for key, call in calls:
            if key not in known or key.variation not in (GIVEN, WITH_GRADIENTS, TWICE, IN_TURN):
                continue
            of = found.setdefault(key.function, {})
            for name, share in rounding(known[key], call()).items():
                of[name] = max(share, of.get(name, 0.0))
    return found


def _threads(models: Models, request: ProofRequest, trace: Trace) -> int:
    """Return the number of threads for a call: one if more threads help little, as with small inputs, and if sums with
    one thread are rounded as in the trace. Threads that wait for each other are busy, which takes most of the time if
    other processes run."""
    usual: int = torch.get_num_threads()
    if usual == 1:
        return 1
    seconds = shortest(models, request)
    torch.set_num_threads(1)
    alone = shortest(models, request)
    helps_little = seconds is None or alone is None or alone <= seconds * SLOWER
    if helps_little and _rounds_alike(models, request, trace):
        return 1
    torch.set_num_threads(usual)
    return usual


def _rounds_alike(models: Models, request: ProofRequest, trace: Trace) -> bool:
    """Return whether the calls with the inputs as given have the results in the trace, to the last digit of every
    output and gradient."""
    known = dict(trace.calls)
    first = replace(request, seeds=request.seeds[:1])
    return all(
        same_digits(known[key], call())
        for key, call in calls_of_model(models, first)
        if key.variation == GIVEN
    )


def call_widely(
    context: Context, request: ProofRequest, variant: Variant | None, trace_path: Path, wide_path: Path
) -> ProofResult:
    """Make the calls of the trace in a wide dtype, with a variant or the unmodified code, and save them to a file."""
    trace: Trace = torch.load(trace_path, weights_only=False)
    found: dict[Key, WideCall | str] = {}
    wanted = {key for key, seen in trace.calls if not _says_nothing(key, seen)}
    Overlay(dict(variant.sources) if variant is not None else {})
    request = replace(request, constants=trace.constants, environment=trace.environment, builds=trace.builds)
    if start(context) is None:
        torch.set_num_threads(trace.threads)
        _first_call(context, request)
        models, widening = Models(context), Widening()
        functions = variant.functions if variant is not None else request.functions
        until = time.monotonic() + 2 * request.seconds
        for key, call in itertools.chain(
            calls_of_model(models, request, widening),
            alone(models, request, functions, widening=widening),
        ):
            if key not in wanted or time.monotonic() > until:
                continue
            try:
                found[key] = widening.made(call())
            except Exception as error:  # no wide dtype, or an object that cannot be copied
                found[key] = str(error) if isinstance(error, NotWideError) else type(error).__name__
    _save(found, wide_path)
    return ProofResult()


def after(
    context: Context,
    request: ProofRequest,
    variant: Variant,
    trace_path: Path,
    wide_paths: Sequence[Path] = (),
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
    seconds = _measure_cost(models, request, trace.seconds)
    trial = replace(trial, observation=seen, seconds=seconds, not_run=sides.not_run, sides=sides.taken())
    squeezed: list[str] = []
    with squeezes_seen(squeezed.append):
        trial = _capture_variant(models, request, variant, trial, trace)
    if not trial.difference:
        watched = reached_modules({place.path for place in request.functions})
        study = Study(
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


SQUEEZED = "`squeeze` of a size that data decides: of one item, eager code alone drops the dimension"


def _capture_variant(
    models: Models, request: ProofRequest, variant: Variant, trial: Trial, trace: Trace
) -> Trial:
    """Return the trial with the results of compiled code."""
    speaks = dynamo.SPEAKS in "".join(variant.settings)
    chooses = any(".cond(" in text for _, text in variant.sources)
    telling: list[str] = []
    if chooses:  # values that `torch.cond` captures may not change
        telling += OTHER_NUMBERS
    if variant.settings:  # Dynamo takes a size that data decides for more than one
        telling += (ONES, ONE_TRUE)
    apart = any("is_compiling" in text for _, text in variant.sources)
    trial = _compare_compiled(models, request, trial, trace, telling, speaks=speaks, apart=apart)
    if apart and not trial.difference and "train" in request.modes:
        trial = _trained_apart(models, request, trace, trial)
    if chooses and not trial.difference and "train" in request.modes:
        trial = _compare_training(models, request, trace, trial)
    if not trial.difference and fake_kernels.registers(variant):
        text = fake_kernels.disagreement(models, request, variant.sources, request.seconds * SHARE)
        trial = replace(trial, difference=text, differs="compiled" if text else None)
    return trial if trial.difference else _compiled_alone(models, request, variant, trial, trace)


def _compare_eager(
    context: Context,
    request: ProofRequest,
    variant: Variant,
    trace_path: Path,
    wide_paths: Sequence[Path],
    sides: BranchCoverage,
) -> tuple[Trial, Trace | None, Models]:
    """Compare the calls with a variant with those in the trace. Return the trial and the models that made the calls,
    without the trace if something differs."""
    models = Models(context)
    build = begin(context, request)
    if build.failure:
        return Trial(variant.name, context.journal.observation), None, models
    trace: Trace = torch.load(trace_path, weights_only=False)
    if wide_paths:
        trace.wide = WideCalls(
            *(torch.load(path, weights_only=False) if path.exists() else {} for path in wide_paths)
        )
    found = difference(trace.building, build.seen, trace.restless)
    text = f"{found[1]} (import and build of the model)" if found is not None else None
    if weights_built(models, request) != trace.weights:
        text = "the state_dict differs after the build"
    if text is not None:
        seen = context.journal.observation
        return Trial(variant.name, seen, difference=text, differs="state"), None, models
    torch.set_num_threads(trace.threads)  # sums of weights were those of all threads
    set_first = Behaviour(process=_first_call(context, request))
    sides.settle(counts=False, raised=False)
    if found := difference(trace.set_first, set_first, trace.restless):
        seen = context.journal.observation
        return Trial(variant.name, seen, difference=f"{found[1]} (first call)", differs="state"), None, models
    begun: CalledBefore | None = None
    if variant.called_before:
        begun, models = CalledBefore(context), Models(context)
    request = replace(request, constants=trace.constants, environment=trace.environment, builds=trace.builds)
    compared = 0
    raises: str | None = None
    notice: str | None = None
    conditions: dict[str, str] = {}
    of_other_types: dict[str, str] = {}
    wanted = {
        key: seen for key, seen in trace.calls if key.function is None or key.function in variant.functions
    }
    for calls in (calls_of_model(models, request), alone(models, request, variant.functions)):
        for key, call in calls:
            expected = wanted.pop(key, None)
            if expected is None:
                continue
            compared += 1
            sides.alone = key.function is not None
            actual = trace.rounded(key.function, expected, call())
            nothing = _says_nothing(key, expected)
            # results of a private function are for its callers, which are compared
            nothing |= (
                _is_private(key.function)
                and expected.error is None is actual.error
                and (expected.structure != actual.structure or len(expected.inputs) != len(actual.inputs))
            )
            sides.settle(
                counts=actual.is_comparable and not nothing,
                raised=actual.error is not None,
                compared=not nothing,
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
                found = (
                    "state",
                    f"{described(min(apart))} do not share memory, or are not one object, any more",
                )
            if found is not None and _is_condition(trace, key, expected, actual):
                of_kind = of_other_types if key.variation in OTHER_TYPES else conditions
                of_kind.setdefault(key.only, found[1])
                continue
            if found is None and expected.warned != actual.warned:
                warned = next(iter({*expected.warned} ^ {*actual.warned}), "").strip()
                if {*actual.warned} <= {*expected.warned}:
                    notice = notice or f"torch does not warn any more: {warned[:MOST]}"
                else:
                    conditions.setdefault(key.only, f"torch warns otherwise: {warned[:MOST]}")
            if found is not None:
                kind, text = found
                text = f"{text} ({key.words})"
                if kind == "exception" and expected.error and actual.error:
                    raises = raises or text
                    continue
                seen = context.journal.observation
                trial = Trial(variant.name, seen, compared, difference=text, differs=kind)
                return trial, None, models
            if another := another_message(expected, actual):
                raises = raises or f"{another} ({key.words})"
            notice = notice or noticed(expected, actual)
    seen = context.journal.observation
    wanted = {
        key: seen
        for key, seen in wanted.items()
        if (key in trace.alone or not _is_private(key.function)) and key.variation not in FOR_NONE_IN_MODULES
    }
    if wanted:  # a side that they took has not been seen after the change
        text = f"a call cannot be made again, since its function is gone or gets nothing ({next(iter(wanted)).words})"
        return Trial(variant.name, seen, compared, difference=text, differs="value"), None, models
    trial = Trial(
        variant.name,
        seen,
        compared,
        raises=raises,
        notice=notice,
        condition=_describe_conditions(conditions),
        of_other_types=_describe_conditions(of_other_types),
    )
    return trial, trace, models


MOST = 200
"""The number of characters of a warning that are quoted."""
NAMED = 2
"""The most calls with the same difference that are named."""


def _describe_conditions(conditions: Mapping[str, str]) -> str | None:
    """Describe by call what differs, in one line; calls that differ in the same way together. None if nothing does."""
    calls: dict[str, list[str]] = {}
    for only, text in conditions.items():
        calls.setdefault(text, []).append(only)
    found = []
    for text, names in calls.items():
        more = len(names) - NAMED
        named = [*names[:NAMED], *([f"in {more} other kinds of calls"] if more > 1 else names[NAMED:])]
        found.append(f"{', '.join(named)}: {text}")
    return "; ".join(found) or None


def _is_private(function: FunctionPlace | None) -> bool:
    """Return whether a function is private to its file, by its name."""
    name = function.name.rpartition(".")[2] if function is not None else ""
    return name.startswith("_") and not name.startswith("__")


def _is_condition(trace: Trace, key: Key, expected: Behaviour, actual: Behaviour) -> bool:
    """Return whether a difference in a call limits a change instead of refuting it. If a user statement raised the
    expected exception, any difference refutes the change."""
    if expected.raised:
        return False
    if expected.error is not None and actual.error is None:  # torch rejected an input that it accepts now
        return True
    if key.variation in BY_CHANCE:  # code takes such inputs by chance
        return actual.error is not None
    if key.variation == OF_OTHER_STRIDES and expected.strides != actual.strides:
        return trace.differing(key, expected, replace(actual, strides=expected.strides))[1] is None
    if (
        key.variation in IN_FEW_DIGITS and key.variation not in CONDITIONAL
    ):  # `model.to` converts a new buffer, but not the attribute that it replaced
        return trace.differing(key, expected, with_dtypes_of(expected, actual))[1] is None
    return key.variation in CONDITIONAL


def _says_nothing(key: Key, seen: Behaviour) -> bool:
    """Return whether a call raised because torch does not accept such arguments or such a setting."""
    may_not_fit = key.variation in {*MAY_NOT_FIT, *set_to(key.constants), *built_with(key.constants)}
    may_not_fit |= key.variation in (UNDER_AUTOCAST, ON_META)
    return may_not_fit and seen.error is not None and not seen.raised


def _measure_cost(models: Models, request: ProofRequest, known: float | None) -> float | None:
    """Measure the shortest eager call; one that seems slower than the `known` one is measured again."""
    found = cost(models, request)
    for _ in range(REPEATS):
        if found is None or known is None or found <= known * SLOWER:
            break
        time.sleep(PAUSE)
        found = min(found, cost(models, request) or found)
    return found


def _is_compiled(key: Key) -> bool:
    """Return whether a call may be compared compiled: the model is the original one, with its dtype."""
    return key.variation not in DTYPES and not key.variation.startswith(BUILT)


def _compiling(models: Models, request: ProofRequest, trace: Trace, mode: Mode | None = None) -> Compiling:
    watched = reached_modules({place.path for place in request.functions})
    return Compiling(models, watched, trace.restless, mode or models.context.work.options.mode)


def _compiled_errors(
    models: Models, request: ProofRequest, trace: Trace
) -> tuple[dict[Key, str | None], dict[Key, str | None], dict[Key, Behaviour]]:
    """Compile the unmodified code for calls that a user exception ends in eager code: the first of each type, those
    that take a branch, and further ones as time allows. Return the exceptions, the different effects of calls of the
    model, and the compiled calls that raise nothing."""
    mode = models.context.work.options.mode
    raised = [replace(key, mode=mode) for key, seen in trace.calls if key.function is None and seen.raised]
    wanted = {replace(key, mode=mode) for key in (*trace.telling, *trace.raising)}
    compiling = _compiling(models, request, trace)
    until = time.monotonic() + request.seconds * SHARE
    found: dict[Key, str | None] = {}
    left: dict[Key, str | None] = {}
    passed: dict[Key, Behaviour] = {}
    for key in sorted(dict.fromkeys(raised), key=lambda key: (key not in wanted, key.seed)):
        if key in wanted or time.monotonic() < until:
            compiled = _on_device(models.context, key, functools.partial(compiling.compiled, key))
            found[key] = compiled.error
            if compiled.error is None:
                passed[key] = compiled
            left[key] = left_by_exception(compiling.eager, compiled, compiling.ignored)
    own = {key for key, seen in trace.calls if seen.raised}
    raised_alone = [key for key in trace.alone if key in own]
    functions = tuple(dict.fromkeys(key.function for key in raised_alone if key.function is not None))
    if functions:
        for key, call in _chosen_alone(models, request, functions, raised_alone, _compiled_by_itself):
            found[key] = _on_device(models.context, key, call).error
    return found, left, passed


def _compare_compiled(
    models: Models,
    request: ProofRequest,
    trial: Trial,
    trace: Trace,
    variations: Sequence[str],
    *,
    speaks: bool,
    apart: bool,
) -> Trial:
    """Compare compiled with eager code: with the inputs as given, with those that took each branch and in these
    `variations`. If a compiled model `speaks`, its output is compared too. If the code checks whether it is compiled,
    it is `apart` from the eager code: then values are compared in all other variations as well."""
    mode = models.context.work.options.mode
    calls = [key for key, _ in trace.calls if key.function is None and key.mode == mode]
    telling = {
        replace(key, mode=mode) for key in trace.telling
    }  # the mode that came first saw every side first
    telling |= {key for key in calls if key.variation in variations}
    given = [key for key in calls if key.variation == GIVEN and key not in telling]
    chosen = telling.union(given[: max(COMPILED - len(telling), 1)])
    keys = [key for key in calls if key in chosen and _is_compiled(key)]
    constants = request.constants
    not_compiled = EAGER | (size_variations(constants) - {LONGER_COMPILED})
    not_compiled |= set_to(constants).keys() | built_with(constants).keys()
    first = [
        key
        for key in calls
        if key.seed == request.seeds[0] and key not in chosen and key.variation not in not_compiled
    ]
    raising = {replace(key, mode=mode) for key in trace.raising}
    # calls that raise come first, and sizes that do not change: another size is compiled again
    more = sorted(
        (key for key in first if _is_compiled(key)),
        key=lambda key: (key not in raising, key.variation in (*RESIZED, LONGER_COMPILED)),
    )
    until: float | None = None
    compared = 0
    conditions: dict[str, str] = {}
    compiling = _compiling(models, request, trace)
    for seed in dict.fromkeys(key.seed for key in keys):
        for key in (
            *(each for each in keys if each.seed == seed),
            *(each for each in more if each.seed == seed),
        ):
            if key not in chosen:
                until = until or time.monotonic() + request.seconds * SHARE
                if time.monotonic() > until:
                    break
            compared += 1
            expected, actual = compiling.called(key)
            if key in trace.compiled_errors and actual.error != trace.compiled_errors[key]:
                trial = _with_exceptions(trial, key, expected, actual)
            if expected.raised and key in trace.left and trace.left[key] is None:
                if found := left_by_exception(expected, actual, compiling.ignored):
                    text = f"where it is compiled and raises, what was written before is lost: {found} ({key.words})"
                    trial = replace(trial, raises=trial.raises or text)
            values = key in chosen or apart or key.variation in FINITE
            found = (
                trace.compiled_differing(key, expected, actual, compiling.ignored)
                if values
                else ends_otherwise(expected, actual)
            )
            if found is None and speaks and expected.error is None:
                found = spoken_otherwise(expected, actual, compiling.ignored)
            if found is not None and not _ended_so_before(trace, key, expected, actual, compiling.ignored):
                text = f"compiled code differs from eager code: {found} ({key.words})"
                if key.variation in CONDITIONAL:
                    conditions.setdefault(key.only, text)
                    continue
                return replace(trial, compiled_calls=compared, difference=text, differs="compiled")
    condition = "; ".join(filter(None, (trial.condition, _describe_conditions(conditions)))) or None
    return replace(trial, compiled_calls=compared, condition=condition)


def _ended_so_before(
    trace: Trace, key: Key, eager: Behaviour, compiled: Behaviour, ignored: frozenset[str]
) -> bool:
    """Return whether eager code raises, and compiled code does not, as before the change."""
    before = trace.passed.get(key)
    return (
        before is not None
        and eager.error is not None
        and compiled.error is None
        and trace.compiled_differing(key, before, compiled, ignored) is None
    )


def _trained_apart(models: Models, request: ProofRequest, trace: Trace, trial: Trial) -> Trial:
    """Add differences between compiled and eager code in training to the trial: code that checks whether it is compiled
    may pass gradients on in only one of them."""
    if models.context.work.options.mode == "train":
        return trial  # it has been compared
    keys = [
        key
        for key, _ in trace.calls
        if key.mode == "train"
        and key.function is None
        and key.variation in SEEDED
        and key.seed == request.seeds[0]
    ]
    compiling = _compiling(models, request, trace, "train")
    for key in keys:
        expected, actual = compiling.called(key)
        if found := trace.compiled_differing(key, expected, actual, compiling.ignored):
            text = f"compiled code differs from eager code: {found} ({key.words})"
            return replace(trial, difference=text, differs="compiled")
    return trial


def _compare_training(models: Models, request: ProofRequest, trace: Trace, trial: Trial) -> Trial:
    """Add effects of compiled code that occur only in training to the trial: `torch.cond` supports less there, and
    evaluates a branch again for gradients, with other random numbers."""
    context = models.context
    if context.work.options.mode == "train":
        return trial
    calls = [(k, seen) for k, seen in trace.calls if k.mode == "train" and k.function is None and not k.case]
    first = [(k, seen) for k, seen in calls if k.seed == calls[0][0].seed]
    wanted = [(k, seen) for k, seen in first if k.variation == GIVEN or k.variation in OTHER_NUMBERS]
    if not wanted:
        return trial
    if error := _raised_below(models, "train", wanted):
        return replace(trial, notice=f"compiled in {MODES['train']} it raises {error}")
    compiling = _compiling(models, request, trace, "train")
    taking_sides = [replace(key, mode="train") for key in trace.telling if _is_compiled(key)]
    for key in dict.fromkeys([wanted[0][0], *taking_sides]):
        expected, actual = compiling.called(key)
        if found := trace.compiled_differing(key, expected, actual, compiling.ignored):
            text = f"compiled code differs from eager code: {found} ({key.words})"
            return replace(trial, difference=text, differs="compiled")
    return trial


def _raised_below(models: Models, mode: Mode, calls: Sequence[tuple[Key, Behaviour]]) -> str | None:
    """Return the first exception in calls of one seed compiled by `aot_eager`, if eager code raises another or none."""
    context, seed = models.context, calls[0][0].seed
    dynamo.reset()
    model = context.build_as(mode, seed)
    compiled = compile_callable(model, backend="aot_eager")
    for key, known in calls:
        case = models.get_inputs(key.seed)[key.case]
        error = called(context, model, compiled, case, key, counts=False).error
        if error and error != known.error:
            return error
    return None


def _with_exceptions(trial: Trial, key: Key, eager: Behaviour, compiled: Behaviour) -> Trial:
    """Add different exceptions of compiled code to the trial, for exceptions that a user statement raises: for invalid
    arguments of torch, fake kernels and Dynamo have other messages."""
    if not eager.raised or compiled.error is None or eager.error == compiled.error:
        return trial
    text = f"that compiled code raises {compiled.error} where eager code raises {eager.error} ({key.words})"
    return replace(
        trial,
        compiled_raises=tuple(dict.fromkeys((*trial.compiled_raises, compiled.error))),
        compiled_raises_text=trial.compiled_raises_text or text,
    )


CAUGHT = "an exception that its caller catches"


def _compiled_alone(
    models: Models, request: ProofRequest, variant: Variant, trial: Trial, trace: Trace
) -> Trial:
    """Compare functions alone, compiled against eager, with inputs that take a branch which the model does not take, or
    that make them raise. They run inside the `try` of their callers, since an exception of compiled code may come
    later."""
    chosen = functools.partial(_chosen_alone, models, request, variant.functions, trace.alone)
    expected = {key: call() for key, call in chosen(_wrap_in_try)}
    for key, call in chosen(_compiled_by_itself):
        if key not in expected:
            continue
        actual = call()
        if dynamo.is_failure(actual.error):
            continue  # as it is called by the model it may be compiled all the same
        trial = replace(trial, compiled_calls=trial.compiled_calls + 1)
        if key not in trace.compiled_errors or actual.error != trace.compiled_errors[key]:
            trial = _with_exceptions(trial, key, expected[key], actual)
        if found := trace.compiled_differing(key, expected[key], actual, trace.restless):
            text = f"compiled code differs from eager code: {found} ({key.words})"
            return replace(trial, difference=text, differs="compiled")
    return trial


def _chosen_alone(
    models: Models,
    request: ProofRequest,
    functions: Sequence[FunctionPlace],
    telling: Iterable[Key],
    made: Made,
) -> Iterator[tuple[Key, Callable[[], Behaviour]]]:
    """Yield some of the `telling` calls of functions alone in the mode of the run, as `made` changes them."""
    mode = models.context.work.options.mode
    wanted = {replace(key, mode=mode) for key in telling if _is_compiled(key)}
    left = dict.fromkeys(functions, COMPILED)
    for key, call in alone(models, replace(request, modes=(mode,)), functions, made):
        if key in wanted and key.function is not None and left[key.function]:
            left[key.function] -= 1
            yield key, call


def _wrap_in_try(function: Callable[..., Any], caught: Caught) -> Callable[..., Any]:
    """Wrap a function in the `try` of its callers."""

    def attempt(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except caught:
            return CAUGHT

    return attempt if caught else function


def _compiled_by_itself(function: Callable[..., Any], caught: Caught) -> Callable[..., Any]:
    dynamo.reset()
    made: Callable[..., Any] = compile_callable(_wrap_in_try(function, caught), backend="eager")
    return made
