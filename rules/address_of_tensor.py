"""The address of a tensor is compared or worked with.

## What it does
Finds `==`, `!=`, `<`, `in` and arithmetic on what `data_ptr()` gives, a call of a tensor in compiled code; since torch
2.15 its truth, too (`if x.data_ptr():`).

## Why it hurts torch.compile
While Dynamo traces, tensors lie nowhere: it has no number for an address. It ends the graph at a comparison of two, and
gives the function up where an address is calculated with.

## Use instead
`x is y`, which Dynamo knows; or an argument that says whether two inputs are the same.

## Limits
Taking an address, and comparing that of a tensor with itself, does not break, and is not reported.
"""

from tcready.static.engine.facts import Address
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Address) -> Claim:
    if fact.use == "compared":
        return Claim("the address of a tensor is compared: the graph ends here")
    if fact.use == "tested":
        message = "the address of a tensor is asked whether it is zero: the function goes eager"
        return Claim(message, effect="frame_skip", form="tested")
    return Claim("the address of a tensor is worked with: the function goes eager", effect="frame_skip")


RULE = Rule(
    code="TCR334",
    name="address-of-tensor",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB5976",
        "GB0088",
        "GB9118",
    ),
    facts=(Address,),
    check=check,
    no_rewrite="Whether `is` asks the same depends on how the tensors were made.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, q, k, v):
        same = q.data_ptr() == k.data_ptr() == v.data_ptr()  # BAD
        y = q * 2
        if same or y.data_ptr() in (1, 2):  # BAD
            return y
        return y + k + v
""",
            inputs="(torch.randn(4, 8), torch.randn(4, 8), torch.randn(4, 8))",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        if y.data_ptr() % 16:  # BAD
            return y + 1
        return y
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        if x.data_ptr():  # BAD
            y = y + 1
        return y
""",
            torch=(2, 15),
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, y):
        where = x.data_ptr()
        if x is y or x.data_ptr() != x.data_ptr():
            return x * 2
        return x + y
""",
            inputs="(torch.randn(4, 8), torch.randn(4, 8))",
        ),
    ),
)
