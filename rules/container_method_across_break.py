"""A method of a list, a dict, a set or a string is called with an argument that breaks the graph.

## What it does
Finds calls such as `losses.append(loss.item())` and `stats.update(mean=x.mean().item())`, whose arguments
contain another break, if a tensor is needed after it.

## Why it hurts torch.compile
Python looks up a method before it evaluates the arguments. At the break, Dynamo hands the method over to the
code after the break, and guards on the identity of that method object. Each call looks it up again, so the
code after the break recompiles in each call until it reaches the recompile limit. From then on, it runs
eagerly.

## Use instead
Compute the argument on a separate line (`value = loss.item()`, then `losses.append(value)`), or fix the
break.

## Limits
Calls in a loop or a `try` are not reported, because Dynamo skips the whole function there.
`stats["mean"] = x.mean().item()` calls no such method and does not recompile. The rule does not determine
whether torch computes anything after the break.
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
    no_rewrite="The argument has to be computed before the line, and what it reads must be the same there.",
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
