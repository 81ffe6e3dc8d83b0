"""Attention of torch is called with two types of masks, which causes a warning while it is traced.

## What it does
Finds calls of `nn.MultiheadAttention`, `nn.Transformer` and its encoders, decoders and layers with a float
mask and a boolean padding mask, or the other way round.

## Why it hurts torch.compile
Torch calls `warnings.warn` when it combines the two. Dynamo skips that function, so the graph ends at the
call of the module.

## Use instead
Masks of one type: `torch.ones(n, n, dtype=torch.bool).triu(1)` as the causal mask with a boolean padding
mask, or `padding.float().masked_fill(padding, float("-inf"))` with a float causal mask.

## Limits
Only masks whose type the source shows are checked. Two float masks of different precision also cause a
warning, which this rule does not find.
"""

from collections.abc import Iterator
from types import MappingProxyType

from tcready.static.engine.facts import Call
from tcready.static.engine.values import Value, number_kind, tensor_of
from tcready.static.rule import Claim, Rule, Sample

OF_LAYER = (("src_mask", 1), ("src_key_padding_mask", 2))
OF_DECODER = (
    (("tgt_mask", 2), ("tgt_key_padding_mask", 4)),
    (("memory_mask", 3), ("memory_key_padding_mask", 5)),
)
PAIRS: MappingProxyType[str, tuple[tuple[tuple[str, int], tuple[str, int]], ...]] = MappingProxyType(
    {
        "MultiheadAttention": ((("attn_mask", 5), ("key_padding_mask", 3)),),
        "TransformerEncoderLayer": (OF_LAYER,),
        "TransformerEncoder": ((("mask", 1), ("src_key_padding_mask", 2)),),
        "TransformerDecoderLayer": OF_DECODER,
        "TransformerDecoder": OF_DECODER,
        "Transformer": (
            (("src_mask", 2), ("src_key_padding_mask", 5)),
            (("tgt_mask", 3), ("tgt_key_padding_mask", 6)),
            (("memory_mask", 4), ("memory_key_padding_mask", 7)),
        ),
    }
)
"""By module: which masks it brings together, each by name and by its place among the arguments."""


def check(fact: Call) -> Claim | None:
    if fact.name is None or not fact.name.startswith("torch.nn."):
        return None
    module, _, method = fact.name.removeprefix("torch.nn.").partition(".")
    if method not in ("__call__", "forward"):
        return None
    for pair in PAIRS.get(module, ()):
        kinds = {number_kind(tensor.dtype) for value in _given(fact, pair) if (tensor := tensor_of(value))}
        if kinds == {"bool", "float"}:
            return Claim(f"`nn.{module}` warns of masks of two kinds: the graph ends here")
    return None


def _given(fact: Call, names: tuple[tuple[str, int], ...]) -> Iterator[Value]:
    for name, place in names:
        value = fact.args[place] if place < len(fact.args) else fact.keyword(name)
        if value is not None:
            yield value


RULE = Rule(
    code="TCR418",
    name="mismatched-masks",
    effect="graph_break",
    level="error",
    gb_ids=("GB0007",),
    facts=(Call,),
    check=check,
    no_rewrite="Which of the two kinds is meant to be converted, and where it is made, is for the author to say.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2)

    def forward(self, x):
        return self.attend(x * 2)

    def attend(self, x):
        causal = torch.triu(torch.full((4, 4), float("-inf")), diagonal=1)
        padding = (x.sum(-1)[:1] > 100).expand(1, 4)
        x = x[:, None]
        y, _ = self.attention(x, x, x, key_padding_mask=padding, attn_mask=causal)  # BAD
        return y.squeeze(1)
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16)

    def forward(self, x):
        return self.encode(x[:, None])

    def encode(self, x):
        causal = torch.zeros(4, 4)
        padding = torch.zeros(1, 4, dtype=torch.bool)
        return self.layer(x, causal, padding).squeeze(1)  # BAD
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16)

    def forward(self, x):
        causal = torch.ones(4, 4, dtype=torch.bool).triu(1)
        padding = torch.zeros(1, 4, dtype=torch.bool)
        return self.layer(x[:, None], causal, padding).squeeze(1)
"""
        ),
    ),
)
