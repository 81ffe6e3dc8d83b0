"""`and`, `or` or `not` requires the truth value of a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.diagnostics.rule import Claim, Declined, Rewrite, Rule
from tcready.static.domain.facts import Test
from tcready.static.domain.values import tensor_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.diagnostics.cst_view import Located


def check(fact: Test) -> Claim | None:
    if fact.kind == "assertion" and tensor_of(fact.value):
        return Claim("`assert` of a negated tensor, or with a computed message: a branch that Dynamo cannot decide")
    if fact.kind in ("and", "or", "not") and tensor_of(fact.value):
        return Claim(f"`{fact.kind}` needs the truth value of a tensor: a branch that Dynamo cannot decide")
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.fixes.rewriters.guards import rewrite_assert
    from tcready.fixes.rewriters.truths import rewrite_operators

    yield from rewrite_assert(place)
    yield from rewrite_operators(place)


RULE = Rule(
    code="TCR103",
    name="tensor-boolean-operator",
    effect="graph_break",
    level="error",
    gb_ids=("GB0170", "GB0033"),
    facts=(Test,),
    check=check,
    rewrite=rewrite,
    module=__name__,
)
