"""A parameter, or a layer that has parameters, is created in the forward."""

from __future__ import annotations

import dataclasses

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import UNKNOWN, Const, likely

LAYERS = tuple(
    """
    Parameter Linear Bilinear Conv BatchNorm LayerNorm GroupNorm RMSNorm Embedding LSTM GRU RNN PReLU
    MultiheadAttention Transformer SyncBatchNorm
    """.split()
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


RULE = Rule(
    code="TCR315",
    gb_ids=("GB0264", "GB0116", "GB0119"),
    facts=(Call,),
    check=check,
    rewriters=("state.without_layer",),
    module=__name__,
)
