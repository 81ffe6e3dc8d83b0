"""A member of an enum is used as the number or string that it also is."""

from tcready.fixes.rewriters.members import claim_of_use
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import DIFFERS, RAISES, OfMember

OF_TENSORS = ("tensor", "attribute", "argument")


def check(fact: OfMember) -> Claim | None:
    if fact.use.startswith(OF_TENSORS):
        return None
    kind = "string" if fact.use.startswith("text") else "number"
    ends = {DIFFERS: "the result differs", RAISES: "tracing raises"}
    message = f"a member of an enum is used as a {kind}: {ends.get(fact.outcome, 'the graph ends here')}"
    return claim_of_use(fact, message, "graph_break")


RULE = Rule(
    code="TCR425",
    gb_ids=("GB0007", "GB0088", "GB0150", "GB0156", "GB0811", "GB4411", "GB9493"),
    facts=(OfMember,),
    check=check,
    no_rewrite="Any expression may denote the member. Append `.value` to it.",
    module=__name__,
)
