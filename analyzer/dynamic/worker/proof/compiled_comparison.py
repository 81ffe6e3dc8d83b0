"""Compare compiled calls of a variant with eager ones."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tcready.dynamic.worker.proof import fake_kernels
from tcready.dynamic.worker.proof.behaviour import Behaviour
from tcready.dynamic.worker.proof.behaviour_differences import ends_otherwise, left_by_exception, spoken_otherwise
from tcready.dynamic.worker.proof.calls import MODES, Key, Made, alone, called, reached_modules
from tcready.dynamic.worker.proof.compiling import Compiling
from tcready.dynamic.worker.proof.exception_handlers import Caught
from tcready.dynamic.worker.proof.shared_models import Models
from tcready.dynamic.worker.proof.trace import CONDITIONAL, CallTrace, describe_conditions, on_device
from tcready.dynamic.worker.proof.variations import (
    BUILT,
    DTYPES,
    FINITE,
    GIVEN,
    LONGER_COMPILED,
    MAY_NOT_FIT,
    OF_PYTHON,
    OF_SETTINGS,
    ONE_TRUE,
    ONES,
    OTHER_NUMBERS,
    RESIZED,
    SEEDED,
    built_with,
    environments,
    set_to,
    size_variations,
)
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.compile_calls import compile_callable
from tcready.schema.enums import Mode
from tcready.schema.proof import FunctionPlace, ProofRequest, Trial, Variant

SHARE = 0.3
"""The share of the seconds for varied inputs in which further calls are compared compiled."""
EAGER = frozenset({*OF_PYTHON, *OF_SETTINGS, *MAY_NOT_FIT} - {*OTHER_NUMBERS})
"""Variations with calls that are not compiled: other flags lead to other code, which may break again."""
COMPILED = 6
"""The number of calls that are compared compiled against eager, unless more are needed to take each branch."""


def capture_variant(models: Models, request: ProofRequest, variant: Variant, trial: Trial, trace: CallTrace) -> Trial:
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


def _is_compiled(key: Key) -> bool:
    """Return whether a call may be compared compiled: the model is the original one, with its dtype."""
    return key.variation not in DTYPES and not key.variation.startswith(BUILT)


def _compiling(models: Models, request: ProofRequest, trace: CallTrace, mode: Mode | None = None) -> Compiling:
    watched = reached_modules({place.path for place in request.functions})
    return Compiling(models, watched, trace.restless, mode or models.context.work.options.mode)


def compiled_errors_of(
    models: Models, request: ProofRequest, trace: CallTrace
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
            compiled = on_device(models.context, key, functools.partial(compiling.compiled, key))
            found[key] = compiled.error
            if compiled.error is None:
                passed[key] = compiled
            left[key] = left_by_exception(compiling.eager, compiled, compiling.ignored)
    own = {key for key, seen in trace.calls if seen.raised}
    raised_alone = [key for key in trace.alone if key in own]
    functions = tuple(dict.fromkeys(key.function for key in raised_alone if key.function is not None))
    if functions:
        for key, call in _chosen_alone(models, request, functions, raised_alone, _compiled_by_itself):
            found[key] = on_device(models.context, key, call).error
    return found, left, passed


def _compare_compiled(
    models: Models,
    request: ProofRequest,
    trial: Trial,
    trace: CallTrace,
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
    telling = {replace(key, mode=mode) for key in trace.telling}  # the mode that came first saw every side first
    telling |= {key for key in calls if key.variation in variations}
    given = [key for key in calls if key.variation == GIVEN and key not in telling]
    chosen = telling.union(given[: max(COMPILED - len(telling), 1)])
    keys = [key for key in calls if key in chosen and _is_compiled(key)]
    constants = request.constants
    not_compiled = EAGER | (size_variations(constants) - {LONGER_COMPILED})
    not_compiled |= set_to(constants).keys() | built_with(constants).keys() | environments(constants).keys()
    first = [
        key for key in calls if key.seed == request.seeds[0] and key not in chosen and key.variation not in not_compiled
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
        for key in (*(each for each in keys if each.seed == seed), *(each for each in more if each.seed == seed)):
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
                    text = f"if compiled code raises, earlier writes are lost: {found} ({key.words})"
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
    condition = "; ".join(filter(None, (trial.condition, describe_conditions(conditions)))) or None
    return replace(trial, compiled_calls=compared, condition=condition)


def _ended_so_before(
    trace: CallTrace, key: Key, eager: Behaviour, compiled: Behaviour, ignored: frozenset[str]
) -> bool:
    """Return whether eager code raises, and compiled code does not, as before the change."""
    before = trace.passed.get(key)
    return (
        before is not None
        and eager.error is not None
        and compiled.error is None
        and trace.compiled_differing(key, before, compiled, ignored) is None
    )


def _trained_apart(models: Models, request: ProofRequest, trace: CallTrace, trial: Trial) -> Trial:
    """Add differences between compiled and eager code in training to the trial: code that checks whether it is compiled
    may pass gradients on in only one of them."""
    if models.context.work.options.mode == "train":
        return trial  # it has been compared
    keys = [
        key
        for key, _ in trace.calls
        if key.mode == "train" and key.function is None and key.variation in SEEDED and key.seed == request.seeds[0]
    ]
    compiling = _compiling(models, request, trace, "train")
    for key in keys:
        expected, actual = compiling.called(key)
        if found := trace.compiled_differing(key, expected, actual, compiling.ignored):
            text = f"compiled code differs from eager code: {found} ({key.words})"
            return replace(trial, difference=text, differs="compiled")
    return trial


def _compare_training(models: Models, request: ProofRequest, trace: CallTrace, trial: Trial) -> Trial:
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
        return replace(trial, notice=f"compiled in {MODES['train']}, it raises {error}")
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


def _compiled_alone(models: Models, request: ProofRequest, variant: Variant, trial: Trial, trace: CallTrace) -> Trial:
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
    models: Models, request: ProofRequest, functions: Sequence[FunctionPlace], telling: Iterable[Key], made: Made
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
