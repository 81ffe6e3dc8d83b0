"""The trace of the unmodified code: its calls, and what they may differ in."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from tcready.dynamic.worker.core.calling import settle
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.proof.behaviour import Behaviour
from tcready.dynamic.worker.proof.behaviour_differences import compiled_difference, difference, same_digits
from tcready.dynamic.worker.proof.branch_coverage import BranchCoverage
from tcready.dynamic.worker.proof.calls import Key, alone, calls_of_model, cost, shortest
from tcready.dynamic.worker.proof.repeated_calls import Later
from tcready.dynamic.worker.proof.rounding import (
    Rounding,
    WideCalls,
    as_rounded,
    in_few_digits,
    judge_values,
    rounding,
    with_dtypes_of,
)
from tcready.dynamic.worker.proof.shared_models import Models
from tcready.dynamic.worker.proof.sharing import Pair, always
from tcready.dynamic.worker.proof.variations import (
    BY_CHANCE,
    DOUBLE_BY_DEFAULT,
    EMPTY,
    EMPTY_INSIDE,
    EMPTY_LISTS,
    GIVEN,
    IN_FEW_DIGITS,
    IN_TURN,
    MAY_NOT_FIT,
    OF_OTHER_RANK,
    OF_OTHER_STRIDES,
    OF_REVERSED_STRIDES,
    ON_META,
    ONE_MORE_DIMENSION,
    OTHER_NUMBERS,
    OTHER_TYPES,
    TWICE,
    UNDER_AUTOCAST,
    WITH_GRADIENTS,
    built_with,
    set_to,
)
from tcready.schema.proof import SLOWER, Differs, FunctionPlace, ProofRequest

REPEATS = 4
PAUSE = 0.1
CONDITIONAL = frozenset({EMPTY, *EMPTY_INSIDE, EMPTY_LISTS, DOUBLE_BY_DEFAULT, *(OTHER_TYPES - BY_CHANCE)})
"""Variations with which a difference limits a change, but does not refute it."""
DEVICE_LOST = "AcceleratorError"
"""The type of exception that torch raises for all further work on an accelerator after a kernel has failed on it."""


@dataclass
class CallTrace:
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
    clocks: Mapping[FunctionPlace, frozenset[tuple[str, int]]] = field(default_factory=dict)
    """For functions alone, the Python floats that differ between two calls of the unmodified code: the name of the list
    in `Behaviour`, and the position in it."""
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
        """Return `actual` with expected values in place of those that are only rounded differently, and of readings of a
        clock."""
        if function is not None:
            actual = _without_clocks(expected, actual, self.clocks.get(function, frozenset()))
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
            found = found[0], f"{found[1]}; compared with a tolerance, because {judged.why}"
        return judged.actual, found

    def has_another_rank(self, key: Key, seen: Behaviour) -> bool:
        """Return whether the outputs of a call with another rank have it too: otherwise the code takes such inputs by
        chance, for example because it iterates over them."""
        given = dict(self.calls).get(replace(key, variation=GIVEN))
        if given is None or len(given.outputs) != len(seen.outputs):
            return False
        shapes = [
            ((1, *one.shape) if key.variation == ONE_MORE_DIMENSION else one.shape[1:], other.shape)
            for one, other in zip(given.outputs, seen.outputs, strict=True)
            if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
        ]
        return all(tuple(one) == tuple(other) for one, other in shapes)

    def joins_autograd(self, key: Key, expected: Behaviour, actual: Behaviour) -> bool:
        """Return whether the only difference is that an output requires grad, with gradients that are all zero, and
        that it depends on the inputs whether the output before the change does: `torch.where` always has a graph."""
        pairs = [*zip(expected.differentiable, actual.differentiable, strict=False)]
        joined = [at for at, (one, other) in enumerate(pairs) if one != other]
        if not joined or expected.gradients or any(pairs[at] != ((False, False), (True, False)) for at in joined):
            return False
        if any(each is not None and bool(each.any()) for each in actual.gradients.values()):
            return False
        often = {
            at
            for other, seen in self.calls
            if (other.function, other.mode) == (key.function, key.mode)
            for at, (requires, _) in enumerate(seen.differentiable)
            if requires
        }
        alike = replace(actual, differentiable=expected.differentiable, gradients={})
        return often.issuperset(joined) and self.differing(key, expected, alike)[1] is None

    def differing_by_tolerance(self, expected: Behaviour, actual: Behaviour, ignored: frozenset[str]) -> str | None:
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
        return f"{found}; compared with a tolerance, because {judged.why}" if found and judged.why else found


class DeviceLostError(Exception):
    """A kernel failed on an accelerator with these inputs, so this process cannot continue there."""

    def __init__(self, variation: str) -> None:
        super().__init__(variation)
        self.variation = variation


def on_device(context: Context, key: Key, call: Callable[[], Behaviour]) -> Behaviour:
    """Return the effects of a call once the device has done its work. Raises _DeviceLostError if it cannot continue."""
    try:
        seen = call()
        settle(context)
    except Exception as error:
        if type(error).__name__ != DEVICE_LOST:
            raise
        raise DeviceLostError(key.variation) from None
    if seen.error == DEVICE_LOST:
        raise DeviceLostError(key.variation)
    return seen


def save_of(value: Any, path: Path) -> None:
    """Save a value for `torch.load`. Many small tensors take half the time in the older format."""
    torch.save(value, path, _use_new_zipfile_serialization=False)


class TooLongError(BaseException):
    """A call took too long. User code that catches Exception does not catch this."""


@contextlib.contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """Interrupt code that does not end: a loop may run forever with an infinity."""
    if seconds == math.inf:
        yield
        return

    def end(*_: object) -> None:
        raise TooLongError

    usual = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, usual)


def shared_of(trace: CallTrace, sides: BranchCoverage) -> dict[FunctionPlace | None, frozenset[Pair]]:
    taken = sides.taken()
    found = always((key.function, seen.shared) for key, seen in trace.calls if seen.error is None)
    by_model = all(each.true and each.false for each in taken)
    by_functions = all(each.alone_true and each.alone_false for each in taken)
    return {what: pairs for what, pairs in found.items() if (by_model if what is None else by_functions)}


def measure_rounding(
    models: Models, request: ProofRequest, trace: CallTrace
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


def measure_clocks(
    models: Models, request: ProofRequest, trace: CallTrace
) -> dict[FunctionPlace, frozenset[tuple[str, int]]]:
    """Repeat the calls of functions alone with the inputs as given. Return the Python floats that differ then."""
    known = dict(trace.calls)
    found: dict[FunctionPlace, frozenset[tuple[str, int]]] = {}
    for key, call in alone(models, request, request.functions):
        if key.function is None or key not in known or key.variation != GIVEN:
            continue
        one, other = known[key], call()
        differing = {
            (name, position)
            for name in ("outputs", "inputs")
            for position, values in enumerate(zip(getattr(one, name), getattr(other, name), strict=False))
            if all(type(value) is float for value in values) and values[0] != values[1]
        }
        found[key.function] = found.get(key.function, frozenset()) | differing
    return {function: clocks for function, clocks in found.items() if clocks}


def _without_clocks(expected: Behaviour, actual: Behaviour, clocks: frozenset[tuple[str, int]]) -> Behaviour:
    """Return `actual` with expected values in place of other readings of a clock."""

    def without(name: str, before: list[Any], after: list[Any]) -> list[Any]:
        pairs = enumerate(itertools.zip_longest(before[: len(after)], after))
        return [
            one if (name, position) in clocks and type(one) is type(other) is float else other
            for position, (one, other) in pairs
        ]

    if not clocks:
        return actual
    return replace(
        actual,
        outputs=without("outputs", expected.outputs, actual.outputs),
        inputs=without("inputs", expected.inputs, actual.inputs),
    )


def threads_of(models: Models, request: ProofRequest, trace: CallTrace) -> int:
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


def _rounds_alike(models: Models, request: ProofRequest, trace: CallTrace) -> bool:
    """Return whether the calls with the inputs as given have the results in the trace, to the last digit of every
    output and gradient."""
    known = dict(trace.calls)
    first = replace(request, seeds=request.seeds[:1])
    return all(same_digits(known[key], call()) for key, call in calls_of_model(models, first) if key.variation == GIVEN)


NAMED = 2
"""The most calls with the same difference that are named."""


def describe_conditions(conditions: Mapping[str, str]) -> str | None:
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


def is_private(function: FunctionPlace | None) -> bool:
    """Return whether a function is private to its file, by its name."""
    name = function.name.rpartition(".")[2] if function is not None else ""
    return name.startswith("_") and not name.startswith("__")


def is_condition(trace: CallTrace, key: Key, expected: Behaviour, actual: Behaviour) -> bool:
    """Return whether a difference in a call limits a change instead of refuting it. If a user statement raised the
    expected exception, any difference refutes the change."""
    if expected.raised:
        return False
    if expected.error is not None and actual.error is None:  # torch rejected an input that it accepts now
        return True
    if key.function is not None and key.variation in OTHER_NUMBERS:  # the model passes the given ones
        return True
    if key.variation in BY_CHANCE:  # code takes such inputs by chance
        by_rank = key.variation in OF_OTHER_RANK and not trace.has_another_rank(key, expected)
        return actual.error is not None or by_rank
    if key.variation in (OF_OTHER_STRIDES, OF_REVERSED_STRIDES) and expected.strides != actual.strides:
        return trace.differing(key, expected, replace(actual, strides=expected.strides))[1] is None
    if (
        key.variation in IN_FEW_DIGITS and key.variation not in CONDITIONAL
    ):  # `model.to` converts a new buffer, but not the attribute that it replaced
        return trace.differing(key, expected, with_dtypes_of(expected, actual))[1] is None
    return key.variation in CONDITIONAL


def says_nothing(key: Key, seen: Behaviour) -> bool:
    """Return whether a call raised because torch does not accept such arguments or such a setting."""
    may_not_fit = key.variation in {*MAY_NOT_FIT, *set_to(key.constants), *built_with(key.constants)}
    may_not_fit |= key.variation in (UNDER_AUTOCAST, ON_META)
    return may_not_fit and seen.error is not None and not seen.raised


def measure_cost(models: Models, request: ProofRequest, known: float | None) -> float | None:
    """Measure the shortest eager call; one that seems slower than the `known` one is measured again."""
    found = cost(models, request)
    for _ in range(REPEATS):
        if found is None or known is None or found <= known * SLOWER:
            break
        time.sleep(PAUSE)
        found = min(found, cost(models, request) or found)
    return found
