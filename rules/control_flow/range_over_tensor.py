"""`range` is called with a tensor."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import tensor_of


def check(fact: Call) -> Claim | None:
    if fact.constructed == "range" and any(tensor_of(arg) for arg in fact.args):
        return Claim("`range` over a tensor: its value has to be read back to Python")
    return None


RULE = Rule(
    code="TCR112",
    gb_ids=("GB0059", "GB0124"),
    facts=(Call,),
    check=check,
    no_rewrite="The number of iterations depends on data. The author has to choose a bound that is a size.",
    module=__name__,
)
