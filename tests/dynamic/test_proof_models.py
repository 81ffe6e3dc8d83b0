"""What the calls of a proof share: a model as long as it is as it was built, and inputs that are varied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.proof.shared_models import Models
from tcready.dynamic.worker.proof.variations import every, fitting
from torch import nn


class Builder:
    """Stands where the context does: it builds and draws."""

    def __init__(self) -> None:
        self.built: list[tuple[str, int]] = []
        self.drawn: list[int] = []

    def build_as(self, mode: str, seed: int) -> nn.Module:
        self.built.append((mode, seed))
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        model.notes = []
        return model.train(mode == "train")

    def draw(self, seed: int) -> tuple[Case, ...]:
        self.drawn.append(seed)
        return (Case(None, (torch.ones(2, 2),), {}),)


def test_a_model_that_nothing_changed_is_not_built_again() -> None:
    builder = Builder()
    models = Models(cast(Context, builder))
    model = models.get_model("infer", 0)
    model(torch.ones(2, 2))
    assert models.get_model("train", 0) is model
    assert all(module.training for module in model.modules())
    assert models.get_model("infer", 1) is not model
    assert builder.built == [("infer", 0), ("infer", 1)]
    assert models.get_inputs(0) is models.get_inputs(0)
    assert builder.drawn == [0]


def _written_to(model: Any) -> None:
    with torch.no_grad():
        model[0].weight.add_(0)


CHANGES: dict[str, Callable[[Any], object]] = {
    "a buffer": lambda model: model.train()(torch.randn(4, 2)),
    "what an attribute holds": lambda model: model.notes.append(1),
    "a new attribute": lambda model: setattr(model, "seen", 1),
    "a parameter that is written to": _written_to,
    "a parameter that is another": lambda model: setattr(model[0], "weight", nn.Parameter(model[0].weight.data)),
    "a hook": lambda model: model[0].register_forward_hook(lambda *_: None),
    "a module more": lambda model: model.append(nn.Identity()),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_model_that_a_call_changed_is_built_again(name: str) -> None:
    models = Models(cast(Context, Builder()))
    model = models.get_model("infer", 0)
    CHANGES[name](model)
    again = models.get_model("infer", 0)
    assert again is not model
    assert models.get_model("infer", 0) is again


def test_a_number_out_of_range_is_for_inputs_with_integers() -> None:
    labels = torch.tensor([[1, 2], [3, 4]])
    value = ((torch.ones(2),), {"labels": labels})
    name = "with a large number"
    assert name in fitting(value)
    assert name not in fitting((torch.ones(2), torch.tensor([True])))
    (floats,), named = every()[name](value, torch.Generator())
    assert floats.tolist() == [1, 1]
    assert named["labels"].tolist() == [[999, 2], [3, 4]]
    assert labels.tolist() == [[1, 2], [3, 4]]
