"""A method of a tensor is called with what a function gives that breaks the graph.

## What it does
Finds calls of methods of tensors whose arguments call functions, methods or modules of your own in which another break
stands, where a tensor is needed behind the break.

## Why it hurts torch.compile
Python looks a method up before it works out its arguments. At the break in one of them Dynamo hands the method that was
looked up over to the code behind the break, which finds a function written in C there, bound to a tensor, and not what it
is a method of: the graph ends once more, at the call.

## Use instead
Mend the break in the function. Or work the argument out in a line of its own before the call, or call the function of
`torch` (`torch.masked_fill(x, mask, 0)`).

## Limits
Calls in a loop, a `with` or a `try` are not reported: these are given up as a whole.
"""

from tcready.static.engine.facts import InArguments
from tcready.static.rule import Claim, Rule, Sample


def check(fact: InArguments) -> Claim | None:
    if not fact.of_tensor:
        return None
    return Claim(
        "a break stands in what the arguments call: the method was looked up before it, and the graph ends here too"
    )


RULE = Rule(
    code="TCR423",
    name="break-in-arguments",
    effect="graph_break",
    level="warning",
    gb_ids=("GB0007",),
    facts=(InArguments,),
    check=check,
    follows=True,
    no_rewrite="What is to be mended is the other break.",
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
