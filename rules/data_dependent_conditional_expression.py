"""A conditional expression (`a if test else b`) depends on the value of a tensor.

## What it does
Finds `a if test else b` whose condition is a tensor, or requires the truth value of one.

## Why it hurts torch.compile
It is an `if` statement in one line. Dynamo does not know the value of the tensor, so it ends the graph there
and starts a new one after it.

## Use instead
`torch.where(test, a, b)`, which computes both branches in the graph. If both are expensive, use `torch.cond`.

## Limits
Conditions on sizes, dtypes, None and configuration are evaluated while tracing and are not reported.
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
    if fact.kind == "ifexp" and tensor_of(fact.value):
        return Claim(
            "conditional expression on the value of a tensor: Dynamo cannot know which branch is used"
        )
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._branches import choosing_expression

    return choosing_expression(place)


RULE = Rule(
    code="TCR104",
    name="data-dependent-conditional-expression",
    effect="graph_break",
    level="error",
    gb_ids=("GB0170",),
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
        scale = 1.0 if y.sum() > 0 else 0.5  # BAD
        return y * scale
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, mask):
        y = x * 2
        return y if mask.all() else y * mask[:, None]  # BAD
""",
            inputs="(torch.randn(4, 8), torch.tensor([True, False, True, True]))",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        scale = torch.where(y.sum() > 0, 1.0, 0.5)
        return y * scale
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, mask=None):
        y = x if mask is None else x * mask
        y = y * 2 if self.training else y * 3
        y = y + 1 if x.shape[0] > 1 else y
        y = y.float() if x.dtype == torch.float16 else y
        return y[0] if isinstance(x, tuple) else y
"""
        ),
    ),
)
