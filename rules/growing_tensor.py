"""A tensor of the module grows in each call (`self.cache = torch.cat([self.cache, x])`).

## What it does
Finds attributes of long-lived objects that are replaced by a concatenation of themselves and something new.

## Why it hurts torch.compile
The tensor has another size in each call. The second call recompiles with that dimension dynamic. Memory is
allocated again in each call, and CUDA graphs cannot be used.

## Use instead
A buffer of the full length that is written by index (`self.cache[:, position] = x`, `index_copy_`).

## Limits
Growth in a helper object whose class is unknown, or in a list, is not found here. TCR312 reports lists.
"""

import ast

from tcready.static.engine.facts import Store
from tcready.static.engine.values import tensor_of
from tcready.static.rule import Claim, Rule, Sample

JOINING = frozenset("cat concat concatenate stack hstack vstack".split())


def check(fact: Store) -> Claim | None:
    if fact.kind != "attribute" or not fact.augmented or tensor_of(fact.value) is None:
        return None
    if isinstance(fact.source, ast.Call) and ast.unparse(fact.source.func).rpartition(".")[2] in JOINING:
        return Claim(f"`{fact.name}` is a longer tensor in each call: its size is guarded, so it recompiles")
    return None


RULE = Rule(
    code="TCR503",
    name="growing-tensor",
    effect="recompile",
    level="warning",
    gb_ids=(),
    facts=(Store,),
    check=check,
    no_rewrite="Only the author knows the maximum length. Allocate that at first, and store how much is used.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = torch.zeros(2, 8)

    def forward(self, x):
        self.cache = torch.cat([self.cache, x.detach()])  # BAD
        return x + self.cache.sum()
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(16, 8))

    def forward(self, x):
        self.cache[4:8] = x.detach()
        return x + self.cache.sum()
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = torch.zeros(8)

    def forward(self, x):
        self.mean = torch.lerp(self.mean, x.detach().mean(0), 0.1)
        joined = torch.cat([self.mean.unsqueeze(0), x])
        return joined * 2
"""
        ),
    ),
)
