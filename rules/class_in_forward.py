"""A class is defined in compiled code.

## What it does
Finds `class` statements inside functions that the compiled forward reaches. Also finds calls of a class that
`type(name, bases, dict)` creates there, and such a class if a tensor is among its attributes.

## Why it hurts torch.compile
Dynamo does not trace the code that defines a class, so the graph ends there. The class is new in each call,
and its identity is guarded.

## Use instead
Define the class at module level. `types.SimpleNamespace` does not help. A dict, a tuple or a dataclass
defined at module level does.

## Limits
Creating a class with `type(name, bases, dict)` and reading its attributes is traced. Functions and lambdas
that are defined in the forward are traced.
"""

from tcready.static.engine.facts import Call, Define
from tcready.static.engine.knowledge import NEW_CLASS
from tcready.static.engine.values import holds_tensor
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Define | Call) -> Claim | None:
    if isinstance(fact, Call):
        if fact.function == NEW_CLASS:
            return Claim("a class that compiled code created is called: the graph ends here")
        if fact.name == "type" and len(fact.args) == 3 and holds_tensor(fact.args[2]):
            return Claim("a class is created with a tensor among its attributes: the graph ends here")
        return None
    return Claim(f"class `{fact.node.name}` is defined in compiled code: the graph ends here")


RULE = Rule(
    code="TCR316",
    name="class-in-forward",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB8977",
        "GB0147",
        "GB0193",
        "GB0088",
    ),
    facts=(Define, Call),
    check=check,
    no_rewrite="At module level, the class has to receive the variables of the enclosing function as arguments.",
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
        Sample(
            """
def made(kind, **fields):
    return type(f"Named{kind.__name__}", (kind,), fields)


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        rows = made(list)()  # BAD
        limits = type("Limits", (), {"low": y})  # BAD
        return y + 1 + limits.low
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

        limits = type("Limits", (object,), {"low": 3})
        x = x + limits.low

        triple = lambda value: value * 3
        return double(x) + triple(x)
"""
        ),
    ),
)
