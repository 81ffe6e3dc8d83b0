"""Handle values that are rounded differently: in each call, like the atomic sums of an accelerator, or by a change."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from tcready.dynamic.worker.measure.agreement import Wide, judge_by_wide
from tcready.dynamic.worker.measure.call_outcome import CallOutcome, unlike
from tcready.dynamic.worker.measure.outcome_structure import unequal_leaves
from tcready.dynamic.worker.proof.behaviour import Behaviour
from tcready.dynamic.worker.proof.calls import Key
from tcready.dynamic.worker.proof.variations import IN_DOUBLE
from tcready.dynamic.worker.proof.widening import WideCall
from tcready.schema.proof import Differs

MOST = 1e-4
"""A larger difference, relative to the largest number, is not rounding."""
TIMES = 4
"""The factor by which a call of the changed code may differ more than two calls of the unmodified code."""

Rounding = Mapping[tuple[str, str], float]
"""The relative difference of a tensor between two equal calls, by the field of `Behaviour` and its name or index
there."""


def rounding(one: Behaviour, other: Behaviour) -> dict[tuple[str, str], float]:
    """Return how much the tensors of two equal calls differ, if rounding can explain it."""
    found = {}
    others = dict(_tensors(other))
    for name, tensor in _tensors(one):
        if 0 < (share := _share(tensor, others.get(name))) <= MOST:
            found[name] = share
    return found


def as_rounded(expected: Behaviour, actual: Behaviour, known: Rounding) -> Behaviour:
    """Return `actual` with the tensors of `expected` for those that differ by no more than rounding."""
    if not known:
        return actual
    others = dict(_tensors(actual))
    return _with_values(
        actual,
        {
            name: tensor
            for name, tensor in _tensors(expected)
            if name in known and _share(tensor, others.get(name)) <= min(TIMES * known[name], MOST)
        },
    )


FEW_DIGITS = 0.1
"""The largest relative difference of a tensor of 16 bits: sums in another order differ by a few percent."""


def in_few_digits(expected: Behaviour, actual: Behaviour) -> Behaviour:
    """Return `actual` with the values of `expected` for floats that are close, and for all integers and flags: these
    may follow from a float that is rounded differently."""

    def is_close(one: Any, other: Any) -> bool:
        if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
            return False
        if one.is_floating_point() and one.layout == torch.strided:
            return _share(one, other) <= FEW_DIGITS
        return bool(one.dtype == other.dtype and one.shape == other.shape)

    pairs = zip(expected.outputs, actual.outputs, strict=False)
    close = {("outputs", str(at)): one for at, (one, other) in enumerate(pairs) if is_close(one, other)}
    return _with_values(actual, close)


def with_dtypes_of(expected: Behaviour, actual: Behaviour) -> Behaviour:
    """Return `actual` with its floats in the types of those of `expected`."""

    def converted(one: Any, other: Any) -> Any:
        both = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
        floats = both and one.is_floating_point() and other.is_floating_point()
        return other.to(one.dtype) if floats else other

    pairs = zip(expected.outputs, actual.outputs, strict=False)
    return _with_values(actual, {("outputs", str(at)): converted(*pair) for at, pair in enumerate(pairs)})


def _with_values(seen: Behaviour, values: Mapping[tuple[str, str], Any]) -> Behaviour:
    """Return a behaviour with other values of some leaves, by field and name."""
    return replace(
        seen,
        outputs=[values.get(("outputs", str(i)), each) for i, each in enumerate(seen.outputs)],
        inputs=[values.get(("inputs", str(i)), each) for i, each in enumerate(seen.inputs)],
        gradients={name: values.get(("gradients", name), each) for name, each in seen.gradients.items()},
        state={name: values.get(("state", name), each) for name, each in seen.state.items()},
    )


class UnsettledError(Exception):
    """Values differ, and only calls in a wide dtype can decide whether that is rounding."""


@dataclass(frozen=True)
class WideCalls:
    """The calls of a proof in a wide dtype, before and after a change; a text says why there are none."""

    before: Mapping[Key, WideCall | str]
    after: Mapping[Key, WideCall | str]


@dataclass(frozen=True)
class Judged:
    """The rest of a call that is to be compared after its values were judged by precision."""

    actual: Behaviour
    """The call, with expected values in place of those that differ by rounding."""
    mistake: tuple[Differs, str] | None = None
    """The first difference beyond rounding, and its kind."""
    why: str = ""
    """The reason why values were not judged, so that tolerances decide; empty if they were, or if something else
    differs."""


SIDES = ("the code before", "the code after")
FEW = 1000
"""In smaller tensors, values of compiled code alone are also judged by tolerance: it is not compiled in a wide dtype,
and eager code may be inexact by chance."""


def judge_values(
    key: Key,
    expected: Behaviour,
    actual: Behaviour,
    wide: WideCalls | None,
    otherwise: Callable[[Behaviour, Behaviour], Any],
    ignored: frozenset[str] = frozenset(),
    *,
    compiled: bool = False,
) -> Judged:
    """Judge by precision the values that differ in two calls, before and after a change or eager and `compiled`.

    `otherwise` returns other differences. Raises UnsettledError if there are none and there are no `wide` calls.
    """
    names, one, other = [], [], []
    theirs = dict(_leaves(actual, ignored))
    for name, leaf in _leaves(expected, ignored):
        that = theirs.get(name)
        if type(that) is not type(leaf) or (isinstance(leaf, torch.Tensor) and unlike(leaf, that)):
            return Judged(actual)
        names.append(name)
        one.append((_label(name), leaf))
        other.append((_label(name), that))
    first, second = CallOutcome(tuple(one), ()), CallOutcome(tuple(other), ())
    unequal = unequal_leaves(first, second)
    if not unequal:
        return Judged(actual)
    alike = {names[at]: one[at][1] for at in unequal}
    if otherwise(expected, _with_values(actual, alike)):
        return Judged(actual)
    if key.variation == IN_DOUBLE and not otherwise(expected, actual):
        return Judged(actual)  # there is no wider dtype: only code that casts to float32 is judged
    if wide is None:
        raise UnsettledError
    found = _wide(key, expected, names, wide, compiled=compiled)
    if isinstance(found, str):
        return Judged(actual, why=found)
    mistakes = [
        (at, text)
        for at in unequal
        if (text := _finite_on_one_side(one[at][1], other[at][1], found.eager.leaves[at][1], found.compiled, at))
    ]
    if mistakes:
        at, text = mistakes[0]
        return Judged(actual, (_kind(names[at]), f"{one[at][0]}: {text}"))
    given = [at for at in unequal if names[at][0] == "outputs"]
    behind = [at for at in unequal if names[at][0] != "outputs"]
    # In a gradient a last digit may decide on a branch, as that of a clamp: other casts say nothing of it.
    for places, of, fused in ((given, found, False), (behind, replace(found, lost_casts=False), True)):
        agreement = judge_by_wide(first, second, places, of, fused=fused, repeats=True)
        if not agreement.ok:
            at = next(at for at in places if agreement.text.startswith(one[at][0]))
            return Judged(actual, (_kind(names[at]), agreement.text))
    if compiled:
        alike = {name: leaf for name, leaf in alike.items() if _count(leaf) >= FEW}
    return Judged(_with_values(actual, alike))


def _leaves(seen: Behaviour, ignored: frozenset[str]) -> Iterator[tuple[tuple[str, str], Any]]:
    """Return the tensors of a call that can be judged, and the numbers among its outputs."""
    named = (
        ("outputs", ((str(number), each) for number, each in enumerate(seen.outputs))),
        ("gradients", seen.gradients.items()),
        ("inputs", ((str(number), each) for number, each in enumerate(seen.inputs))),
        ("state", ((name, each) for name, each in seen.state.items() if name not in ignored)),
    )
    for field, values in named:
        for name, each in values:
            if isinstance(each, torch.Tensor):
                if each.layout == torch.strided and not each.is_quantized:
                    yield (field, name), each
            elif field == "outputs" and type(each) is float:
                yield (field, name), each


KINDS: Mapping[str, tuple[str, Differs]] = MappingProxyType(
    {
        "outputs": ("output", "value"),
        "gradients": ("gradient of", "gradient"),
        "inputs": ("argument", "state"),
        "state": ("state", "state"),
    }
)
"""The names of leaves, and the kind of a difference, by the field of `Behaviour`."""


def _label(name: tuple[str, str]) -> str:
    return f"{KINDS[name[0]][0]} {name[1]}"


def _kind(name: tuple[str, str]) -> Differs:
    return KINDS[name[0]][1]


def _count(leaf: Any) -> int:
    return leaf.numel() if isinstance(leaf, torch.Tensor) else 1


def _wide(
    key: Key, expected: Behaviour, names: Sequence[tuple[str, str]], wide: WideCalls, *, compiled: bool
) -> Wide | str:
    """Return the results of both sides in a wide dtype, or why there are none."""
    found = []
    sides = ((SIDES[1], wide.after),) if compiled else zip(SIDES, (wide.before, wide.after), strict=True)
    for side, calls in sides:
        call = calls.get(key, "there was no time for the call in a wide dtype")
        if isinstance(call, str):
            return call
        if call.seen.error != expected.error:
            return f"in a wide dtype {side} raises {call.seen.error or 'nothing'}"
        leaves = dict(_leaves(call.seen, frozenset()))
        if not all(name in leaves for name in names):
            return f"in a wide dtype {side} has other results"
        found.append((call, CallOutcome(tuple((_label(name), leaves[name]) for name in names), ())))
    (one, before), (other, after) = found[0], found[-1]
    if one.dtype != other.dtype or one.seen.random != other.seen.random:
        return "in a wide dtype the code draws other random numbers"
    for (_, left), (_, right) in zip(before.leaves, after.leaves, strict=True):
        if isinstance(left, torch.Tensor) and (not isinstance(right, torch.Tensor) or left.shape != right.shape):
            return "in a wide dtype the code gives other shapes"
    if compiled:
        return Wide(one.dtype, before, None, one.coarsest, one.own)
    return Wide(one.dtype, before, after, one.coarsest, one.own, other.casts < one.casts, SIDES)


def _finite_on_one_side(one: Any, other: Any, exact: Any, again: CallOutcome | None, at: int) -> str:
    """Return where values are finite in only one call although those in the wide dtype are not; empty if nowhere."""
    left, right, true = (torch.as_tensor(each) for each in (one, other, exact))
    if left.shape != true.shape:
        return "has another shape in a wide dtype"
    if again is not None and not torch.equal(
        torch.isfinite(true), torch.isfinite(torch.as_tensor(again.leaves[at][1]))
    ):
        return "NaN or infinity elsewhere, in a wide dtype too"
    places = ~torch.isfinite(true) & ~torch.isfinite(left)
    moved = int((torch.nan_to_num(left[places]) != torch.nan_to_num(right[places])).sum())
    moved += int((torch.isnan(left[places]) != torch.isnan(right[places])).sum())
    return f"{moved} values that are NaN or infinite became others" if moved else ""


def _tensors(seen: Behaviour) -> Iterator[tuple[tuple[str, str], torch.Tensor]]:
    fields: tuple[tuple[str, Mapping[str, Any]], ...] = (
        ("outputs", {str(i): each for i, each in enumerate(seen.outputs)}),
        ("inputs", {str(i): each for i, each in enumerate(seen.inputs)}),
        ("gradients", seen.gradients),
        ("state", seen.state),
    )
    for field, values in fields:
        for name, value in values.items():
            if isinstance(value, torch.Tensor) and value.is_floating_point() and value.layout == torch.strided:
                yield (field, name), value


def _share(one: torch.Tensor, other: torch.Tensor | None) -> float:
    """Return the relative difference; infinity if the values cannot be two roundings of the same value."""
    if other is None or one.shape != other.shape or one.dtype != other.dtype:
        return math.inf
    finite = torch.isfinite(one)
    if not torch.equal(finite, torch.isfinite(other)):
        return math.inf
    if not torch.equal(torch.nan_to_num(one[~finite]), torch.nan_to_num(other[~finite])):
        return math.inf
    first, second = one[finite].double(), other[finite].double()
    if torch.equal(first, second):
        return 0.0
    return float((first - second).abs().max() / first.abs().max())
