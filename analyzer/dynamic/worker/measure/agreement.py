"""Decide whether eager and compiled code agree up to rounding.

A rounding error shrinks in a wider dtype; a mistake does not. If two outcomes differ, eager and compiled code run
again in float64 (in float32 if float64 needs too much memory). A difference that does not shrink as rounding does is
a mistake. One that shrinks is also checked in the model's own dtype: compiled code may be about as far from the wide
result as eager code is.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from tcready.dynamic.worker.core import distributed
from tcready.dynamic.worker.core.calling import call
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.model_store import copied, refers_to_itself, shares_parameters
from tcready.dynamic.worker.inputs.loading import fresh
from tcready.dynamic.worker.measure.call_outcome import (
    CallOutcome,
    discrete_difference,
    is_discrete,
    kind_of,
    labels_of,
    without,
)
from tcready.dynamic.worker.measure.effects import outcome_of_call
from tcready.dynamic.worker.measure.outcome_structure import (
    cached_on_one_side,
    equal_values,
    structure_differences,
    unequal_leaves,
)
from tcready.dynamic.worker.measure.output_comparison import by_tolerance
from tcready.dynamic.worker.measure.precision import (
    SMALL,
    NotWideError,
    bytes_of,
    call_in,
    case_in,
    computed_in,
    eps_of,
    moved_by_rounding,
    tensors_of,
    wide_dtype,
    widen_in_place,
)
from tcready.dynamic.worker.measure.tensor_distance import (
    distance_of,
    distances,
    flat_of,
    floors_of,
    is_bulk_as_precise,
    mostly_flip,
    not_finite,
    rms,
    size_of,
    times_of,
    to_dense_of,
)
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.compile_calls import compile_callable
from tcready.dynamic.worker.torch_internals.dispatch import WideningMode, unseen
from tcready.schema.run import Compared
from torch import nn

EXCESS = ((1000, 2.5), (32, 5.0), (0, 30.0))
"""The largest ratio of the error of compiled code to the error of eager code, by the least number of values in the
tensor. An error is the root mean square distance from the wide result; with fewer values, chance decides more.
PyTorch's benchmark runner allows 2 to 3. For 17 models of transformers in bfloat16 and float16 that use another
attention kernel in traced code, the ratio was between 0.997 and 1.004 (H200, torch 2.11)."""
EXCESS_OF_FUSED = 10.0
"""The minimum limit for fused kernels that agree with eager code in a wide dtype, for any number of values."""
DOUBT = ((1000, 1.5), (32, 3.0), (0, 10.0))
"""The ratio of errors above which a difference is in doubt. Fused kernels then run again in a wide dtype, and eager
code runs again with inputs and weights changed by one rounding."""
LESS = ((1000, 1.1), (0, 5.0))
"""The limit in place of EXCESS if compiled code lacks casts to a more precise dtype that eager code makes."""
SENSITIVITY = 5.0
"""The largest ratio of the difference between eager and compiled code to the effect of one rounding: how far the
result of eager code moves if its inputs and weights change by one rounding. Used if there is no wide result, or if it
is no measure of rounding."""
TOO_FAR = 0.1
"""The error of eager code above which the wide result is no measure of rounding: the wide run may have drawn other
random numbers or taken another branch."""
FAR_BELOW = 8
"""A difference in float32 is no mistake if it is this many times smaller than the error of eager code."""
UNSTEADY = 0.3
"""If two runs of eager code differ by this fraction of a difference or more, the difference means nothing."""
REPEATED = 16 * torch.finfo(torch.float32).eps
"""The largest difference that repeated calls of eager code may explain. A kernel that adds in no fixed order, as for the
gradient of an embedding on a GPU, gives other bits in each call (a difference of 4e-7 for BERT base, H200)."""
RARE = 0.01
"""The share of elements that may differ by more than they did between calls of eager code: chance had these come close.
It was at most 0.004 in 120 simulated sums of 4,096 values in random order."""
SAMPLES = 3
"""The number of further runs of eager code if all differences are at most REPEATED."""
REPEATS = 5
"""The number of further runs of eager code if its results vary: one run alone may happen to come close to the first."""
MOVES = 2
"""The number of runs of eager code with inputs and weights changed by one rounding."""
MORE_PRECISE = frozenset({torch.float32, torch.float64})
"""Casts to these dtypes are counted."""
MANY = 1 << 22
"""If values may repeat, distinct ones are counted in tensors of up to this size; larger tensors have enough of them."""
STATE = ("buffer", "attribute", "parameter", "argument")
"""Kinds of leaves that a call leaves behind."""

Verdict = Literal["equal", "rounding", "mistake", "not_comparable"]
Prepare = Callable[[Case], Case]
Run = Callable[[Any, Prepare, bool], CallOutcome]


@dataclass(frozen=True)
class ComparedCalls:
    """The calls to compare, in a form that can be repeated.

    `run(model, prepare, compiled)` calls that model, or its compiled form, on inputs that `prepare` converts, and
    returns the outcome.
    """

    run: Run
    build: Callable[[], Any] | None = None
    """Builds a model for the calls; None: `context.build` does."""
    cases: Sequence[Case] = ()
    """The cases with tensors that count towards the memory that is needed; empty: all cases of the run."""
    fused: bool = False
    """True if the compiled code has kernels or graphs of its own, which may round differently anywhere. Its casts cannot
    be counted, and compiling it again takes long, so it runs in a wide dtype only if a difference is in doubt."""


@dataclass(frozen=True)
class Agreement:
    """The result of a comparison."""

    verdict: Verdict
    differences: tuple[str, ...] = ()
    """Differences beyond rounding, each tensor or value in one line."""
    compared: Compared | None = None
    """The figures of the tensor that differs most; None if nothing differs."""

    @property
    def ok(self) -> bool:
        return self.verdict in ("equal", "rounding")

    @property
    def text(self) -> str:
        """The first difference; empty if there is none."""
        return self.differences[0] if self.differences else ""


EQUAL = Agreement("equal")


@dataclass(frozen=True)
class Wide:
    """The outcomes of both sides in a wide dtype."""

    dtype: torch.dtype
    eager: CallOutcome
    compiled: CallOutcome | None
    coarsest: torch.dtype
    """The least precise dtype that the wide eager run still uses: code may name a dtype."""
    own: torch.dtype
    """The least precise dtype of the original calls."""
    lost_casts: bool = False
    """True if compiled code casts to a more precise dtype less often than eager code."""
    names: tuple[str, str] = ("eager code", "compiled code")
    """The names of the two sides in messages."""


def case_calls(
    context: Context, case: Case, compiled: Callable[[Any], Callable[..., Any]] | None = None, *, number: int = 1
) -> ComparedCalls:
    """Return calls of the model with the inputs of a case. Only the outcome of the last of `number` calls counts.
    `compiled` compiles the model; by default it is compiled as in the stage `capture`."""

    def compiling(model: Any) -> Callable[..., Any]:
        wrapped = distributed.wrap_in_ddp(model, context.work)
        found: Callable[..., Any] = compile_callable(wrapped, backend="eager", **context.compile_options)
        return found

    def run(model: Any, prepare: Prepare, is_compiled: bool) -> CallOutcome:
        if is_compiled:
            dynamo.reset()
        function = (compiled or compiling)(model) if is_compiled else model
        prepared = prepare(case)
        for _ in range(number - 1):
            call(context, function, prepared)
        return outcome_of_call(context, model, function, prepared)

    return ComparedCalls(run, cases=(case,))


def judge(context: Context, expected: CallOutcome, actual: CallOutcome, calls: ComparedCalls) -> Agreement:
    """Compare the outcomes of compiled and eager code for the same calls.

    Equal outcomes need no further calls. Otherwise the calls run again, in a wide dtype and in eager code. If the user
    gave a tolerance, it decides instead. All ranks of a run take the same path, because calls may contain collectives.
    """
    if cached := cached_on_one_side(expected, actual):
        expected, actual = without(expected, cached), without(actual, cached)
        calls = replace(calls, run=_leaving_out(calls.run, cached))
    found = _compare(context, expected, actual, calls)
    if distributed.on_any(not found.ok, context.work):
        found = _unless_unsteady(context, expected, actual, calls, found)
    return found


def _compare(context: Context, expected: CallOutcome, actual: CallOutcome, calls: ComparedCalls) -> Agreement:
    """Compare two outcomes, assuming that eager code would return `expected` again."""
    work = context.work
    if context.tolerance is not None:
        text = by_tolerance(expected, actual, context.tolerance)
        return Agreement("mistake", (text,)) if text else EQUAL
    other = structure_differences(expected, actual)
    unequal = () if other else unequal_leaves(expected, actual)
    if not distributed.on_any(bool(other or unequal), work):
        return EQUAL
    if distributed.on_any(bool(other), work):
        return Agreement("mistake", other) if other else EQUAL
    if _repeats_differ_alike(context, expected, actual, unequal, calls):
        return EQUAL
    wide, why = _in_wide_dtype(context, expected, actual, calls)
    if distributed.on_any(wide is None, work) or wide is None:
        return _by_sensitivity(context, expected, actual, unequal, calls, why)
    return _by_wide(context, expected, actual, unequal, calls, wide)


def _leaving_out(run: Run, labels: frozenset[str]) -> Run:
    return lambda model, prepare, compiled: without(run(model, prepare, compiled), labels)


UNSTEADY_WORDS = "two eager runs with the same seeds differ"


def rounding_words(compared: Compared) -> str:
    """Describe a rounding difference: its size, and what it is compared with."""
    text = f"{compared.name} differs by {share(compared.difference)} (rounding)"
    if compared.reference and compared.eager_error is not None and compared.compiled_error is not None:
        own, error = share(compared.eager_error), share(compared.compiled_error)
        text += f": error against {compared.reference} {error}, eager {own}"
    elif compared.eager_error is not None:
        text += f": one rounding error in inputs and weights changes eager results by {share(compared.eager_error)}"
    return text


# In a wide dtype


def _in_doubt(expected: CallOutcome, actual: CallOutcome, exact: CallOutcome) -> bool:
    """Return whether compiled code is noticeably further from the wide result than eager code."""
    return _is_further(expected, actual, exact, DOUBT, 1 / 2)


def _is_further(
    expected: CallOutcome, actual: CallOutcome, exact: CallOutcome, times: tuple[tuple[int, float], ...], least: float
) -> bool:
    """Return whether the error of compiled code exceeds `times` the error of eager code, which counts as at least
    `least` of one rounding."""
    if labels_of(exact) != labels_of(expected):
        return True
    for at in unequal_leaves(expected, actual):
        one, other, right = expected.leaves[at][1], actual.leaves[at][1], exact.leaves[at][1]
        if is_discrete(one) or not isinstance(one, torch.Tensor):
            return True
        floor = eps_of(one.dtype) * least * rms(right)
        if distance_of(other, right) > times_of(times, one.numel()) * max(distance_of(one, right), floor):
            return True
    return False


def _lost_precision(context: Context, calls: ComparedCalls, own: torch.dtype) -> bool:
    """Return whether compiled code casts to a more precise dtype less often than eager code, or runs an operation in
    `own` that eager code runs in a more precise dtype, in calls that are not widened. Counting casts alone is not
    enough: a cast to the current dtype of a tensor runs no operation."""
    eager, compiled = (_in_own_dtype(context, calls, own, compiled=each) for each in (False, True))
    if eager is None or compiled is None:
        return False
    moved = any(
        count > compiled.ran[name, True] and compiled.ran[name, False] > eager.ran[name, False]
        for (name, is_precise), count in eager.ran.items()
        if is_precise
    )
    return moved or compiled.casts < eager.casts


def _in_own_dtype(context: Context, calls: ComparedCalls, own: torch.dtype, *, compiled: bool) -> WideningMode | None:
    """Return what was counted in calls that are not widened; None if they raise."""
    mode = WideningMode(MORE_PRECISE, None, own)
    stance = contextlib.nullcontext() if compiled else torch.compiler.set_stance("force_eager")
    try:
        with stance, mode:
            calls.run((calls.build or context.build)(), lambda case: case, compiled)
    except Exception:  # whatever the model raises
        return None
    return mode


def _in_wide_dtype(
    context: Context, expected: CallOutcome, actual: CallOutcome, calls: ComparedCalls
) -> tuple[Wide | None, str]:
    """Run both sides in a wide dtype. Return None and the reason if eager code does not run in one."""
    with contextlib.ExitStack() as stack:
        try:
            wide = stack.enter_context(_widen_models(context, calls))
            dtype, narrow, model_of = wide.dtype, wide.narrow, wide.model_of
            stack.enter_context(call_in(context, dtype))

            def prepare(case: Case) -> Case:
                with unseen():
                    return case_in(case, dtype)

            seen = WideningMode(narrow, dtype, wide.own)
            with torch.compiler.set_stance("force_eager"), seen:
                eager = calls.run(model_of(), prepare, False)
        except NotWideError as error:
            return None, str(error)
        except Exception as error:  # an operator without the dtype, a dtype that the code names, memory
            return None, f"in a wider dtype eager code raises {type(error).__name__}"
        coarsest = max(seen.found or {dtype}, key=eps_of)
        own = computed_in(context, narrow)
        if calls.fused and not _in_doubt(expected, actual, eager):
            return Wide(dtype, eager, None, coarsest, own), ""
        compiled: CallOutcome | None = None
        seen_compiled = WideningMode(narrow, dtype, wide.own)
        with contextlib.suppress(Exception), seen_compiled:
            compiled = calls.run(model_of(), prepare, True)
        lost = compiled is not None and not calls.fused and seen_compiled.casts < seen.casts
    is_half = own not in (torch.float32, torch.float64)
    if is_half and not calls.fused and _is_further(expected, actual, eager, LESS, 1 / 8):
        # In float32, a cast to float32 does nothing.
        lost = (lost and dtype == torch.float64) or _lost_precision(context, calls, own)
    return Wide(dtype, eager, compiled, coarsest, own, lost), ""


@dataclass(frozen=True)
class _Widened:
    dtype: torch.dtype
    narrow: frozenset[torch.dtype]
    """The dtypes that are replaced by `dtype`: float32, and those of the model and its inputs. A cast to any other
    dtype is part of the computation."""
    own: torch.dtype
    """The least precise dtype of the model and its inputs."""
    model_of: Callable[[], Any]


@contextlib.contextmanager
def _widen_models(context: Context, calls: ComparedCalls) -> Iterator[_Widened]:
    """Yield a wider dtype for which there is enough memory, and a function that returns models in it. Raises
    NotWideError if there is none."""
    build = calls.build or context.build
    gc.collect()  # earlier models are in cycles, and share parameter memory, which widening could not free otherwise
    # Widen the model that all others are copied from: a separate wide one would need three times its memory.
    lent = context.lent() if calls.build is None and context.lent is not None else contextlib.nullcontext()
    with lent as original, contextlib.ExitStack() as stack:
        model = build() if original is None else original.model
        dtype, narrow = wide_dtype(context, model, calls.cases or context.cases)
        set_aside = original is None and _is_large_and_shared(context, model)

        def built() -> Any:
            made = build()
            stack.enter_context(widen_in_place(made, dtype))
            return made

        model_of: Callable[[], Any] = built
        if original is not None or not refers_to_itself(model):
            stack.enter_context(widen_in_place(model, dtype, set_aside=set_aside))
            model_of = functools.partial(copied, model, share=original is None or original.shared)
        yield _Widened(dtype, narrow, max(narrow, key=eps_of), model_of)


def _is_large_and_shared(context: Context, model: Any) -> bool:
    """Return whether a model shares its parameters with the original of all copies and is too large to store these
    beside a wide copy."""
    if context.lent is None or bytes_of(model) <= SMALL // 4:
        return False
    with context.lent() as lent:
        return lent is not None and shares_parameters(lent.model, model)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _by_wide(
    context: Context,
    expected: CallOutcome,
    actual: CallOutcome,
    unequal: Sequence[int],
    calls: ComparedCalls,
    wide: Wide,
) -> Agreement:
    if labels_of(wide.eager) != labels_of(expected):
        return _by_sensitivity(
            context, expected, actual, unequal, calls, f"in {_name(wide.dtype)} the output has a different structure"
        )
    moved = functools.cache(lambda: [] if context.work.options.processes else _run_rerounded(context, calls))
    return judge_by_wide(expected, actual, unequal, wide, moved, fused=calls.fused)


def judge_by_wide(
    expected: CallOutcome,
    actual: CallOutcome,
    unequal: Sequence[int],
    wide: Wide,
    moved: Callable[[], Sequence[CallOutcome]] = tuple,
    *,
    fused: bool = False,
    repeats: bool = False,
) -> Agreement:
    """Compare two outcomes with the help of both sides' outcomes in a wide dtype, which have the same leaves.

    `unequal` holds the indices of the leaves to compare. `moved` returns outcomes of eager code under different
    rounding, which decide whether integers may differ. `repeats`: whether all inputs may have one value. Values then
    repeat, and only distinct values average out chance.
    """
    floors = floors_of(wide.eager)
    worst: Compared | None = None
    mistakes: list[str] = []
    for at in unequal:
        label, one = expected.leaves[at]
        other, exact = actual.leaves[at][1], wide.eager.leaves[at][1]
        again = (
            None
            if wide.compiled is None or labels_of(wide.compiled) != labels_of(expected)
            else (wide.compiled.leaves[at][1])
        )
        if is_discrete(one):
            own = [outcome.leaves[at][1] for outcome in moved() if len(outcome.leaves) > at]
            found = discrete_difference(one, other, [exact, *own])
            text = "" if found.unsure else found.text
            if not text and again is not None:
                # Results that depend on rounding, such as a check that probabilities sum to 1, do so in any dtype.
                found = discrete_difference(exact, again, [one, *own])
                flips = found.unsure and mostly_flip(exact, again, [one, *own])
                text = f"{found.text} in {_name(wide.dtype)}" if found.text and not flips else ""
            if text:
                mistakes.append(f"{label}: {text}")
            continue
        one, other, exact = map(to_dense_of, (one, other, exact))
        again = None if again is None else to_dense_of(again)
        if text := not_finite(one, other, exact):
            mistakes.append(f"{label}: {text}")
            continue
        if again is not None and (text := not_finite(exact, again)):
            mistakes.append(f"{label}: {text} in {_name(wide.dtype)}")
            continue
        floor = floors.get(kind_of(label), 0.0)
        compared = _figures(label, one, other, exact, again, wide, floor)
        values = int(exact.unique().numel()) if repeats and one.numel() <= MANY else one.numel()
        own = [to_dense_of(each.leaves[at][1]) for each in _reroundings(moved, expected, compared, values)]
        size = size_of(exact, one, floor)
        spread = max((distance_of(one, each) / size for each in own), default=None)
        flips = spread is not None and is_bulk_as_precise(one, other, exact)
        text = _explain_excess(compared, one.dtype, values, wide, fused, spread, flips)
        if worst is None or (bool(text) and not mistakes) or compared.difference > worst.difference:
            worst = compared
        if text:
            mistakes.append(f"{label} {text}")
    return _agreement(mistakes, worst)


def _agreement(mistakes: Sequence[str], worst: Compared | None) -> Agreement:
    return Agreement("mistake" if mistakes else "rounding", tuple(mistakes), worst)


def _figures(
    label: str,
    one: torch.Tensor,
    other: torch.Tensor,
    exact: torch.Tensor,
    again: torch.Tensor | None,
    wide: Wide,
    floor: float,
) -> Compared:
    size = size_of(exact, one, floor)
    return Compared(
        label,
        _name(one.dtype),
        distance_of(one, other) / size,
        _name(wide.dtype),
        distance_of(one, exact) / size,
        distance_of(other, exact) / size,
        None if again is None else distance_of(exact, again) / size,
    )


def _reroundings(
    moved: Callable[[], Sequence[CallOutcome]], expected: CallOutcome, compared: Compared, values: int
) -> list[CallOutcome]:
    """Return outcomes of eager code under different rounding if they are needed: if the wide result is no measure of
    rounding, or if chance decides."""
    own, error = compared.eager_error or 0.0, compared.compiled_error or 0.0
    needed = own > TOO_FAR or error > times_of(DOUBT, values) * own
    return [each for each in moved() if labels_of(each) == labels_of(expected)] if needed else []


def _explain_excess(
    compared: Compared, dtype: torch.dtype, values: int, wide: Wide, fused: bool, spread: float | None, flips: bool
) -> str:
    """Explain why a difference is more than rounding; empty if it is not. `spread`: how far eager code moves under
    different rounding, if known. `flips`: whether a few values cause the difference, as when a token goes to another
    expert. They may then differ by as much as `spread`."""
    if compared.remaining is not None:
        # The geometric mean of two factors: that by which rounding shrinks, and 1, as a mistake does not shrink.
        before = dtype if eps_of(dtype) > eps_of(wide.dtype) else wide.own
        expected_part = math.sqrt(min(1.0, eps_of(wide.coarsest) / max(eps_of(before), eps_of(wide.dtype))))
        noise = 64 * eps_of(wide.coarsest)
        if wide.dtype == torch.float32:
            # Code that computes in float32 in its own dtype too gets no more precise there.
            noise = max(noise, min(compared.eager_error or 0.0, TOO_FAR) / FAR_BELOW)
        if compared.remaining > max(expected_part * compared.difference, noise if expected_part < 1.0 else math.inf):
            return (
                f"differs by {share(compared.difference)}, and by {share(compared.remaining)} "
                f"in {compared.reference} too"
            )
    own, error = compared.eager_error, compared.compiled_error
    if own is None or error is None:
        return ""
    first, second = wide.names
    least = eps_of(dtype) / (8 if values >= EXCESS[0][0] else 2)
    if wide.lost_casts and error > times_of(LESS, values) * max(own, least):
        return f"{_errors(compared, first)}: {second} omits casts to a more precise dtype that {first} makes"
    chance = own > TOO_FAR or values < EXCESS[1][0]
    if spread is not None and chance and compared.difference > SENSITIVITY * max(spread, least):
        how = f"one rounding error in inputs and weights changes {first} by {share(spread)}"
        return f"differs by {share(compared.difference)}: {how}"
    times = max(times_of(EXCESS, values), EXCESS_OF_FUSED if fused else 0.0)
    if error > times * max(own, least, (spread or 0.0) if flips else 0.0):
        return f"{_errors(compared, first)}: {second} computes less precisely"
    return ""


def _errors(compared: Compared, first: str) -> str:
    return (
        f"is {share(compared.compiled_error or 0.0)} from {compared.reference}, {first} "
        f"{share(compared.eager_error or 0.0)}"
    )


def share(value: float) -> str:
    """A part of the size of a tensor, as a percentage with two digits or more."""
    return f"{100 * value:.2g} %" if value < 0.995 else f"{100 * value:.0f} %"


# By eager code alone


def _run_rerounded(context: Context, calls: ComparedCalls) -> list[CallOutcome]:
    """Return outcomes of eager code with inputs and weights changed by one rounding; a run that raises is left out."""
    found = []
    for seed in range(MOVES):
        with contextlib.suppress(Exception), torch.compiler.set_stance("force_eager"):
            model = _build_unshared(calls.build or context.build)
            owner = getattr(model, "__self__", model)
            if isinstance(owner, nn.Module):
                moved_by_rounding(tensors_of(owner), seed)

            def prepare(case: Case, seed: int = seed) -> Case:
                case = fresh(case)
                moved_by_rounding(tensors_of((case.args, case.kwargs)), seed + MOVES)
                return case

            found.append(calls.run(model, prepare, False))
    return found


def _build_unshared(build: Callable[[], Any]) -> Any:
    """Build a model that shares its parameters with no other model."""
    model = build()
    try:
        return copied(model, share=False)
    except Exception:  # a model that cannot be copied is built each time
        return model


def _by_sensitivity(
    context: Context, expected: CallOutcome, actual: CallOutcome, unequal: Sequence[int], calls: ComparedCalls, why: str
) -> Agreement:
    """Compare a difference with the effect that one rounding of inputs and weights has on eager code."""
    moved = [each for each in _run_rerounded(context, calls) if labels_of(each) == labels_of(expected)]
    floors = floors_of(expected)
    worst: Compared | None = None
    mistakes: list[str] = []
    for at in unequal:
        label, one = expected.leaves[at]
        other = actual.leaves[at][1]
        own = [each.leaves[at][1] for each in moved]
        if is_discrete(one):
            found = discrete_difference(one, other, own)
            if found.text and not found.unsure:
                mistakes.append(f"{label}: {found.text}")
            continue
        one, other, *own = map(to_dense_of, (one, other, *own))
        if text := not_finite(one, other):
            mistakes.append(f"{label}: {text}")
            continue
        size = max(rms(one), floors.get(kind_of(label), 0.0)) or 1.0
        difference = distance_of(one, other) / size
        spread = max((distance_of(one, each) / size for each in own), default=0.0)
        compared = Compared(label, _name(one.dtype), difference, "", spread or None, None, None, why)
        worst = compared if worst is None or difference > worst.difference else worst
        if difference > SENSITIVITY * max(spread, eps_of(one.dtype) / 2):
            how = f"one rounding error in inputs and weights changes eager results by {share(spread)}" if own else why
            mistakes.append(f"{label} differs by {share(difference)}: {how}")
    return _agreement(mistakes, worst)


def _repeats_differ_alike(
    context: Context, expected: CallOutcome, actual: CallOutcome, unequal: Sequence[int], calls: ComparedCalls
) -> bool:
    """Return whether each difference is at most REPEATED, and no larger than those between calls of eager code: by a
    factor of 2 over all elements, and in nearly each element by a factor of 8 unless it is at most REPEATED there too."""

    def is_small(at: int) -> bool:
        one, other = expected.leaves[at][1], actual.leaves[at][1]
        if is_discrete(one) or not isinstance(one, torch.Tensor):
            return False
        one, other = to_dense_of(one), to_dense_of(other)
        return not not_finite(one, other) and distance_of(one, other) <= REPEATED * rms(one)

    if distributed.on_any(not all(map(is_small, unequal)), context.work):
        return False
    noise: dict[int, torch.Tensor] = {}
    for _ in range(SAMPLES):
        again = _eager_again(context, calls)
        if distributed.on_any(bool(structure_differences(expected, again)), context.work):
            return False
        for at in unequal:
            apart = distances(expected, again, at)
            noise[at] = torch.maximum(noise[at], apart) if at in noise else apart
        if distributed.on_any(not all(bool(each.any()) for each in noise.values()), context.work):
            return False  # eager code repeats the values that differ in compiled code: no more calls are needed

    def is_noise(at: int) -> bool:
        apart, of_eager = distances(expected, actual, at), noise[at]
        whole = rms(of_eager)
        is_far = apart > torch.maximum(8 * of_eager, REPEATED * flat_of(expected.leaves[at][1]).abs())
        few = int(is_far.sum()) <= RARE * is_far.numel() and not bool((is_far & (apart > 8 * whole)).any())
        return few and rms(apart) <= 2 * whole

    return not distributed.on_any(not all(map(is_noise, unequal)), context.work)


def _eager_again(context: Context, calls: ComparedCalls) -> CallOutcome:
    """Return the outcome of the same calls of eager code."""
    with torch.compiler.set_stance("force_eager"):
        return calls.run((calls.build or context.build)(), lambda case: case, False)


def _unless_unsteady(
    context: Context, expected: CallOutcome, actual: CallOutcome, calls: ComparedCalls, found: Agreement
) -> Agreement:
    """Drop differences that two eager runs also show; if none remain, the outcomes are not comparable.

    The first eager call ran under dispatch modes, which disable torch's fused attention. If two calls without a mode
    agree in structure with each other but not with the first, compare with those.
    """
    again = _eager_again(context, calls)
    if distributed.on_any(bool(structure_differences(expected, again)), context.work):
        if not distributed.on_any(bool(structure_differences(again, _eager_again(context, calls))), context.work):
            return _compare(context, again, actual, calls)
        return replace(found, verdict="not_comparable") if not found.ok else found
    if structure_differences(expected, actual):
        return found
    others = dict(actual.leaves)
    samples = {
        label: [value] for label, value in expected.leaves if any(_has_label(text, label) for text in found.differences)
    }
    for left in reversed(range(REPEATS)):
        for label, value in again.leaves:
            if label in samples:
                samples[label].append(value)
        unsteady = {label for label, values in samples.items() if _is_unsteady(values, others[label])}
        varies = any(
            label not in unsteady and not equal_values(values[0], values[-1]) for label, values in samples.items()
        )
        if not left or not distributed.on_any(varies, context.work):
            break
        again = _eager_again(context, calls)
        if distributed.on_any(bool(structure_differences(expected, again)), context.work):
            return replace(found, verdict="not_comparable")
    steady = tuple(text for text in found.differences if not any(_has_label(text, label) for label in unsteady))
    if not unsteady or not found.differences:
        return found
    if steady:
        return replace(found, differences=steady)
    # A model may also store state that differs on every call, such as the time.
    only_state = all(kind_of(text) in STATE for text in found.differences)
    return EQUAL if only_state else replace(found, verdict="not_comparable")


def _is_unsteady(samples: Sequence[Any], other: Any) -> bool:
    """Return whether results of eager code differ from each other by a considerable part of the difference of compiled
    code from the first one."""
    one, *again = samples
    if all(equal_values(one, each) for each in again):
        return False
    if not isinstance(one, torch.Tensor) or is_discrete(one) or any(not_finite(one, each) for each in again):
        return True
    if not_finite(one, other):
        return False
    spread = max(distance_of(*pair) for pair in itertools.combinations(samples, 2))
    return spread >= UNSTEADY * distance_of(one, other)


def _has_label(difference: str, label: str) -> bool:
    """Return whether a difference is that of the leaf with this label."""
    return difference.startswith((f"{label}: ", f"{label} differs ", f"{label} is "))
