"""A builtin that Dynamo does not trace: `breakpoint`, `exec`, `globals`, `dir` and their kin.

## What it does
Finds calls of `breakpoint`, `exec`, `compile`, `globals`, `dir`, `bytes`, `bytearray`, `memoryview`,
`object`, and `pow` of a tensor.

## Why it hurts torch.compile
Dynamo has no model of these builtins: it ends the graph at the call and lets Python do it.

## Use instead
`y ** 2` or `torch.pow` for `pow`; a dict of functions for `globals()` and `exec`; sentinels made once at
module level; no `breakpoint` in code that is compiled.

## Limits
`eval` of a constant, `locals`, `vars`, `hasattr`, `getattr` and `isinstance` are traced.
"""

from tcready.rules._names import constructed
from tcready.static.engine.facts import Call
from tcready.static.engine.values import tensor_of
from tcready.static.rule import Claim, Rule, Sample

BUILTINS = frozenset("breakpoint exec compile globals dir bytes bytearray memoryview object".split())


def check(fact: Call) -> Claim | None:
    name = constructed(fact)
    if name in BUILTINS or (name == "pow" and any(tensor_of(arg) for arg in fact.args)):
        return Claim(f"`{name}` in compiled code: the graph ends here")
    return None


RULE = Rule(
    code="TCR308",
    name="untraceable-builtin",
    effect="graph_break",
    level="error",
    gb_ids=("GB0059",),
    facts=(Call,),
    check=check,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = pow(x, 2)  # BAD
        return y + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        helper = globals()["F"]  # BAD
        names = dir(y)  # BAD
        exec("1")  # BAD
        sentinel = object()  # BAD
        return helper.relu(y) + len(names)
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x**2
        return y + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        name = getattr(F, "relu")(y) if hasattr(F, "relu") else y
        if callable(F.relu) and isinstance(y, torch.Tensor) and issubclass(nn.Linear, nn.Module):
            y = y + eval("1 + 1") + pow(2, 3)
        return y + name
"""
        ),
    ),
)
