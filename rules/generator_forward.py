"""The compiled function itself is a generator function.

## What it does
Finds a `yield` in the `forward` of the compiled model, or in the compiled function.

## Why it hurts torch.compile
Dynamo does not compile a generator function that is called directly. The call returns a plain generator, and
all of its code, with the functions and modules that it calls, runs eagerly as the caller iterates over it.

## Use instead
Return a list or a tuple. Or compile what is called between two `yield`s: `self.layer.compile()`.

## Limits
A generator function that compiled code calls is traced with that code and is not reported. A generator
function with a decorator is not reported either. The body of the compiled generator function is not checked.
"""

from tcready.static.engine.facts import Alone
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Alone) -> Claim | None:
    if not fact.entry:
        return None
    return Claim("the compiled function is a generator function: all of it runs eagerly")


RULE = Rule(
    code="TCR124",
    name="generator-forward",
    effect="frame_skip",
    level="error",
    gb_ids=("GB0003",),
    facts=(Alone,),
    check=check,
    no_rewrite="Callers may rely on the lazy evaluation of a generator: a list computes all items first.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

    def forward(self, x):  # BAD
        for layer in self.layers:
            x = layer(x)
            print(x.mean().item())
            yield x
"""
        ),
        Sample(
            """
def rows(x):
    yield x * 2


def model(x):  # BAD
    yield x + 1
    yield from rows(x)
"""
        ),
    ),
    good=(
        Sample(
            """
class Rows(nn.Module):
    def forward(self, x):
        for factor in range(2):
            yield x * factor


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = Rows()

    def forward(self, x):
        return [row + 1 for row in self.rows(x)]
"""
        ),
    ),
)
