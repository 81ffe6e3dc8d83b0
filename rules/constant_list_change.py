"""A list that a method of `str` returned is changed in place.

## What it does
Finds `append`, `pop`, `sort` and the other methods that change a list, and assignments to its items, if the
list is the result of `split`, `rsplit` or `splitlines` of a string in the same call.

## Why it hurts torch.compile
Dynamo evaluates such a method while tracing and treats the list as a constant, which it cannot change. The
graph ends here.

## Use instead
A new list: `list(text.split(","))` or a comprehension over the result. Preferably, split the string in
`__init__`.

## Limits
If a list is the result of such a method on one path and another list on another path, it is not reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.engine.facts import Call, Index
from tcready.static.engine.values import Sequence, Value, likely, options
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located

CHANGING = frozenset("append extend insert pop remove clear sort reverse".split())


def check(fact: Call | Index) -> Claim | None:
    if isinstance(fact, Index):
        if fact.mode != "load" and _is_constant(fact.base):
            return Claim("an item of a list that a method of `str` returned is assigned: the graph ends here")
        return None
    if fact.method in CHANGING and fact.receiver is not None and _is_constant(fact.receiver):
        return Claim(f"`{fact.method}` on a list that a method of `str` returned: the graph ends here")
    return None


def _is_constant(value: Value) -> bool:
    return all(isinstance(v, Sequence) and v.constant and v.kind == "list" for v in options(likely(value)))


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._state import own_list

    return own_list(place)


RULE = Rule(
    code="TCR324",
    name="constant-list-change",
    effect="graph_break",
    level="error",
    gb_ids=("GB0156", "GB7786"),
    facts=(Call, Index),
    check=check,
    rewrite=rewrite,
    may_autofix=True,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        parts = "rows,columns,rest".split(",")
        last = parts.pop()  # BAD
        return y + len(parts) + len(last)
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.equation = "...i,ij"

    def forward(self, x):
        y = x * 2
        parts = self.equation.split(",")
        parts[0] = parts[0].replace("...", "a")  # BAD
        return y + len(",".join(parts))
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = "rows,columns,rest".split(",")

    def forward(self, x):
        y = x * 2
        own = [part for part in "a b".split(" ")]
        own.append("c")
        other = list("a b".split())
        other[0] = "d"
        more = "a b".split()
        more += ["c"]
        longer = "a b".split() + ["c"]
        longer.sort()
        parts = list(self.parts)
        parts.reverse()
        return y + len(own) + len(other) + len(more) + len(longer) + len(parts)
"""
        ),
    ),
)
