"""An expression without an `if` statement requires the truth value of a tensor.

## What it does
Finds expressions that need the truth value of a tensor without an `if` statement: the `if` of a
comprehension; a chained comparison such as `0 < t < 1`; `value in tensor`; Python's `any`, `all` and sorting
over tensors (also `sorted(named.items())`), modules and objects; `max` and `min` with a key that returns a
tensor (until torch 2.13 with any key, over tensors); and comparisons of, and searches in, tuples or lists
that contain tensors.

## Why it hurts torch.compile
Each of these branches on data that Dynamo does not have while tracing, so it ends the graph there. After a
generator expression, the whole function runs eagerly.

## Use instead
Apply `torch.where` or multiply by a mask, instead of dropping items. Use `(t > 0) & (t < 1)` for a chained
comparison, and `tensor.any()`, `tensor.all()` and `torch.sort` for Python's functions. To sort tensors,
modules or objects, pass a `key` that returns names or numbers.

## Limits
Filters over Python values and `x in names` are evaluated while tracing. `tensor in [tensors]` by itself stays
in the graph; an `if` on its result is reported separately. `filter` by a tensor and `match` on a tensor are
not recognized.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.engine.facts import Call, Contains, Extremum, Test
from tcready.static.engine.values import Sequence, Value, members_of, options, tensor_of
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located

WORDS = {
    "comprehension": "the `if` of a comprehension",
    "filter": "`filter`",
    "compare": "a comparison chain",
    "match": "`match`",
    "members": "an element-wise comparison of containers",
    "order": "sorting",
    "order of parts": "sorting",
}


def check(fact: Test | Call | Contains | Extremum) -> Claim | None:
    if isinstance(fact, Extremum):
        return Claim("Python's `max` or `min` with a key, over tensors: Dynamo does not trace it", form="key")
    if isinstance(fact, Contains):
        if tensor_of(fact.container):
            return Claim(
                "`in` needs a Python bool from a tensor: the function runs eagerly", effect="frame_skip"
            )
        return None
    if isinstance(fact, Test):
        sorts = fact.kind in ("order", "order of parts")
        form = fact.kind if fact.kind == "order of parts" else ""
        if sorts and not tensor_of(fact.value):
            message = "sorting by objects or modules: Dynamo sorts only by Python constants"
            return Claim(message, form="sorting by objects")
        if fact.kind in WORDS and tensor_of(fact.value):
            return Claim(
                f"{WORDS[fact.kind]} needs the truth value of a tensor, which Dynamo does not know", form=form
            )
        return None
    name = fact.constructed
    if name in ("any", "all") and fact.args and walks_tensors(fact.args[0]):
        return Claim(
            f"Python's `{name}` needs the truth values of tensors: a branch that Dynamo cannot decide"
        )
    return None


def walks_tensors(value: Value) -> bool:
    """A tensor, or a list, tuple or iterator with a tensor among its members."""
    return tensor_of(value) is not None or any(
        isinstance(v, Sequence) and any(tensor_of(m) for m in members_of(v)) for v in options(value)
    )


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._tests import written_anew
    from tcready.rules._truths import rewrite_decisions

    yield from written_anew(place)
    yield from rewrite_decisions(place)


RULE = Rule(
    code="TCR105",
    name="data-dependent-choice",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0170",
        "GB8335",
        "GB0207",
        "GB0193",
        "GB6622",
        "GB0033",
        "GB0124",
        "GB5687",
    ),
    facts=(
        Test,
        Call,
        Contains,
        Extremum,
    ),
    check=check,
    rewrite=rewrite,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        rows = [row for row in y.unbind() if row.sum() > 0]  # BAD
        return y + len(rows)
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        inside = 0 < y.sum() < 5  # BAD
        return y + inside
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        some = any(y.sum(1) > 0)  # BAD
        every = all([y.sum() > 0, y.mean() > 0])  # BAD
        return y + some + every
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        inside = 1.0 in y  # BAD
        return y + inside
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        ordered = sorted([y.sum(), y.mean()])  # BAD
        return y + ordered[0]
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        rows = list(y.sum(1).unbind())
        rows.sort(key=lambda row: -row)  # BAD
        largest = max(rows, key=lambda row: row.abs())  # BAD
        return y + rows[0] + largest
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        rows = list(y.sum(1).unbind())
        place = rows.index(rows[2])  # BAD
        changed = (y.sum(), y.max()) != (x.sum(), x.max())  # BAD
        return y * place + changed
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        named = {"shift": y.sum(), "scale": y.mean()}
        for name, value in sorted(named.items()):  # BAD
            y = y + value
        return y
"""
        ),
        Sample(
            """
class Part:
    def __init__(self, weight):
        self.weight = weight

    def __lt__(self, other):
        return self.weight < other.weight


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = [Part(2), Part(1)]

    def forward(self, x):
        y = x * 2
        return y * sorted(self.parts)[0].weight  # BAD
"""
        ),
        Sample(
            """
def longest(rows):
    return max(rows, key=len)  # BAD


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        last = min([(y, 2), (x, 1)], key=lambda pair: pair[1])[0]  # BAD
        return longest([y, last])
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        rows = (y.sum(1) > 0).sum()
        return y + rows + [x, y].index(x)
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        inside = (0 < y.sum()) & (y.sum() < 5)
        some = (y.sum(1) > 0).any()
        every = torch.stack([y.sum() > 0, y.mean() > 0]).all()
        ordered = torch.stack([y.sum(), y.mean()]).sort().values
        ordered = ordered + sorted([y, x], key=lambda row: row.dim())[0].sum()
        named = {"b": y, "a": x}
        ordered = ordered + sorted(named.items(), key=lambda pair: pair[0])[0][1].sum()
        ordered = ordered + len(sorted(named)) + len(sorted({"b": 1, "a": None}.items()))
        return y + inside + some + every + ordered[0]
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        parts = [part for part in (x, y, None) if part is not None]
        wide = any(part.shape[0] > 1 for part in parts)
        known = all(isinstance(part, torch.Tensor) for part in parts)
        sizes = sorted([3, 1, 2])
        big = 0 < x.shape[0] < 100
        named = "a" in ["a", "b"]
        top = max(y.sum(), y.mean())
        return sum(parts) * wide * known * sizes[0] * big * named + top
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        match x.dim():
            case 2:
                return x * 2
            case _:
                return x * 3
"""
        ),
    ),
)
