"""A method of a tensor is called with the result of a function that breaks the graph.

## What it does
Finds calls of tensor methods whose arguments call functions, methods or modules of your own that contain
another break, if a tensor is needed after the break.

## Why it hurts torch.compile
Python looks up a method before it evaluates the arguments. At the break in an argument, Dynamo hands the
method over to the code after the break. That code receives a C function that is bound to a tensor and does
not know its class, so the graph ends once more, at the call.

## Use instead
Fix the break in the function. Or compute the argument on a separate line before the call, or call the
function of `torch` (`torch.masked_fill(x, mask, 0)`).

## Limits
Calls in a loop, a `with` or a `try` are not reported, because Dynamo skips the whole function there.
"""

from tcready.static.engine.facts import InArguments
from tcready.static.rule import Claim, Rule, Sample


def check(fact: InArguments) -> Claim | None:
    if not fact.of_tensor:
        return None
    return Claim("an argument breaks the graph after the method lookup, so the graph ends here too")


RULE = Rule(
    code="TCR423",
    name="break-in-arguments",
    effect="graph_break",
    level="warning",
    gb_ids=("GB0007",),
    facts=(InArguments,),
    check=check,
    follows=True,
    no_rewrite="Fix the other break.",
    page=__doc__,
    bad=(
        Sample(
            """
def mask_of(lengths):
    longest = lengths.max().item()  # CAUSE
    return torch.arange(longest) >= lengths[:, None]


class Model(nn.Module):
    def forward(self, x):
        lengths = (x[:, 0] > 0) * 0 + 8
        return x.masked_fill(mask_of(lengths), 0.0)  # BAD
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x + 1
        y = y + y.mul(self.scale())  # BAD
        return y

    def scale(self):
        print("scaled")  # CAUSE
        return 2
"""
        ),
    ),
    good=(
        Sample(
            """
def mask_of(lengths):
    return torch.arange(8) >= lengths[:, None]


class Model(nn.Module):
    def forward(self, x):
        lengths = (x[:, 0] > 0) * 0 + 8
        return x.masked_fill(mask_of(lengths), 0.0)
"""
        ),
    ),
)
