"""A class is defined in compiled code.

## What it does
Finds `class` statements inside functions that the compiled forward reaches.

## Why it hurts torch.compile
Defining a class runs code that Dynamo does not trace: the graph ends there. The class is new at every call,
and its identity is guarded.

## Use instead
Define the class at module level. `types.SimpleNamespace` is no cure; a dict, a tuple or a dataclass made at
module level is.

## Limits
`type(name, (), {})`, functions and lambdas defined in the forward are traced.
"""

from tcready.static.engine.facts import Define
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Define) -> Claim | None:
    return Claim(f"class `{fact.node.name}` is defined in compiled code: the graph ends here")


RULE = Rule(
    code="TCR316",
    name="class-in-forward",
    effect="graph_break",
    level="error",
    gb_ids=("GB8977",),
    facts=(Define,),
    check=check,
    no_rewrite="What the class takes from the function around it has to be handed to it once it stands at module level.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2

        class Output:  # BAD
            scale = 2.0

        return y + 1
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return Output(y).value + 1
""",
            setup="""
import dataclasses


@dataclasses.dataclass
class Output:
    value: torch.Tensor
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        def double(value):
            return value * 2

        triple = lambda value: value * 3
        return double(x) + triple(x)
"""
        ),
    ),
)
