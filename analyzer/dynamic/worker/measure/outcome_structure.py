"""Compare what two calls return apart from rounding: types, structure and equal values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from tcready.dynamic.worker.measure.call_outcome import CallOutcome, kind_of, labels_of, unlike
from tcready.dynamic.worker.measure.tensor_distance import real, to_dense_of

LONGEST = 200
"""The maximum length of a message about values that are not tensors."""


def cached_on_one_side(expected: CallOutcome, actual: CallOutcome) -> frozenset[str]:
    """Return labels of buffers and attributes that only one side has: code may cache a result in eager mode, and
    compute it each time if it is compiled."""
    labels = {*labels_of(expected)} ^ {*labels_of(actual)}
    return frozenset(label for label in labels if kind_of(label) in ("attribute", "buffer"))


def differs(expected: CallOutcome, actual: CallOutcome) -> bool:
    """Return whether anything is not equal, bit for bit (NaN equals NaN)."""
    return bool(structure_differences(expected, actual) or unequal_leaves(expected, actual))


def unequal_leaves(expected: CallOutcome, actual: CallOutcome) -> tuple[int, ...]:
    """Return the indices of the leaves that are not equal, in two outcomes of one structure."""
    return tuple(at for at, pair in enumerate(_pairs(expected, actual)) if not equal_values(*pair))


def structure_differences(expected: CallOutcome, actual: CallOutcome) -> tuple[str, ...]:
    """Return where `actual` has another structure, type, shape, dtype or text."""
    if one_sided := set(labels_of(expected)) ^ set(labels_of(actual)):
        left = [label for label in labels_of(expected) + labels_of(actual) if label in one_sided]
        left = [label for label in left if kind_of(label) != "output"]
        if left:
            side = "eager" if left[0] in labels_of(expected) else "compiled"
            return (f"{left[0]}: only {side} code writes to it",)
    if expected.structure != actual.structure or labels_of(expected) != labels_of(actual):
        return ("the compiled output has a different structure from the eager one",)
    found = []
    for (label, one), (_, other) in zip(expected.leaves, actual.leaves, strict=True):
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
            if text := unlike(one, other):
                found.append(f"{label}: {text}")
        elif type(one) is not type(other):
            found.append(f"{label}: {_type_of(one)} in eager code, {_type_of(other)} in compiled code")
        elif not isinstance(one, (bool, int, float, complex)) and not equal_values(one, other):
            found.append(f"{label}: {one!r} became {other!r}"[:LONGEST])
    return tuple(found)


def _type_of(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def _pairs(expected: CallOutcome, actual: CallOutcome) -> Iterator[tuple[Any, Any]]:
    for (_, one), (_, other) in zip(expected.leaves, actual.leaves, strict=True):
        yield one, other


def equal_values(one: Any, other: Any) -> bool:
    """Return whether two leaves of one shape and dtype are equal (NaN equals NaN)."""
    if not isinstance(one, torch.Tensor):
        if isinstance(one, (bool, int, float, complex)):
            return bool(one == other) or (one != one and other != other)
        if isinstance(one, (str, bytes)):
            return bool(one == other)
        if type(one).__module__ == "numpy" and hasattr(one, "dtype"):
            return one.dtype.kind not in "biufc" or equal_values(torch.as_tensor(one), torch.as_tensor(other))
        return not isinstance(one, (torch.dtype, torch.device, frozenset, set, range)) or bool(one == other)
    if one.is_meta or other.is_meta:
        return bool(one.is_meta and other.is_meta)
    if one.is_nested:
        return equal_values(one.values(), other.values())
    one, other = to_dense_of(one), to_dense_of(other)
    if torch.equal(one, other):
        return True
    left, right = real(one.detach()), real(other.detach())
    return bool(((left == right) | ((left != left) & (right != right))).all())
