"""A call inside a `try` passes arguments that the function does not accept."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Misfit


def check(_fact: Misfit) -> Claim:
    return Claim("the function does not accept these arguments: the function with the `try` runs eagerly")


RULE = Rule(
    code="TCR122",
    effect="frame_skip",
    gb_ids=("GB7312",),
    facts=(Misfit,),
    check=check,
    no_rewrite="Only the author knows which functions the call may reach. Check before the call.",
    module=__name__,
)
