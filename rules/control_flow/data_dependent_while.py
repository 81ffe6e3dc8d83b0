"""A `while` loop depends on the value of a tensor."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Test
from tcready.static.domain.values import tensor_of


def check(fact: Test) -> Claim | None:
    if fact.kind == "while" and tensor_of(fact.value):
        return Claim("`while` on the value of a tensor: Dynamo cannot know the number of iterations")
    return None


RULE = Rule(
    code="TCR102",
    gb_ids=("GB0170", "GB7000"),
    facts=(Test,),
    check=check,
    rewriters=("truths.rewrite_while",),
    module=__name__,
)
