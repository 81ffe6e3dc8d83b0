"""A conditional expression (`a if test else b`) depends on the value of a tensor."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Test
from tcready.static.domain.values import tensor_of


def check(fact: Test) -> Claim | None:
    if fact.kind == "ifexp" and tensor_of(fact.value):
        return Claim("conditional expression on the value of a tensor: Dynamo cannot know which branch is used")
    return None


RULE = Rule(
    code="TCR104",
    gb_ids=("GB0170",),
    facts=(Test,),
    check=check,
    rewriters=("branches.choosing_expression",),
    module=__name__,
)
