"""The compiled function returns an object that Dynamo cannot reconstruct.

## What it does
Finds instances of your own classes that the compiled function creates and returns, directly or in a tuple,
list or dict, if they hold one of their own methods (`self.run = self.fast`), or a lambda that is the default
of a parameter of their `__init__`.

## Why it hurts torch.compile
After the graph, Dynamo reconstructs the object, attribute by attribute. It cannot reconstruct a method that
is bound to a new object, or a function that exists only in the defaults of another function. The code after
the last traced operation runs eagerly, including the `return`.

## Use instead
Return tensors, and create the object where the model is called. Or select the method where it is called. Or
let the default of the parameter be None, and replace None by a function of the module.

## Limits
An object in a local variable is not reported if another break ends the graph. The rule does not distinguish a
default that is a named function from a function that is passed in, which Dynamo accepts.
"""

from tcready.static.engine.facts import Returned
from tcready.static.rule import Claim, Rule, Sample

WORDS = {
    "method": "an object that holds one of its methods is returned: Dynamo cannot reconstruct it",
    "default": "an object that holds a default of its class, a lambda, is returned: Dynamo cannot reconstruct it",
}


def check(fact: Returned) -> Claim:
    return Claim(WORDS[fact.holds])


RULE = Rule(
    code="TCR421",
    name="returned-object",
    effect="graph_break",
    level="error",
    gb_ids=("GB0092",),
    facts=(Returned,),
    check=check,
    no_rewrite="If the model returns something else, its callers have to change too.",
    page=__doc__,
    bad=(
        Sample(
            """
class Scores:
    def __init__(self, values, shown=lambda v: v):
        self.values = values
        self.shown = shown

class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return Scores(y)  # BAD
"""
        ),
        Sample(
            """
class Scores:
    def __init__(self, values):
        self.values = values
        self.best = self.largest

    def largest(self):
        return self.values.max()

class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return y, {"scores": Scores(y)}  # BAD
"""
        ),
    ),
    good=(
        Sample(
            """
class Scores:
    def __init__(self, values, shown=lambda v: v):
        self.values = values
        self.shown = shown
        self.best = self.largest

    def largest(self):
        return self.values.max()

class Model(nn.Module):
    def forward(self, x):
        scores = Scores(x * 2)
        return scores.shown(scores.values) + scores.best()
"""
        ),
    ),
)
