"""An operator that a class overloads is used between an instance of the class and a tensor."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Overloaded
from tcready.static.domain.values import Instance, likely


def check(fact: Overloaded) -> Claim:
    return Claim(
        "an operator that a class overloads: Dynamo assumes the operator of tensors",
        effect="frame_skip" if fact.written else None,
        confidence=None if fact.sure else "medium",
        form="between two objects" if isinstance(likely(fact.other), Instance) else "",
    )


RULE = Rule(
    code="TCR331",
    gb_ids=("GB0055", "GB0059"),
    facts=(Overloaded,),
    check=check,
    no_rewrite="The class needs a named method, and it may not be yours.",
    module=__name__,
)
