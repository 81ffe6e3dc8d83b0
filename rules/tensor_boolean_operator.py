"""`and`, `or` or `not` requires the truth value of a tensor.

## What it does
Finds `and`, `or` and `not` with a tensor operand, outside of the condition of an `if` or `while` (TCR101 and
TCR102 report those). Also finds an `assert` of a tensor that is negated or whose message is computed
(`f"..."`).

## Why it hurts torch.compile
Python's boolean operators select an operand by its truth value, so each is a hidden branch: Dynamo ends the
graph. For `not` on a number that it just read, it skips the whole function. Of assertions, Dynamo captures
only `assert t` and `assert t, "text"` in the graph.

## Use instead
`&`, `|`, `~` or `torch.logical_and` and related functions, which stay in the graph. If `or` was meant to
replace None, use `mask if mask is not None else default`.

## Limits
`x is None`, flags and sizes are evaluated while tracing. The last operand in an `assert` becomes part of the
graph; the operands before it break the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.engine.facts import Test
from tcready.static.engine.values import tensor_of
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located


def check(fact: Test) -> Claim | None:
    if fact.kind == "assertion" and tensor_of(fact.value):
        return Claim(
            "`assert` of a negated tensor, or with a computed message: a branch that Dynamo cannot decide"
        )
    if fact.kind in ("and", "or", "not") and tensor_of(fact.value):
        return Claim(f"`{fact.kind}` needs the truth value of a tensor: a branch that Dynamo cannot decide")
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._guards import rewrite_assert
    from tcready.rules._truths import rewrite_operators

    yield from rewrite_assert(place)
    yield from rewrite_operators(place)


RULE = Rule(
    code="TCR103",
    name="tensor-boolean-operator",
    effect="graph_break",
    level="error",
    gb_ids=("GB0170", "GB0033"),
    facts=(Test,),
    check=check,
    rewrite=rewrite,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        assert not torch.isnan(y).any()  # BAD
        y = y + 1
        assert torch.isfinite(y).all(), f"odd values in {tuple(y.shape)}"  # BAD
        return y * 2
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        assert y.isnan().sum() == 0 and y.sum() < 1e9, "odd values"  # BAD
        return y + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        found = (y.sum() > 0) and (y.mean() > 0)  # BAD
        return y + found
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        scale = y.sum() or 1.0  # BAD
        return y * scale
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        empty = not y.any()  # BAD
        return y + empty
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        found = (y.sum() > 0) & (y.mean() > 0)
        return y + found
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, mask=None):
        known = mask is not None and mask.dim() > 1
        wide = x.shape[0] > 1 and not self.training
        bias = mask if mask is not None else torch.zeros(8)
        return x * known + bias * wide
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        names = [] or ["a"]
        found = torch.logical_not(torch.logical_or(y > 0, ~(y < 0)))
        return torch.where(found, y, x) + len(names)
"""
        ),
    ),
)
