"""Sums that are added up in another order in each call (atomic additions of an accelerator): what their last digits are
says nothing about a change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from tcready.dynamic.worker.proof.behaviour import Behaviour

MOST = 1e-4
"""What is further apart than this share of its largest number is not rounded otherwise."""
TIMES = 4
"""How many times as far apart as two calls of the code as it stands a call of the changed code may be."""

Rounding = Mapping[tuple[str, str], float]
"""The share of its largest number by which a tensor differs between two calls of one thing, by the field of `Behaviour`
and its name or index there."""


def rounding(one: Behaviour, other: Behaviour) -> dict[tuple[str, str], float]:
    """Of the tensors that two calls of one thing give otherwise: how far apart they are, where rounding can be all."""
    found = {}
    others = dict(_tensors(other))
    for name, tensor in _tensors(one):
        if 0 < (share := _share(tensor, others.get(name))) <= MOST:
            found[name] = share
    return found


def as_rounded(expected: Behaviour, actual: Behaviour, known: Rounding) -> Behaviour:
    """The `actual` one with the tensors of `expected` for those that are no further apart than rounding explains."""
    if not known:
        return actual
    others = dict(_tensors(actual))
    alike = {
        name: tensor
        for name, tensor in _tensors(expected)
        if name in known and _share(tensor, others.get(name)) <= min(TIMES * known[name], MOST)
    }
    return replace(
        actual,
        outputs=[alike.get(("outputs", str(i)), each) for i, each in enumerate(actual.outputs)],
        inputs=[alike.get(("inputs", str(i)), each) for i, each in enumerate(actual.inputs)],
        gradients={name: alike.get(("gradients", name), each) for name, each in actual.gradients.items()},
        state={name: alike.get(("state", name), each) for name, each in actual.state.items()},
    )


def _tensors(seen: Behaviour) -> Iterator[tuple[tuple[str, str], torch.Tensor]]:
    fields: tuple[tuple[str, Mapping[str, Any]], ...] = (
        ("outputs", {str(i): each for i, each in enumerate(seen.outputs)}),
        ("inputs", {str(i): each for i, each in enumerate(seen.inputs)}),
        ("gradients", seen.gradients),
        ("state", seen.state),
    )
    for field, values in fields:
        for name, value in values.items():
            if (
                isinstance(value, torch.Tensor)
                and value.is_floating_point()
                and value.layout == torch.strided
            ):
                yield (field, name), value


def _share(one: torch.Tensor, other: torch.Tensor | None) -> float:
    """How far apart they are, as a share of the largest number; infinity if they are no two roundings of one thing."""
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
