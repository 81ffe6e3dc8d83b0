"""A distribution is created with `validate_args=True` in compiled code."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import Const, ExternalInstance, Instance


def check(fact: Call) -> Claim | None:
    if fact.constructed.startswith("torch.distributions.") and fact.keyword("validate_args") == Const(True):
        return Claim("validation of the arguments needs a Python bool from a tensor: the graph ends here")
    if fact.method == "_validate_sample" and isinstance(fact.receiver, (Instance, ExternalInstance)):
        return Claim("validation of a sample needs a Python bool from a tensor: the graph ends here")
    return None


RULE = Rule(
    code="TCR415",
    gb_ids=("GB0007", "GB0170", "GB0124"),
    facts=(Call,),
    check=check,
    rewriters=("state.drop_validation",),
    module=__name__,
)
