"""`torch.equal`, `allclose` or `is_nonzero` computes a Python bool from the values of a tensor."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import tensor_of


def check(fact: Call) -> Claim | None:
    asserted = fact.name == "torch._assert" and bool(fact.args) and tensor_of(fact.args[0]) is not None
    if asserted or (fact.reads == "number" and fact.method != "item"):
        message = "needs a Python bool from the values of a tensor: the graph ends here"
        return Claim(message, form="torch._assert" if asserted else "")
    return None


RULE = Rule(
    code="TCR208",
    gb_ids=("GB0033",),
    facts=(Call,),
    check=check,
    rewriters=("tests.written_anew", "truths.rewrite_equality"),
    module=__name__,
)
