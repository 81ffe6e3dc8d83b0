"""A method of a list, a dict, a set or a string is called with an argument that breaks the graph."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import InArguments


def check(fact: InArguments) -> Claim | None:
    if fact.of_tensor:
        return None
    return Claim(
        "a break stands in the arguments: the method was looked up before it, and what follows compiles again each time",
        "medium",
    )


RULE = Rule(
    code="TCR505",
    effect="recompile",
    facts=(InArguments,),
    check=check,
    follows=True,
    no_rewrite="The argument has to be computed before the line, and what it reads must be the same there.",
    module=__name__,
)
