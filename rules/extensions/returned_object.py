"""The compiled function returns an object that Dynamo cannot reconstruct."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Returned

WORDS = {
    "method": "an object that holds one of its methods is returned: Dynamo cannot reconstruct it",
    "default": "an object that holds a default of its class, a lambda, is returned: Dynamo cannot reconstruct it",
}


def check(fact: Returned) -> Claim:
    return Claim(WORDS[fact.holds])


RULE = Rule(
    code="TCR421",
    gb_ids=("GB0092",),
    facts=(Returned,),
    check=check,
    no_rewrite="If the model returns something else, its callers have to change too.",
    module=__name__,
)
