"""A tensor is compared with a member of an enum."""

from tcready.fixes.rewriters.members import claim_of_use
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import OfMember

MESSAGES = {
    "tensor equality": "to Dynamo, a tensor never equals a member of an enum, whatever the tensor contains",
    "tensor contained": "to Dynamo, a tensor equals no member of an enum, whatever the tensor contains",
    "tensor order": "Dynamo cannot order a tensor and a member of an enum: the function runs eagerly",
    "attribute": "to Dynamo, a tensor never equals a member of an enum, and that result has no such attribute",
    "argument": "to Dynamo, a tensor never equals a member of an enum, and that result is no tensor: tracing raises",
}


def check(fact: OfMember) -> Claim | None:
    if fact.use not in MESSAGES:
        return None
    return claim_of_use(fact, MESSAGES[fact.use], "frame_skip")


RULE = Rule(
    code="TCR123",
    effect="wrong_result",
    gb_ids=("GB0088", "GB0112"),
    facts=(OfMember,),
    check=check,
    no_rewrite="Any expression may denote the member. Append `.value` to it.",
    module=__name__,
)
