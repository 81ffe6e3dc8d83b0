"""A Python loop iterates over a tensor."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Loop
from tcready.static.domain.values import tensor_of


def check(fact: Loop) -> Claim | None:
    walked = tensor_of(fact.value)
    if walked is None or walked.leaf:
        return None
    return Claim("loop over a tensor: it is unrolled, and recompiled for each new length")


RULE = Rule(
    code="TCR111",
    effect="recompile",
    level="warning",
    facts=(Loop,),
    check=check,
    no_rewrite="One operation over all rows is another algorithm, which the author has to choose.",
    module=__name__,
)
