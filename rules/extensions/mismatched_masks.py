"""Attention of torch is called with two types of masks, which causes a warning while it is traced."""

from collections.abc import Iterator
from types import MappingProxyType

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import Value, number_kind, tensor_of

OF_LAYER = (("src_mask", 1), ("src_key_padding_mask", 2))
OF_DECODER = ((("tgt_mask", 2), ("tgt_key_padding_mask", 4)), (("memory_mask", 3), ("memory_key_padding_mask", 5)))
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
    gb_ids=("GB0007",),
    facts=(Call,),
    check=check,
    no_rewrite="Which of the two kinds is meant to be converted, and where it is made, is for the author to say.",
    module=__name__,
)
