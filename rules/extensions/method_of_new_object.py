"""A method of an object that the compiled function has just created breaks the graph."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import OfNew


def check(_fact: OfNew) -> Claim:
    return Claim(
        "a break stands in a method of an object that is made here: Dynamo cannot hand that over, and the function runs "
        "eagerly"
    )


RULE = Rule(
    code="TCR422",
    effect="frame_skip",
    level="warning",
    gb_ids=("GB0092",),
    facts=(OfNew,),
    check=check,
    follows=True,
    no_rewrite="Fix the other break.",
    module=__name__,
)
