"""A tensor is compared with a member of an enum.

## What it does
Finds `==`, `!=`, `<` and the other comparisons between a tensor and a member of an `enum.IntEnum`, or of
another enum whose members are numbers, and `in` over such members.

## Why it hurts torch.compile
Eager code compares the numbers. Dynamo treats the two as objects of different types: `tensor == Kind.WORD` is
False and `!=` is True, whatever the tensor contains, and there is no warning. A mask that is computed this
way is empty. If the code then uses the result as a tensor (`.sum()`), or if the comparison is `<`, the
function runs eagerly. An operation that does not accept a bool there (`torch.where`) raises an error.

## Use instead
The number: `tensor == Kind.WORD.value`, or `torch.eq(tensor, Kind.WORD)`.

## Limits
Arithmetic with a member, a member as an index of a tensor, and comparisons with a size or a number have the
same result as in eager code and are not reported. Torch 2.11 compares the numbers, so nothing is reported for
it.
"""

from tcready.rules._members import KINDS, claim_of_use
from tcready.static.engine.facts import OfMember
from tcready.static.rule import Claim, Rule, Sample

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
    name="member-with-tensor",
    effect="wrong_result",
    level="error",
    gb_ids=("GB0088", "GB0112"),
    facts=(OfMember,),
    check=check,
    no_rewrite="Any expression may denote the member. Append `.value` to it.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        y[x == Kind.WORD] = 0.0  # BAD
        return y * 3
""",
            inputs="(torch.tensor([0.0, 1.0, 2.0]),)",
            setup=KINDS,
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return y * (y < Kind.WORD)  # BAD
""",
            setup=KINDS,
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        words = (x == Kind.WORD).float()  # BAD
        return y * words
""",
            setup=KINDS,
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x + Kind.WORD
        if x.shape[0] == Kind.WORD:
            y = y + 1
        y = torch.where(x == Kind.WORD.value, y, x)
        return y * torch.eq(x, Kind.WORD) + y[Kind.WORD]
""",
            setup=KINDS,
        ),
    ),
)
