"""A `while` loop depends on the value of a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.diagnostics.rule import Claim, Declined, Rewrite, Rule
from tcready.static.domain.facts import Test
from tcready.static.domain.values import tensor_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.diagnostics.cst_view import Located


def check(fact: Test) -> Claim | None:
    if fact.kind == "while" and tensor_of(fact.value):
        return Claim("`while` on the value of a tensor: Dynamo cannot know the number of iterations")
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.fixes.rewriters.truths import rewrite_while

    return rewrite_while(place)


RULE = Rule(
    code="TCR102",
    name="data-dependent-while",
    effect="graph_break",
    level="error",
    gb_ids=("GB0170", "GB7000"),
    facts=(Test,),
    check=check,
    rewrite=rewrite,
    module=__name__,
)
