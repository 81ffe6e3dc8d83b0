"""`torch.equal`, `allclose` or `is_nonzero` computes a Python bool from the values of a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.diagnostics.rule import Claim, Declined, Rewrite, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import tensor_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.diagnostics.cst_view import Located


def check(fact: Call) -> Claim | None:
    asserted = fact.name == "torch._assert" and bool(fact.args) and tensor_of(fact.args[0]) is not None
    if asserted or (fact.reads == "number" and fact.method != "item"):
        message = "needs a Python bool from the values of a tensor: the graph ends here"
        return Claim(message, form="torch._assert" if asserted else "")
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.fixes.rewriters.tests import written_anew
    from tcready.fixes.rewriters.truths import rewrite_equality

    yield from written_anew(place)
    yield from rewrite_equality(place)


RULE = Rule(
    code="TCR208",
    name="tensor-equality-as-bool",
    effect="graph_break",
    level="error",
    gb_ids=("GB0033",),
    facts=(Call,),
    check=check,
    rewrite=rewrite,
    module=__name__,
)
