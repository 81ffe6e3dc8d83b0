"""A result is written to a tensor that it does not fit."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import tensors_in


def check(fact: Call) -> Claim | None:
    out = fact.keyword("out")
    if out is None or not (fact.name or "").startswith("torch."):
        return None
    into = list(tensors_in(out))
    if any(each.layout == "empty" and not each.leaf for each in into):
        return Claim("`out` is an empty tensor, which torch has to resize: the graph ends here")
    if any(each.layout == "non-contiguous" for each in into):
        return Claim("`out` is a tensor that is not contiguous: the graph ends here", "medium")
    return None


RULE = Rule(
    code="TCR426",
    gb_ids=("GB0240", "GB0241", "GB0242", "GB0247"),
    facts=(Call,),
    check=check,
    no_rewrite="The `out` tensor may be read elsewhere, and that code has to read the result instead.",
    module=__name__,
)
