"""The message of `torch._check` is a string, or depends on objects."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import CheckMessage

WORDS = {
    "elsewhere": "the message of the check is not a function that is defined here: the graph ends at the call",
    "of objects": "the message of the check reads a tensor or an object: the graph ends at the call",
}


def check(fact: CheckMessage) -> Claim:
    return Claim(WORDS[fact.made], form=fact.made)


RULE = Rule(
    code="TCR420",
    gb_ids=("GB0288", "GB9158", "GB9840"),
    facts=(CheckMessage,),
    check=check,
    no_rewrite="What the message is to say has to be put into variables first, which is for the author to word.",
    module=__name__,
)
