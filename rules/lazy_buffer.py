"""`register_buffer` or `register_parameter` is called in the forward.

## What it does
Finds `register_buffer` and `register_parameter` in code that the compiled forward reaches.

## Why it hurts torch.compile
Dynamo guards on whether the module has the name, so the second call recompiles. This happens for every copy
of the module.

## Use instead
Register the tensor in `__init__`. If its content is known only later, fill it in the forward
(`self.table = ...` or `copy_`).

## Limits
Registering under a name that the module already had is harmless. The rule does not distinguish it.
"""

from tcready.static.engine.facts import Call
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call) -> Claim | None:
    built = fact.where.symbol.endswith(".__init__")
    if fact.method in ("register_buffer", "register_parameter") and not built:
        return Claim(f"`{fact.method}` in the forward: the second call recompiles")
    return None


RULE = Rule(
    code="TCR314",
    name="lazy-buffer",
    effect="recompile",
    level="warning",
    gb_ids=(),
    facts=(Call,),
    check=check,
    no_rewrite="Its content depends on the call, so `__init__` cannot register it.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        self.register_buffer("table", torch.arange(8))  # BAD
        return x * self.table
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(8, dtype=torch.long))

    def forward(self, x):
        self.table = torch.arange(8)
        return x * self.table
"""
        ),
    ),
)
