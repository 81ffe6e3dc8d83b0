"""A method of a list, a dict, a set or a text is called with what breaks the graph.

## What it does
Finds calls such as `losses.append(loss.item())` and `stats.update(mean=x.mean().item())`: another break stands in the
arguments, and a tensor is needed behind it.

## Why it hurts torch.compile
Python looks a method up before it works out its arguments. At the break Dynamo hands the method that was looked up over
to the code behind the break, and guards that it is that very object. Each call looks it up anew: what is behind the break
is compiled again at every call, until the limit of recompiles is reached and it runs eagerly from then on.

## Use instead
Work the argument out in a line of its own (`value = loss.item()`, then `losses.append(value)`), or mend the break.

## Limits
Calls in a loop or a `try` are not reported: these are given up as a whole. `stats["mean"] = x.mean().item()` calls no
method of the kind and does not compile again. Whether torch computes anything behind the break is not established.
"""

from tcready.static.engine.facts import InArguments
from tcready.static.rule import Claim, Rule, Sample


def check(fact: InArguments) -> Claim | None:
    if fact.of_tensor:
        return None
    return Claim(
        "a break stands in the arguments: the method was looked up before it, and what follows compiles again each time",
        "medium",
    )


RULE = Rule(
    code="TCR505",
    name="container-method-across-break",
    effect="recompile",
    level="error",
    gb_ids=(),
    facts=(InArguments,),
    check=check,
    follows=True,
    no_rewrite="The argument has to be worked out before the line, and what it reads be the same there.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        seen = []
        seen.append(  # BAD
            x.sum().item(),  # CAUSE
        )
        return x + 1, seen
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stats = {}

    def forward(self, x):
        self.stats.update(mean=mean_of(x))  # BAD
        return x + 1


def mean_of(x):
    return float(x.mean())  # CAUSE
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        seen = set()
        seen.add(total(x))  # BAD
        return x + 1, "{}".format(len(seen))


def total(x):
    print("total")  # CAUSE
    return x.sum()
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        seen = []
        seen.append(x.sum().abs())
        seen.append(size_of(x))
        return x + 1, seen


def size_of(x):
    return x.shape[0] * 2
"""
        ),
    ),
)
