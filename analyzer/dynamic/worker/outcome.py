"""What a call gave, and how far two of them are apart, each tensor held against its own largest value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

FLOOR = 1e-3
"""A tensor is not held to less than this part of the largest value of all: what should be zero is noise twice."""


@dataclass(frozen=True)
class Outcome:
    """What one call gave: flat, copied, and in training the gradients of the parameters behind it."""

    leaves: tuple[tuple[str, Any], ...]
    structure: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """`share`: the largest difference over the largest value; `text` says which, where it is beyond the tolerance."""

    share: float | None
    text: str | None


def difference(expected: Outcome, actual: Outcome, tolerance: float) -> Difference:
    """The largest difference between two outcomes, each tensor held against its own largest value.

    Integers, booleans and other values must be equal; so must the places of NaN and infinity.
    """
    if expected.structure != actual.structure or len(expected.leaves) != len(actual.leaves):
        return Difference(None, "the outputs have another structure")
    pairs = list(zip(expected.leaves, actual.leaves, strict=True))
    floor = FLOOR * max(
        (_largest(one) for (_, one), _ in pairs if isinstance(one, torch.Tensor)), default=0.0
    )
    worst: float | None = None
    for (label, one), (_, other) in pairs:
        if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
            if isinstance(one, (bool, int, str)) and one != other:
                return Difference(worst, f"{label}: {one!r} became {other!r}")
            continue
        text, share, size = _tensor_difference(one, other, floor)
        worst = share if worst is None else max(worst, share)
        if text or share > tolerance:
            of = f"by {size:.3g}, {share:.2%} of its largest value ({tolerance:.2%} allowed)"
            return Difference(worst, f"{label}: {text or of}")
    return Difference(worst, None)


def _tensor_difference(
    one: torch.Tensor, other: torch.Tensor, floor: float
) -> tuple[str | None, float, float]:
    """Words for what is no matter of size; else the difference, as a share and as it is."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{one.dtype} {tuple(one.shape)} became {other.dtype} {tuple(other.shape)}", math.inf, math.inf
    if one.layout != torch.strided or other.layout != torch.strided or one.is_quantized:
        return None, 0.0, 0.0
    if not (one.is_floating_point() or one.is_complex()):
        wrong = int((one != other).sum())
        text = f"{wrong} of {one.numel()} values of {one.dtype} differ" if wrong else None
        return text, float(bool(wrong)), float(wrong)
    left, right = _wide(one), _wide(other)
    finite = torch.isfinite(left)
    same = torch.equal(finite, torch.isfinite(right)) and torch.equal(
        torch.nan_to_num(left[~finite]), torch.nan_to_num(right[~finite])
    )
    if not same:
        return "NaN or infinity stand elsewhere", math.inf, math.inf
    size = float((left[finite] - right[finite]).abs().max()) if bool(finite.any()) else 0.0
    return None, size / max(_largest(one), floor, torch.finfo(torch.float32).tiny), size


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
