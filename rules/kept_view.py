"""A view of a dict, or an iterator, that was made before the compiled call is walked in it.

## What it does
Finds loops, comprehensions, `zip` and `enumerate`, `list`, `tuple`, `sum`, `len`, `max` and `min` over what `keys()`,
`values()` or `items()` of a dict gave in `__init__` or at module level.

## Why it hurts torch.compile
A view from outside is an object written in C of which Dynamo knows no member: it gives up the function that walks it.

## Use instead
Keep the dict and ask it for its values where they are walked, or keep `list(d.values())`: both are traced.

## Limits
`in` a view of keys is traced and not reported. Views that come in as arguments are not known to be any.
"""

from __future__ import annotations

from tcready.static.engine.facts import Call, Loop
from tcready.static.engine.values import Sequence, Value, options
from tcready.static.rule import Claim, Rule, Sample

WALKING = frozenset("list tuple set sum len max min sorted dict any all iter".split())


def check(fact: Call | Loop) -> Claim | None:
    if isinstance(fact, Loop):
        if is_kept(fact.value):
            return Claim(
                "a view of a dict that was made before is walked: the frame goes eager", effect="frame_skip"
            )
        return None
    if fact.constructed in WALKING and fact.args and is_kept(fact.args[0]):
        return Claim(f"`{fact.constructed}` walks a view of a dict that was made before: the graph ends here")
    return None


def is_kept(value: Value) -> bool:
    """A view that outlives the compiled call."""
    return any(isinstance(v, Sequence) and v.kind == "view" and v.outer for v in options(value))


RULE = Rule(
    code="TCR326",
    name="kept-view",
    effect="graph_break",
    level="error",
    gb_ids=("GB0811", "GB6012"),
    facts=(Call, Loop),
    check=check,
    no_rewrite="Where the view is made it has to become a list, or the dict be kept: both stand elsewhere.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = {"a": 1.0, "b": 2.0}
        self.scales = self.table.values()
        self.pairs = self.table.items()

    def forward(self, x):
        y = scaled(x * 2, self.scales)
        return beside(y, self.pairs)


def scaled(y, scales):
    for scale in scales:  # BAD
        y = y * scale
    return y


def beside(y, pairs):
    for (name, scale), place in zip(pairs, (0, 1)):  # BAD
        y = y * scale + len(name) + place
    return y
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = {"a": 1.0, "b": 2.0}.values()

    def forward(self, x):
        y = x * 2
        y = y * sum(self.scales)  # BAD
        return y / len(self.scales)  # BAD
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = {"a": 1.0, "b": 2.0}
        self.scales = list(self.table.values())
        self.names = self.table.keys()

    def forward(self, x):
        y = x * 2
        for scale in self.scales:
            y = y * scale
        for name, scale in self.table.items():
            y = y * scale + len(name)
        if "a" in self.names:
            y = y + 1
        return y
"""
        ),
    ),
)
