"""A call inside a `try` gives a function arguments that it does not take.

## What it does
Finds calls with a keyword that the function has no parameter for, or with too many arguments, where a `try` waits
for the `TypeError`.

## Why it hurts torch.compile
Python raises an error that the `except` handles. Dynamo, which binds the arguments itself when it follows the call,
gives up instead: the graph ends, and because that is inside a `try`, the whole function runs eagerly.

## Use instead
Ask before the call: an attribute that says what a layer takes, or `inspect.signature(layer.forward).parameters`
looked at when the model is built; or let every layer take `**kwargs`.

## Limits
Functions whose source is read. A call that lacks an argument is not found.
"""

from tcready.static.engine.facts import Misfit
from tcready.static.rule import Claim, Rule, Sample


def check(_fact: Misfit) -> Claim:
    return Claim("the function does not take what it is given: the frame around the `try` goes eager")


RULE = Rule(
    code="TCR122",
    name="caught-argument-error",
    effect="frame_skip",
    level="error",
    gb_ids=("GB7312",),
    facts=(Misfit,),
    check=check,
    no_rewrite="Only whoever wrote the call knows which functions it may meet: ask before it.",
    page=__doc__,
    bad=(
        Sample(
            """
class Plain(nn.Module):
    def forward(self, x):
        return x + 1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Plain()

    def forward(self, x):
        y = x * 2
        try:
            y = self.layer(y, lengths=None)  # BAD
        except TypeError:
            y = self.layer(y)
        return y
"""
        ),
        Sample(
            """
def scaled(x):
    return x * 2


class Model(nn.Module):
    def forward(self, x):
        y = x + 1
        try:
            y = scaled(y, 3)  # BAD
        except TypeError:
            y = scaled(y)
        return y
"""
        ),
    ),
    good=(
        Sample(
            """
class Plain(nn.Module):
    takes_lengths = False

    def forward(self, x):
        return x + 1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Plain()

    def forward(self, x, lengths=None):
        y = x * 2
        if self.layer.takes_lengths:
            return self.layer(y, lengths=lengths)
        return self.layer(y)
"""
        ),
    ),
)
