"""`and`, `or` or `not` requires the truth value of a tensor."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Test
from tcready.static.domain.values import tensor_of


def check(fact: Test) -> Claim | None:
    if fact.kind == "assertion" and tensor_of(fact.value):
        return Claim("`assert` of a negated tensor, or with a computed message: a branch that Dynamo cannot decide")
    if fact.kind in ("and", "or", "not") and tensor_of(fact.value):
        return Claim(f"`{fact.kind}` needs the truth value of a tensor: a branch that Dynamo cannot decide")
    return None


RULE = Rule(
    code="TCR103",
    gb_ids=("GB0170", "GB0033"),
    facts=(Test,),
    check=check,
    rewriters=("guards.rewrite_assert", "truths.rewrite_operators"),
    module=__name__,
)
