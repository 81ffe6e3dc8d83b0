"""A property is read through `super().name`, and the result is used.

## What it does
Finds arithmetic, comparisons, indexing and loops with a property that is read through `super().name`, and
calls that receive one. The same applies to dicts and classes that are attributes of a base class.

## Why it hurts torch.compile
Dynamo looks up methods that are called on `super()`, and constants. A property read through `super().name` it
keeps as an unresolved object without a value, so the graph ends where the object is used. Dynamo cannot add
to such an object or loop over it, so in most cases the whole function runs eagerly.

## Use instead
A method in the base class that the property also calls (`super().get_name()`), or the attribute that the
property reads.

## Limits
If the result is only returned, stored or compared with `is`, it is traced and not reported. A test of its
truth value is not reported either, although Dynamo treats it as true.
"""

from tcready.rules._unresolved import claim_of_use
from tcready.static.engine.facts import Unresolved
from tcready.static.engine.knowledge import UNRESOLVED
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Unresolved) -> Claim | None:
    return (
        claim_of_use("a property that was read through `super()`", fact) if fact.value is UNRESOLVED else None
    )


RULE = Rule(
    code="TCR327",
    name="unresolved-super-attribute",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0055",
        "GB0088",
        "GB0006",
        "GB0059",
        "GB0156",
        "GB0682",
        "GB4841",
        "GB4880",
        "GB6215",
    ),
    facts=(Unresolved,),
    check=check,
    no_rewrite="The base class needs a method that the property calls, and it may not be yours.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(Base):
    @property
    def count(self):
        return super().count + 1  # BAD

    def forward(self, x):
        y = x * 2
        return y * self.count
""",
            setup="""
class Base(nn.Module):
    @property
    def count(self):
        return 3
""",
        ),
        Sample(
            """
class Model(Base):
    def forward(self, x):
        y = x * 2
        rows, columns = super().sides  # BAD
        return y.view(rows, columns)
""",
            setup="""
class Base(nn.Module):
    @property
    def sides(self):
        return (8, 4)
""",
        ),
        Sample(
            """
class Model(Base):
    def forward(self, x):
        y = x * 2
        if super().kind == "half":  # BAD
            y = y / 2
        return y + 1
""",
            setup="""
class Base(nn.Module):
    @property
    def kind(self):
        return "half"
""",
        ),
        Sample(
            """
class Model(Base):
    def forward(self, x):
        y = x * 2
        return y * super().factors["wide"]  # BAD
""",
            setup="""
class Base(nn.Module):
    factors = {"wide": 2}
""",
        ),
        Sample(
            """
class Model(Base):
    @property
    def weight(self):
        return super().weight

    def forward(self, x):
        y = x * 2
        return torch.add(y, self.weight)  # BAD
""",
            setup="""
class Base(nn.Module):
    @property
    def weight(self):
        return torch.ones(8)
""",
        ),
    ),
    good=(
        Sample(
            """
class Model(Base):
    def act(self, x):
        act = super().act
        return act(x) * super().scale + super().sizes[0]

    def forward(self, x):
        y = x * 2
        kept = super().count
        if kept is None:
            return y
        return self.act(y) * self.count
""",
            setup="""
class Base(nn.Module):
    scale = 3
    sizes = (1, 2)

    def act(self, x):
        return x + 1

    @property
    def count(self):
        return 3
""",
        ),
    ),
)
