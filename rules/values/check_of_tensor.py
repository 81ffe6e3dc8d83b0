"""A tensor is checked with `torch._check_tensor_all`, which reads its values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.diagnostics.rule import Claim, Declined, Rewrite, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import tensor_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.diagnostics.cst_view import Located

NAMES = frozenset({"torch._check_tensor_all", "torch._check_tensor_all_with"})


def check(fact: Call) -> Claim | None:
    if fact.name in NAMES and any(tensor_of(arg) for arg in fact.args):
        return Claim(f"`{fact.name}` reads the tensor it checks: the graph ends here")
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.fixes.rewriters.truths import rewrite_check

    return rewrite_check(place)


RULE = Rule(
    code="TCR212",
    name="check-of-tensor",
    effect="graph_break",
    level="error",
    gb_ids=("GB0124",),
    facts=(Call,),
    check=check,
    rewrite=rewrite,
    module=__name__,
)
