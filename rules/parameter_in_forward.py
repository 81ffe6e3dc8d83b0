"""A parameter, or a layer that has parameters, is created in the forward.

## What it does
Finds `nn.Parameter`, `nn.Linear`, convolutions, norms, embeddings and other layers with parameters that are
constructed in code that the compiled forward reaches, and modules constructed there that have an `nn.Buffer`.

## Why it hurts torch.compile
Dynamo does not create parameters inside a graph, so the graph ends there. In addition, such a layer is new,
untrained and unregistered in each call.

## Use instead
Create it in `__init__`. If a shape is known only later, use `nn.LazyLinear`. If no weight is trained, use
`F.layer_norm` or `F.linear` with plain tensors.

## Limits
Layers without parameters (`nn.ReLU`, `nn.Dropout`, `nn.Softmax`, losses, norms with `affine=False` or
`elementwise_affine=False`) may be created in the forward.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tcready.static.engine.facts import Call
from tcready.static.engine.values import UNKNOWN, Const, likely
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located

LAYERS = (
    "Parameter",
    "Linear",
    "Bilinear",
    "Conv",
    "BatchNorm",
    "LayerNorm",
    "GroupNorm",
    "RMSNorm",
    "Embedding",
    "LSTM",
    "GRU",
    "RNN",
    "PReLU",
    "MultiheadAttention",
    "Transformer",
    "SyncBatchNorm",
)


def check(fact: Call) -> Claim | None:
    module, _, name = fact.constructed.rpartition(".")
    if module == "torch.nn" and name == "Buffer" and fact.where.symbol.endswith("__init__"):
        return Claim("a module that holds an `nn.Buffer` is created in compiled code: the graph ends here")
    if module not in ("torch.nn", "torch.nn.parameter"):
        return None
    claim = Claim(f"`nn.{name}` is created in compiled code: the graph ends here")
    if fact.parameters == UNKNOWN:
        return claim if name.startswith(LAYERS) else None
    if likely(fact.parameters) == Const(False):
        return None
    return claim if fact.parameters == Const(True) else dataclasses.replace(claim, confidence="medium")


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._state import without_layer

    return without_layer(place)


RULE = Rule(
    code="TCR315",
    name="parameter-in-forward",
    effect="graph_break",
    level="error",
    gb_ids=("GB0264", "GB0116", "GB0119"),
    facts=(Call,),
    check=check,
    rewrite=rewrite,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        norm = nn.LayerNorm(8)  # BAD
        return norm(y)
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        weight = nn.Parameter(torch.ones(8))  # BAD
        layer = nn.Linear(8, 8)  # BAD
        norm = nn.InstanceNorm1d(4, affine=True)  # BAD
        return y * weight
"""
        ),
        Sample(
            """
class Scale(nn.Module):
    def __init__(self):
        super().__init__()  # FOLLOWS
        self.weight = nn.Buffer(torch.ones(8))  # BAD

    def forward(self, x):
        return x * self.weight


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return Scale()(y)
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        y = x * 2
        return self.norm(y)
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = nn.ReLU()(x) + nn.Softmax(dim=-1)(x) + nn.Dropout(0.0)(x)
        loss = nn.MSELoss()(y, x)
        return F.layer_norm(y, (8,)) + loss + nn.Sequential(nn.ReLU())(x) + nn.init.ones_(torch.empty(8))
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self, affine=False):
        super().__init__()
        self.affine = affine

    def forward(self, x):
        y = nn.LayerNorm(8, 1e-5, False)(x) + nn.GroupNorm(2, 8, affine=self.affine)(x)
        return nn.InstanceNorm1d(4)(y[None]) + nn.BatchNorm1d(8, affine=False)(y)
"""
        ),
    ),
)
