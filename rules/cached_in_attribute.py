"""The `forward` stores a size, or a value that the first call creates, on the module.

## What it does
Finds attributes that the forward sets to the size of a tensor, or that it creates under a condition.

## Why it hurts torch.compile
Code that stores such a value tests it first (`if self.n != x.shape[0]`, `if not hasattr(self, "pos")`). The
result of the test is guarded, and the call changes it. The second call recompiles, and if the value is a
size, so does each call with a new size.

## Use instead
Compute the value in each call (inside a graph, `torch.arange` costs next to nothing), or create it once in
`__init__` for the maximum length.

## Limits
An attribute that nothing reads before it is set is harmless. The rule does not determine which attributes are
read first.
"""

from tcready.static.engine.facts import Store
from tcready.static.engine.values import Const, Plain, Value, options, tensor_of
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Store) -> Claim | None:
    if fact.kind != "attribute" or not fact.own_module or fact.augmented:
        return None
    if fact.old is None:
        if fact.where.conditional and tensor_of(fact.value):
            return Claim(f"`{fact.name}` is first created in the forward: the next call recompiles", "medium")
        return None
    if size(fact.value) and number(fact.old):
        return Claim(
            f"`{fact.name}` stores a size: if it is read first, each change causes a recompilation", "medium"
        )
    return None


def size(value: Value) -> bool:
    return any(isinstance(v, Plain) and v.origin == "shape" and v.kind == "int" for v in options(value))


def number(value: Value) -> bool:
    return any(
        isinstance(v, Plain) or (isinstance(v, Const) and isinstance(v.value, int)) for v in options(value)
    )


RULE = Rule(
    code="TCR504",
    name="cached-in-attribute",
    effect="recompile",
    level="note",
    gb_ids=(),
    facts=(Store,),
    check=check,
    no_rewrite="The author has to decide what to cache and for how long. Create it before the first call.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.length = 0
        self.table = torch.zeros(1)

    def forward(self, x):
        if self.length != x.shape[0]:
            self.length = x.shape[0]  # BAD
            self.table = torch.arange(self.length).unsqueeze(1)
        return x + self.table
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        if not hasattr(self, "places"):
            self.places = torch.arange(8)  # BAD
        return x + self.places
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        return x + torch.arange(x.shape[0]).unsqueeze(1)
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = None
        self.register_buffer("places", torch.arange(8))

    def forward(self, x):
        self.last = x.detach()
        return x + self.places
"""
        ),
    ),
)
