"""The address of a tensor is compared or used in arithmetic."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Address


def check(fact: Address) -> Claim:
    if fact.use == "compared":
        return Claim("the address of a tensor is compared: the graph ends here")
    if fact.use == "looked up":
        message = "the address of a tensor is looked up in a dict or a set: compiled code never finds it"
        return Claim(message, effect="wrong_result", level="warning", form="looked up")
    if fact.use == "tested":
        message = "the truth value of the address of a tensor is used: the function runs eagerly"
        return Claim(message, effect="frame_skip", form="tested")
    return Claim("the address of a tensor is used in arithmetic: the function runs eagerly", effect="frame_skip")


RULE = Rule(
    code="TCR334",
    gb_ids=("GB5976", "GB0088", "GB9118"),
    facts=(Address,),
    check=check,
    no_rewrite="Whether `is` is equivalent depends on how the tensors were created.",
    module=__name__,
)
