"""A `while` loop depends on the value of a tensor.

## What it does
Finds `while` statements whose condition is a tensor, or requires the truth value of one.

## Why it hurts torch.compile
The number of iterations depends on data that Dynamo does not have while tracing. It ends the graph at the
condition in every iteration. For most forms of the loop, it skips the whole function, which then runs
eagerly.

## Use instead
Run a fixed number of iterations and freeze finished items with a mask (`torch.where(done, old, new)`). If the
body is pure, use `torch.while_loop`. Otherwise, keep the loop outside of the compiled region and compile its
body.

## Limits
Loops that count Python numbers or sizes are unrolled while tracing and are not reported.
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
    if fact.kind == "while" and tensor_of(fact.value):
        return Claim("`while` on the value of a tensor: Dynamo cannot know the number of iterations")
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._truths import rewrite_while

    return rewrite_while(place)


RULE = Rule(
    code="TCR102",
    name="data-dependent-while",
    effect="graph_break",
    level="error",
    gb_ids=("GB0170", "GB7000"),
    facts=(Test,),
    check=check,
    rewrite=rewrite,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x.abs() + 1
        while y.sum() > 1:  # BAD
            y = y * 0.5
        return y
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x.abs()
        while (y > 0.5).any() and self.training is False:  # BAD
            y = y * 0.5
        return y
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x.abs() + 1
        for _ in range(12):
            y = torch.where(y.sum() > 1, y * 0.5, y)
        return y
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        rounds = 0
        while rounds < x.shape[0]:
            x = x * 0.5
            rounds += 1
        return x
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        steps = [1, 2, 3]
        while steps:
            x = x * steps.pop()
        while True:
            x = x + 1
            break
        return x
"""
        ),
    ),
)
