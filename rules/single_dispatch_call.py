"""A `functools.singledispatch` function is called in compiled code.

## What it does
Finds calls of functions that are decorated with `functools.singledispatch`.

## Why it hurts torch.compile
The lookup uses a weak dictionary that is filled at the first call with each type. For a number, a string or
None, the graph ends there. For a tensor, the dictionary is guarded while it is still empty, so the second
call recompiles. For a list, a dict or another object, the lookup happens while tracing.

## Use instead
`isinstance` tests, or a dict from type to function that is complete before the first call.

## Limits
The rule does not check what the implementations do.
"""

from tcready.static.engine.facts import Call
from tcready.static.engine.values import Const, Plain, options, tensor_of
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call) -> Claim | tuple[Claim, ...] | None:
    if fact.constructed != "functools.singledispatch()" or not fact.args:
        return None
    if tensor_of(fact.args[0]):
        return Claim(
            "a `singledispatch` function is called with a tensor: its table is guarded, so the next call recompiles",
            effect="recompile",
            level="warning",
        )
    if any(
        isinstance(v, (Const, Plain)) for v in options(fact.args[0])
    ):  # of other objects Dynamo knows the type
        return (
            Claim(
                "a `singledispatch` function is called with a number or a string: the graph ends here",
                form="a number or a text",
            ),
            Claim(
                "a `singledispatch` function is called with a number or a string: its table is guarded, so the next call "
                "recompiles",
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
    no_rewrite="The function depends on types that the code does not show. Test with `isinstance`.",
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
