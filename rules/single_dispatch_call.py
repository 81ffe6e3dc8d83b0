"""A `functools.singledispatch` function is called in compiled code.

## What it does
Finds calls of functions that `functools.singledispatch` decorates.

## Why it hurts torch.compile
The look-up goes through a weak dictionary that fills at the first call of each type. For a number, a text or None the
graph ends there; for a tensor the table is guarded while it is still empty, so the second call compiles again. A list,
a dict or another object is looked up while tracing.

## Use instead
`isinstance` tests, or a dict from type to function that is complete before the first call.

## Limits
What the implementations do is not looked into.
"""

from tcready.static.engine.facts import Call
from tcready.static.engine.values import Const, Plain, options, tensor_of
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call) -> Claim | tuple[Claim, ...] | None:
    if fact.constructed != "functools.singledispatch()" or not fact.args:
        return None
    if tensor_of(fact.args[0]):
        return Claim(
            "a `singledispatch` function is given a tensor: its table is guarded, so the next call compiles again",
            effect="recompile",
            level="warning",
        )
    if any(
        isinstance(v, (Const, Plain)) for v in options(fact.args[0])
    ):  # of other objects Dynamo knows the type
        return (
            Claim(
                "a `singledispatch` function is given a number or a text: the graph ends here",
                form="a number or a text",
            ),
            Claim(
                "a `singledispatch` function is given a number or a text: its table is guarded, so the next call "
                "compiles again",
                effect="recompile",
                level="warning",
                form="a number or a text, traced",
            ),
        )
    return None


RULE = Rule(
    code="TCR310",
    name="single-dispatch-call",
    effect="graph_break",
    level="error",
    gb_ids=("GB0811",),
    facts=(Call,),
    check=check,
    no_rewrite="Which function is meant follows from types that the code does not show: ask with `isinstance`.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        n = widen(3)  # BAD
        return y * n
""",
            setup="""
import functools


@functools.singledispatch
def widen(x):
    return x


@widen.register
def _(x: int):
    return x + 1
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = widen(x * 2)  # BAD
        return y * 3
""",
            setup="""
import functools


@functools.singledispatch
def widen(x):
    return x + 1
""",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        n = widen(3)
        return y * n
""",
            setup="""
def widen(x):
    return x + 1 if isinstance(x, int) else x
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        return table[type(x)](x) * 3
""",
            setup="""
table = {torch.Tensor: torch.relu, int: abs}
""",
        ),
    ),
)
