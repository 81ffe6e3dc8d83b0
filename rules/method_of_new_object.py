"""A method of an object that the compiled function has just created breaks the graph.

## What it does
Finds calls of a method of an instance of your own class, if the call runs code with another break, and if the
calling function created the object itself, or received it from a function that it called, without a break in
between. Later breaks in that function do not occur.

## Why it hurts torch.compile
At a break, Dynamo hands its state over to Python, including the method that is being called. It cannot
reconstruct a method that is bound to an object that does not exist yet, so the whole function runs eagerly.

## Use instead
Fix the break in the method. Or create the object when the model is built, or call the method through its
class (`Scaler.scale(scaler, x)`), or as `scaler(x)`: a `__call__` is handed over with its object.

## Limits
Methods that are stored in a variable or passed on, static methods and calls in a loop are not reported. An
attribute that a method reads counts as part of the call.
"""

from tcready.static.engine.facts import OfNew
from tcready.static.rule import Claim, Rule, Sample


def check(_fact: OfNew) -> Claim:
    return Claim(
        "a break stands in a method of an object that is made here: Dynamo cannot hand that over, and the function runs "
        "eagerly"
    )


RULE = Rule(
    code="TCR422",
    name="method-of-new-object",
    effect="frame_skip",
    level="warning",
    gb_ids=("GB0092",),
    facts=(OfNew,),
    check=check,
    follows=True,
    no_rewrite="Fix the other break.",
    page=__doc__,
    bad=(
        Sample(
            """
class Scaler:
    def __init__(self, by):
        self.by = by

    def scale(self, x):
        print("scaled")  # CAUSE
        return x * self.by

class Model(nn.Module):
    def forward(self, x):
        scaler = Scaler(2)
        y = x + 1
        return scaler.scale(y)  # BAD
"""
        ),
        Sample(
            """
class Scaler:
    def scale(self, x):
        print("scaled")  # CAUSE
        return x * 2

class Model(nn.Module):
    def forward(self, x):
        self.scaler = Scaler()
        y = x + 1
        y = self.scaler.scale(y)  # BAD
        return y - 1
"""
        ),
        Sample(
            """
class Scaler:
    def scale(self, x):
        return scaled(x)

def scaled(x):
    print("scaled")  # CAUSE
    return x * 2

def make():
    return Scaler()

class Model(nn.Module):
    def forward(self, x):
        y = x + 1
        return make().scale(y)  # BAD
"""
        ),
    ),
    good=(
        Sample(
            """
class Scaler:
    def __init__(self, by):
        self.by = by

    def scale(self, x):
        return x * self.by

class Model(nn.Module):
    def forward(self, x):
        scaler = Scaler(2)
        y = x + 1
        return scaler.scale(y)
"""
        ),
    ),
)
