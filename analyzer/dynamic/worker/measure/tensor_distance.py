"""Distances between tensors and their sizes, computed in parts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from tcready.dynamic.worker.measure.call_outcome import CallOutcome, is_discrete, kind_of
from tcready.dynamic.worker.measure.precision import eps_of

CHUNK = 1 << 22
"""The number of values that are copied to float64 at a time."""
FLOOR = 1e-3
"""A difference is divided by at least this fraction of the largest tensor of the same kind. If a tensor should be
zero, both sides hold only noise."""


def real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def mostly_flip(one: Any, other: Any, rounded: Sequence[Any]) -> bool:
    """Return whether at least half of the values that differ also change under different rounding."""
    if not isinstance(one, torch.Tensor):
        return True
    wrong = one != other
    flips = torch.zeros_like(wrong)
    for each in rounded:
        flips |= one != each
    return 2 * int((wrong & flips).sum()) >= int(wrong.sum())


def to_dense_of(value: Any) -> torch.Tensor:
    """Convert a number or a tensor of any layout that can be compared to a dense tensor."""
    # The default device may be another one.
    tensor = value.detach() if isinstance(value, torch.Tensor) else torch.as_tensor(value, device="cpu")
    if tensor.is_quantized:
        return tensor.dequantize()
    return tensor.to_dense() if tensor.layout != torch.strided else tensor


def size_of(exact: torch.Tensor, one: torch.Tensor, floor: float) -> float:
    """Return the divisor of a difference: the root mean square of the wide result, or of the eager result if that is
    larger. If the exact result is zero, the eager result is rounding noise."""
    return max(rms(exact), rms(one), floor) or 1.0


def is_bulk_as_precise(one: torch.Tensor, other: torch.Tensor, exact: torch.Tensor) -> bool:
    """Return whether the median error of compiled code is at most twice that of eager code."""
    right = _precise(flat_of(exact))
    own, error = ((_precise(flat_of(each)) - right).abs() for each in (one, other))
    least = eps_of(one.dtype) / 2 * right.abs()
    return bool(error.median() <= 2 * torch.maximum(own.median(), least.median()))


def times_of(table: tuple[tuple[int, float], ...], values: int) -> float:
    return next(times for least, times in table if values >= least)


def not_finite(one: torch.Tensor, other: torch.Tensor, exact: torch.Tensor | None = None) -> str:
    """Describe where NaN or infinity differs from eager code; empty if nowhere. Compiled code may have a finite value
    where eager code does not, if the wide result is finite too."""
    left, right = real(one), real(other)
    finite = torch.isfinite(left)
    lost = finite & ~torch.isfinite(right)
    if count := int(lost.sum()):
        return f"{count} of {int(finite.sum())} finite values became NaN or infinite"
    others = ~finite & (left != right) & ~(torch.isnan(left) & torch.isnan(right))
    if exact is not None:
        others &= ~(torch.isfinite(real(exact)) & torch.isfinite(right))
    count = int(others.sum())
    every = int((~finite).sum())
    return f"{count} of {every} values that are NaN or infinite in eager code differ" if count else ""


def distance_of(one: torch.Tensor, other: torch.Tensor) -> float:
    """The root mean square of the differences between values that are finite on both sides."""
    left, right = flat_of(one), flat_of(other)
    if left.shape != right.shape:
        return math.inf
    pairs = zip(left.split(CHUNK), right.split(CHUNK), strict=True)
    return _root_mean_square((_precise(a) - _precise(b) for a, b in pairs), left.numel())


def rms(tensor: torch.Tensor) -> float:
    """The root mean square of the finite values."""
    flat = flat_of(tensor)
    return _root_mean_square((_precise(each) for each in flat.split(CHUNK)), flat.numel())


def _root_mean_square(parts: Iterator[torch.Tensor], count: int) -> float:
    squares = [torch.where(torch.isfinite(each), each, 0.0).square().sum() for each in parts]
    return math.sqrt(float(torch.stack(squares).sum()) / count) if count else 0.0


def flat_of(tensor: torch.Tensor) -> torch.Tensor:
    dense = to_dense_of(tensor)
    if dense.layout != torch.strided or dense.is_quantized:
        return torch.zeros(0, device=dense.device)
    return real(dense).reshape(-1)


def _precise(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float32 if tensor.device.type == "mps" else torch.float64)


def floors_of(outcome: CallOutcome) -> dict[str, float]:
    found: dict[str, float] = {}
    for label, leaf in outcome.leaves:
        if isinstance(leaf, torch.Tensor) and not is_discrete(leaf):
            found[kind_of(label)] = max(found.get(kind_of(label), 0.0), FLOOR * rms(leaf))
    return found


def distances(one: CallOutcome, other: CallOutcome, at: int) -> torch.Tensor:
    """Return the absolute differences between the elements of a leaf."""
    return (flat_of(one.leaves[at][1]) - flat_of(other.leaves[at][1])).abs()
