"""The outputs of calls, as a flat list of named values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from tcready.dynamic.worker.core.case import Case

FLIPS = 10.0
"""The number of integers that may differ, as a multiple of those that change if eager code rounds differently."""


@dataclass(frozen=True)
class CallOutcome:
    """The flattened result of one call; in training, the gradients of the parameters follow."""

    leaves: tuple[tuple[str, Any], ...]
    """The first word of a label is its kind: `output 0`, `gradient of weight`."""
    structure: tuple[str, ...]


@dataclass(frozen=True)
class Unequal:
    """Outputs of several calls with the inputs of one case that differ between eager and compiled code."""

    case: Case
    numbers: tuple[int, ...]
    """The numbers of these calls, from 0."""
    eager: CallOutcome
    compiled: CallOutcome
    before: Case | None = None
    """The inputs of all earlier calls, if they have other values."""


def join_outcomes(outcomes: Mapping[str, CallOutcome]) -> CallOutcome:
    """Return several outcomes as one; each key is appended to the names of its leaves."""
    return CallOutcome(
        tuple((f"{name}{key}", leaf) for key, each in outcomes.items() for name, leaf in each.leaves),
        tuple(text for each in outcomes.values() for text in each.structure),
    )


def without(outcome: CallOutcome, labels: Collection[str]) -> CallOutcome:
    """Return the outcome without the leaves of these labels."""
    return replace(outcome, leaves=tuple(leaf for leaf in outcome.leaves if leaf[0] not in labels))


def sharing(outcome: CallOutcome, known: CallOutcome) -> CallOutcome:
    """Return the outcome with the tensors of `known` for equal leaves, so that a cache in both is stored once."""
    others = dict(known.leaves)

    def shared(label: str, leaf: Any) -> Any:
        other = others.get(label)
        if not isinstance(leaf, torch.Tensor) or not isinstance(other, torch.Tensor):
            return leaf
        alike = type(leaf) is type(other) and (leaf.dtype, leaf.device) == (other.dtype, other.device)
        strided = leaf.layout == other.layout == torch.strided and not leaf.is_nested and not other.is_nested
        return other if alike and strided and torch.equal(leaf, other) else leaf

    return replace(outcome, leaves=tuple((label, shared(label, leaf)) for label, leaf in outcome.leaves))


@dataclass(frozen=True)
class OutcomeDifference:
    """The difference between two values, in one line; None if there is none."""

    text: str | None
    unsure: bool = False
    """True if it may be rounding."""


def is_discrete(leaf: Any) -> bool:
    """Return whether a leaf consists of integers or booleans."""
    if isinstance(leaf, torch.Tensor):
        return not (leaf.is_floating_point() or leaf.is_complex() or leaf.is_quantized)
    return isinstance(leaf, int)


def kind_of(label: str) -> str:
    return label.split(" ", 1)[0]


def labels_of(outcome: CallOutcome) -> list[str]:
    return [label for label, _ in outcome.leaves]


def discrete_difference(one: Any, other: Any, rounded: Sequence[Any]) -> OutcomeDifference:
    """Compare integers or booleans. `rounded` holds `one` under different rounding. Values that change there depend
    on rounding, so a few more of them may differ: such a difference is `unsure`."""
    if not isinstance(one, torch.Tensor):
        text = None if one == other else f"{one!r} became {other!r}"
        return OutcomeDifference(text, unsure=any(type(each) is type(one) and each != one for each in rounded))
    if text := unlike(one, other):
        return OutcomeDifference(text)
    if one.layout != torch.strided:
        return discrete_difference(one.to_dense(), other.to_dense(), ()) if one.is_sparse else OutcomeDifference(None)
    wrong = int((one != other).sum())
    if not wrong:
        return OutcomeDifference(None)
    hanging = torch.zeros_like(one, dtype=torch.bool)
    for each in rounded:
        if isinstance(each, torch.Tensor) and not unlike(one, each):
            hanging |= one != each
    own = int(hanging.sum())
    text = f"{wrong} of {one.numel()} values of {one.dtype} differ"
    if own:
        text += f", and {own} {'does' if own == 1 else 'do'} if eager code rounds differently"
    return OutcomeDifference(text, unsure=wrong <= FLIPS * own)


def unlike(one: torch.Tensor, other: torch.Tensor) -> str:
    """Describe a different dtype, shape or layout; empty if these are the same."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{one.dtype} {tuple(one.shape)} became {other.dtype} {tuple(other.shape)}"
    return f"{one.layout} became {other.layout}" if one.layout != other.layout else ""
