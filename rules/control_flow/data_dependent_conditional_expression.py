"""A conditional expression (`a if test else b`) depends on the value of a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.diagnostics.rule import Claim, Declined, Rewrite, Rule
from tcready.static.domain.facts import Test
from tcready.static.domain.values import tensor_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.diagnostics.cst_view import Located


def check(fact: Test) -> Claim | None:
    if fact.kind == "ifexp" and tensor_of(fact.value):
        return Claim("conditional expression on the value of a tensor: Dynamo cannot know which branch is used")
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.fixes.rewriters.branches import choosing_expression

    return choosing_expression(place)


RULE = Rule(
    code="TCR104",
    name="data-dependent-conditional-expression",
    effect="graph_break",
    level="error",
    gb_ids=("GB0170",),
    facts=(Test,),
    check=check,
    rewrite=rewrite,
    module=__name__,
)
