"""`nonzero`, `argwhere`, `masked_select` or one-argument `where` selects by value.

## What it does
Finds `nonzero`, `argwhere`, `masked_select` and `torch.where(condition)` without the two alternatives, and
the same functions of numpy.

## Why it hurts torch.compile
The number of selected items depends on the values. The size of the result is unknown while tracing, so the
graph ends here.

## Use instead
`torch.where(condition, a, b)`, `masked_fill` or multiplication by the mask. If a bound is known, use
`torch.nonzero_static(x, size=n)` or `torch.topk`.

## Limits
Under `fullgraph=True`, Dynamo captures such operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.rules._names import SELECTING, operands
from tcready.static.engine.facts import Call
from tcready.static.engine.knowledge import ARRAY
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located


def check(fact: Call) -> Claim | None:
    one = operands(fact, "where") is None or len(fact.args) + len(fact.keywords) == 1
    of_array = one and ((fact.name or "").startswith("numpy.") or fact.receiver == ARRAY)
    if (fact.reads == "size" or of_array) and operands(fact, *SELECTING) is not None:
        message = "selects items by value: the size of the result depends on the data"
        return Claim(message, unless="capture_dynamic_output_shape_ops")
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._masks import masked_select
    from tcready.rules._places import over_places
    from tcready.rules._truths import rewrite_nonzero_count

    if found := [*over_places(place)]:
        yield from found
        return
    yield from rewrite_nonzero_count(place)
    yield from masked_select(place)


RULE = Rule(
    code="TCR205",
    name="data-dependent-selection",
    effect="graph_break",
    level="error",
    gb_ids=("GB0036",),
    settings=("capture_dynamic_output_shape_ops",),
    facts=(Call,),
    check=check,
    rewrite=rewrite,
    page=__doc__,
    bad=(
        Sample(
            """
import numpy as np

class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        rows = np.flatnonzero(y.numpy() > 0)  # BAD
        return y + torch.from_numpy(rows).sum()
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        rows = torch.nonzero(y.sum(1) > 0)  # BAD
        return y + rows.sum()
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        a = y.nonzero(as_tuple=True)  # BAD
        b = torch.where(y > 0)  # BAD
        c = torch.argwhere(y)  # BAD
        d = y.masked_select(y > 0)  # BAD
        return y + len(a) + len(b) + c.sum() + d.sum()
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        rows = (y.sum(1) > 0) * torch.arange(y.shape[0])
        return y + rows.sum()
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        a = torch.where(y > 0, y, 0)
        b = y.where(y > 0, x)
        c = torch.count_nonzero(y)
        d = torch.nonzero_static(y, size=4)
        values, index = y.topk(2)
        return a + b + c + d.sum() + values.sum() + y.argmax() + index.sum()
"""
        ),
    ),
)
