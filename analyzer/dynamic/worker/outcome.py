"""What a call gave, and how far two of them are apart, each tensor relative to its own largest value."""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

EXACT = (torch.float64, torch.complex128)
ROUNDED = (torch.float32, torch.complex64, torch.float16, torch.bfloat16)
"""What has a counterpart in float64."""
FLOOR = 1e-3
"""A tensor is not compared by less than this part of the largest value of its kind (outputs, gradients): what should be
zero is noise twice."""
TIMES = 5.0
"""How many times as far from float64 as eager code compiled code may be, beside the tolerance: two ways to round the
same sum are seldom further apart (a sum of 8192 values that cancel: 3 times, under Inductor on a CPU). PyTorch's own
benchmark runner allows 2 to 3 times the root mean square."""
UNSURE = 10.0
"""Without float64, a tensor that differs by no more than so many times the tolerance may be rounded otherwise: eager code
may be as far off. A sum of bfloat16 values that cancel is 2 to 3 times the tolerance off in both."""
TOO_FAR = 0.1
"""Of the largest value: what is further from float64 than this is not called the same, however far eager code itself is.
It may take another way there (another expert, another branch), and then float64 is nothing to hold it against."""
UNTOUCHED = ("argument", "buffer")
"""Kinds of what a call may leave as it was."""
FEW, TIMES_OF_FEW = 100, 10.0
"""The same for tensors of so few values: eager code may hit the right one by chance."""


@dataclass(frozen=True)
class Outcome:
    """What one call gave: flat, copied, and in training the gradients of the parameters behind it."""

    leaves: tuple[tuple[str, Any], ...]
    """The first word of a label is its kind: `output 0`, `gradient of weight`."""
    structure: tuple[str, ...]


def joined(outcomes: Mapping[str, Outcome]) -> Outcome:
    """Several outcomes as one; each key is put behind the names of its leaves."""
    return Outcome(
        tuple((f"{name}{key}", leaf) for key, each in outcomes.items() for name, leaf in each.leaves),
        tuple(text for each in outcomes.values() for text in each.structure),
    )


@dataclass(frozen=True)
class Difference:
    """`share`: the largest difference over the largest value; `text` says which, where it is beyond what is allowed."""

    share: float | None
    text: str | None
    error: float | None = None
    """The largest difference of the second outcome from float64, over the largest value of its tensor."""
    expected_error: float | None = None
    """The same of the first."""
    unsure: bool = False
    """Whether what `text` says may be rounding: there is nothing in float64 to hold it against, and it is not large; or
    eager code itself is too far from float64."""


def is_discrete(leaf: Any) -> bool:
    """Whether it is made of whole numbers or truth values."""
    if isinstance(leaf, torch.Tensor):
        return not (leaf.is_floating_point() or leaf.is_complex() or leaf.is_quantized)
    return isinstance(leaf, int)


def difference(
    expected: Outcome,
    actual: Outcome,
    tolerance: float,
    exact: Outcome | None = None,
    near: Sequence[Outcome] = (),
) -> Difference:
    """The largest difference between two outcomes, each tensor relative to its own largest value.

    `exact`: what `expected` is in float64. A tensor that has a counterpart there may be as far from it as the tolerance
    and a few times the distance of `expected`; every other may differ by the tolerance. Integers, booleans and other
    values must be equal; so must the places of NaN and infinity. `near`: what `expected` is under other rounding.
    Integers and booleans that differ there, or in float64, hang on rounding: few more of them may differ, unsurely.
    """
    if expected.structure != actual.structure or len(expected.leaves) != len(actual.leaves):
        return Difference(None, "the outputs have another structure")
    floors = _floors(expected)
    references = _references(expected, exact)
    rounded = [each for each in (exact, *near) if each is not None and labels_of(each) == labels_of(expected)]
    found = Difference(None, None)
    for number, ((label, one), (_, other), reference) in enumerate(
        zip(expected.leaves, actual.leaves, references, strict=True)
    ):
        are_tensors = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
        if is_discrete(one) and (are_tensors or type(one) is type(other)):
            this = discrete_difference(one, other, [each.leaves[number][1] for each in rounded])
            found = replace(
                _with_text(found, this.text and f"{label}: {this.text}", this.unsure),
                share=_worse(found.share, this.share),
            )
        elif isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
            floor = floors.get(kind_of(label), 0.0)
            this = _tensor_difference(one, other, floor, tolerance, reference)
            found = replace(
                _with_text(found, this.text and f"{label}: {this.text}", this.unsure),
                share=_worse(found.share, this.share),
            )
            # An argument or a buffer that nobody wrote to is exact, and no measurement.
            if this.error or this.expected_error or kind_of(label) not in UNTOUCHED:
                found = replace(
                    found,
                    error=_worse(found.error, this.error),
                    expected_error=_worse(found.expected_error, this.expected_error),
                )
        elif type(one) is not type(other):
            found = _with_text(found, f"{label}: {type(one).__name__} became {type(other).__name__}")
        elif isinstance(one, (float, complex)):
            if not cmath.isclose(one, other, rel_tol=tolerance) and not (one != one and other != other):
                found = _with_text(found, f"{label}: {one!r} became {other!r}")
        elif isinstance(one, (str, bytes)) and one != other:
            found = _with_text(found, f"{label}: {one!r} became {other!r}")
    return found


def _with_text(found: Difference, text: str | None, unsure: bool = False) -> Difference:
    """The first difference is the one that is told, and what is sure goes before what is not."""
    if text is None or (found.text is not None and (unsure or not found.unsure)):
        return found
    return replace(found, text=text, unsure=unsure)


def kind_of(label: str) -> str:
    return label.split(" ", 1)[0]


def _floors(expected: Outcome) -> dict[str, float]:
    """The least that a tensor is compared by, for each kind."""
    found: dict[str, float] = {}
    for label, leaf in expected.leaves:
        if isinstance(leaf, torch.Tensor):
            found[kind_of(label)] = max(found.get(kind_of(label), 0.0), FLOOR * _largest(leaf))
    return found


def _worse(one: float | None, other: float | None) -> float | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _references(expected: Outcome, exact: Outcome | None) -> list[torch.Tensor | None]:
    """For each leaf its value in float64; None where there is none: it was computed in less after all."""
    if exact is None or labels_of(exact) != labels_of(expected):
        return [None] * len(expected.leaves)
    return [
        other
        if isinstance(one, torch.Tensor)
        and isinstance(other, torch.Tensor)
        and one.dtype in ROUNDED
        and other.dtype in EXACT
        and one.shape == other.shape
        and one.layout == other.layout == torch.strided
        else None
        for (_, one), (_, other) in zip(expected.leaves, exact.leaves, strict=True)
    ]


def labels_of(outcome: Outcome) -> list[str]:
    return [label for label, _ in outcome.leaves]


def discrete_difference(one: Any, other: Any, rounded: Sequence[Any]) -> Difference:
    """Of whole numbers or truth values; `rounded` is what `one` is under other rounding."""
    if not isinstance(one, torch.Tensor):
        text = None if one == other else f"{one!r} became {other!r}"
        return Difference(None, text, unsure=any(type(each) is type(one) and each != one for each in rounded))
    if text := unlike(one, other):
        return Difference(math.inf, text)
    if one.layout != torch.strided:
        return (
            discrete_difference(one.to_dense(), other.to_dense(), ())
            if one.is_sparse
            else Difference(None, None)
        )
    wrong = int((one != other).sum())
    if not wrong:
        return Difference(0.0, None)
    hanging = torch.zeros_like(one, dtype=torch.bool)
    for each in rounded:
        if isinstance(each, torch.Tensor) and not unlike(one, each):
            hanging |= one != each
    own = int(hanging.sum())
    text = f"{wrong} of {one.numel()} values of {one.dtype} differ"
    if own:
        text += f", and {own} {'does' if own == 1 else 'do'} in eager code that rounds otherwise"
    return Difference(1.0, text, unsure=wrong <= TIMES_OF_FEW * own)


def unlike(one: torch.Tensor, other: torch.Tensor) -> str:
    """What became of its dtype, shape or layout; empty if these are the same."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{one.dtype} {tuple(one.shape)} became {other.dtype} {tuple(other.shape)}"
    return f"{one.layout} became {other.layout}" if one.layout != other.layout else ""


def _error(tensor: torch.Tensor, exact: torch.Tensor, floor: float) -> float | None:
    """How far from float64, over the largest value there; where float64 alone is finite, or is not, says nothing. None if
    no value is finite in both."""
    value, right = _wide(tensor), _wide(exact)
    both = torch.isfinite(value) & torch.isfinite(right)
    if not bool(both.any()):
        return None
    size = float((value[both] - right[both]).abs().max())
    largest: float = max(_largest(exact), floor) or 1.0
    return size / largest


def _tensor_difference(
    one: torch.Tensor, other: torch.Tensor, floor: float, tolerance: float, exact: torch.Tensor | None
) -> Difference:
    if text := unlike(one, other):
        return Difference(math.inf, text)
    if one.is_sparse:
        return _tensor_difference(one.to_dense(), other.to_dense(), floor, tolerance, exact)
    if one.layout != torch.strided or one.is_quantized:
        return Difference(None, None)
    left, right = _wide(one), _wide(other)
    finite = torch.isfinite(left)
    same = torch.equal(finite, torch.isfinite(right)) and torch.equal(
        torch.nan_to_num(left[~finite]), torch.nan_to_num(right[~finite])
    )
    if not same:
        return Difference(math.inf, "NaN or infinity stand elsewhere")
    size = float((left[finite] - right[finite]).abs().max()) if bool(finite.any()) else 0.0
    share = size / (max(_largest(one), floor) or 1.0)
    words = f"by {size:.3g}, {share:.2%} of its largest value ({tolerance:.2%} allowed)"
    if exact is None:
        return Difference(
            share, words if share > tolerance else None, unsure=tolerance < share <= UNSURE * tolerance
        )
    own, error = _error(one, exact, floor), _error(other, exact, floor)
    if own is None or error is None:
        return Difference(share, words if share > tolerance else None)
    allowed = tolerance + (TIMES_OF_FEW if one.numel() <= FEW else TIMES) * own
    words += f"; from float64 by {error:.2%} ({allowed:.2%} allowed), eager code by {own:.2%}"
    unsure = share > tolerance and TOO_FAR < error <= allowed
    return Difference(share, words if error > allowed or unsure else None, error, own, unsure)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    flat = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    kind = torch.float32 if flat.device.type == "mps" else torch.float64  # MPS has no float64
    return flat.to(kind)


def _largest(tensor: torch.Tensor) -> float:
    """The largest finite value, 0 where there is none."""
    if tensor.layout != torch.strided or not (tensor.is_floating_point() or tensor.is_complex()):
        return 0.0
    wide = _wide(tensor).abs()
    wide = wide[torch.isfinite(wide)]
    return float(wide.max()) if wide.numel() else 0.0
