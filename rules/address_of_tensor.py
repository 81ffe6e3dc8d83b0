"""The address of a tensor is compared or used in arithmetic.

## What it does
Finds `==`, `!=`, `<`, `in` and arithmetic on the result of `data_ptr()`, if it is called on a tensor in
compiled code; since torch 2.15 also its truth value (`if x.data_ptr():`). `in` of a dict or a set is reported
as a wrong result.

## Why it hurts torch.compile
While Dynamo traces, tensors have no memory, so there is no number for an address. Dynamo ends the graph if
two addresses are compared, and skips the function if an address is used in arithmetic. In a dict or a set,
each read of an address is a different key: two names of one tensor count as two tensors, and nothing breaks.

## Use instead
`x is y`, which Dynamo evaluates, or an argument that says whether two inputs are the same.

## Limits
Reading an address, and comparing the address of a tensor with itself, does not break the graph and is not
reported. Two names of one parameter count as two parameters, whose comparison breaks. Before torch 2.13, an
address as a key breaks the graph; that is not reported, and neither is `get` of a dict, or the number of
keys.
"""

from tcready.static.engine.facts import Address
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Address) -> Claim:
    if fact.use == "compared":
        return Claim("the address of a tensor is compared: the graph ends here")
    if fact.use == "looked up":
        message = "the address of a tensor is looked up in a dict or a set: compiled code never finds it"
        return Claim(message, effect="wrong_result", level="warning", form="looked up")
    if fact.use == "tested":
        message = "the truth value of the address of a tensor is used: the function runs eagerly"
        return Claim(message, effect="frame_skip", form="tested")
    return Claim(
        "the address of a tensor is used in arithmetic: the function runs eagerly", effect="frame_skip"
    )


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
    no_rewrite="Whether `is` is equivalent depends on how the tensors were created.",
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
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.second.weight = self.first.weight

    def forward(self, x):
        y = x * 2
        seen = set()
        for layer in (self.first, self.second):
            if layer.weight.data_ptr() not in seen:  # BAD
                y = y + layer.weight.sum()
            seen.add(layer.weight.data_ptr())
        return y
"""
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
