"""The compiled function returns an object that Dynamo cannot make again.

## What it does
Finds objects of a class of your own that are made in the compiled function and returned from it, by themselves or in a
tuple, list or dict, and that hold one of their own methods (`self.run = self.fast`), or a lambda that is the default of
a parameter of their `__init__`.

## Why it hurts torch.compile
Behind the graph Dynamo makes the object again, attribute by attribute. It has no way to write down a method that is
bound to a new object, nor a function that stands nowhere but in the defaults of another: what comes behind the last
operation that was traced runs eagerly, with the `return`.

## Use instead
Return tensors, and make the object where the model is called; or choose the method where it is called; or let the
parameter be None by default, and a function of the module be what None stands for.

## Limits
An object that stands in a variable when another break ends the graph is not reported. A function that is given by name
as a default is not told from one that is passed in, which Dynamo takes.
"""

from tcready.static.engine.facts import Returned
from tcready.static.rule import Claim, Rule, Sample

WORDS = {
    "method": "an object that holds one of its methods is returned: Dynamo cannot make it again",
    "default": "an object that holds a default of its class, a lambda, is returned: Dynamo cannot make it again",
}


def check(fact: Returned) -> Claim:
    return Claim(WORDS[fact.kept])


RULE = Rule(
    code="TCR421",
    name="returned-object",
    effect="graph_break",
    level="error",
    gb_ids=("GB0092",),
    facts=(Returned,),
    check=check,
    no_rewrite="What a model returns is what its callers take: they have to change with it.",
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
