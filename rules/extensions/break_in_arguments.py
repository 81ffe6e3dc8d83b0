"""A method of a tensor is called with the result of a function that breaks the graph."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import InArguments


def check(fact: InArguments) -> Claim | None:
    if not fact.of_tensor:
        return None
    return Claim("an argument breaks the graph after the method lookup, so the graph ends here too")


RULE = Rule(
    code="TCR423",
    level="warning",
    gb_ids=("GB0007",),
    facts=(InArguments,),
    check=check,
    follows=True,
    no_rewrite="Fix the other break.",
    module=__name__,
)
