"""A method of an object that the compiled function has just made breaks the graph.

## What it does
Finds calls of a method of an object of a class of your own, where another break stands in what the call runs, and the
function that makes the call has made the object itself, or been given it by what it called, with no break in between.
What breaks behind it in that function is not met.

## Why it hurts torch.compile
At a break Dynamo hands what it has so far over to Python, also the method that is being called. It has no way to write
down a method that is bound to an object which does not exist yet: the whole function runs eagerly.

## Use instead
Mend the break in the method. Or make the object where the model is built, or call the method by its class
(`Scaler.scale(scaler, x)`), or as `scaler(x)`: a `__call__` is handed over with its object.

## Limits
Methods that are kept in a variable or passed on, static methods and calls in a loop are not reported. An attribute that
a method reads counts as part of the call.
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
    no_rewrite="What is to be mended is the other break.",
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
