"""An `if` statement depends on the value of a tensor."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Test
from tcready.static.domain.values import tensor_of


def check(fact: Test) -> Claim | None:
    if fact.kind == "if" and tensor_of(fact.value):
        return Claim("`if` on the value of a tensor: Dynamo cannot know which branch runs")
    return None


RULE = Rule(
    code="TCR101", gb_ids=("GB0170",), facts=(Test,), check=check, rewriters=("tests.written_anew",), module=__name__
)
