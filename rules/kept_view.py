"""A view of a dict, or an iterator, that was created before the compiled call is iterated over in it.

## What it does
Finds loops, comprehensions, `next`, `in`, `zip` and `enumerate`, `list`, `tuple`, `sum`, `len`, `max` and
`min` over an object that was created in `__init__` or at module level: by `values()` or `items()` of a dict,
`parameters()` of a module, `iter`, `zip`, `map`, `filter`, `itertools`, a function with a `yield`, or a
generator expression.

## Why it hurts torch.compile
Dynamo cannot see the items of a view or an iterator that comes from outside. It skips the function that
iterates over it. In Python, an iterator would also be exhausted after the first call.

## Use instead
Store the underlying object and create the view or iterator where you iterate over it, or store a list. Both
are traced.

## Limits
Views of keys, `range` and `itertools.count` are traced and not reported. Views that are arguments of the
compiled function are not recognized.
"""

from __future__ import annotations

from tcready.static.engine.facts import Call, Contains, Loop
from tcready.static.engine.values import Sequence, Value, options
from tcready.static.rule import Claim, Rule, Sample

WALKING = frozenset("list tuple set sum len max min sorted dict any all iter next".split())


def check(fact: Call | Loop | Contains) -> Claim | None:
    if isinstance(fact, Call):
        kept = kept_kind(fact.args[0]) if fact.constructed in WALKING and fact.args else None
        return Claim(f"`{fact.constructed}` iterates over {kept}: the graph ends here") if kept else None
    kept = kept_kind(fact.value if isinstance(fact, Loop) else fact.container)
    return Claim(f"{kept} is iterated over: the function runs eagerly", effect="frame_skip") if kept else None


def kept_kind(value: Value) -> str | None:
    """What a view or an iterator that outlives the compiled call is called; None for anything else."""
    kinds = [v.kind for v in options(value) if isinstance(v, Sequence) and v.escaping]
    if "view" in kinds:
        return "a view of a dict that was created before the call"
    return "an iterator that was created before the call" if "iterator" in kinds else None


RULE = Rule(
    code="TCR326",
    name="kept-view",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0811",
        "GB4347",
        "GB6012",
        "GB0116",
        "GB9493",
    ),
    facts=(Call, Contains, Loop),
    check=check,
    no_rewrite="Create a list instead of the view, or store the dict. That code is elsewhere.",
    page=__doc__,
    bad=(
        Sample(
            """
import itertools

ROUNDS = itertools.chain([1.0], [2.0])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 8)
        self.decayed = [(self.head.parameters(), 0.1)]

    def forward(self, x):
        y = self.head(x)
        return walked(y) + self.decay(y)

    def decay(self, y):
        for parameters, rate in self.decayed:
            for parameter in parameters:  # BAD
                y = y + rate * parameter.square().sum()
        return y


def walked(y):
    for each in ROUNDS:  # BAD
        y = y * each
    return y
"""
        ),
        Sample(
            """
import itertools


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.turns = itertools.cycle([1.0, 2.0])

    def forward(self, x):
        return x * next(self.turns)  # BAD
"""
        ),
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
        self.places = range(2)

    def forward(self, x):
        y = x * 2
        for name in self.names:
            y = y + len(name)
        for place in self.places:
            y = y + place
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
