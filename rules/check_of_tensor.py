"""A tensor is checked with `torch._check_tensor_all`, which reads its values.

## What it does
Finds `torch._check_tensor_all(condition)` and `torch._check_tensor_all_with(error, condition)`.

## Why it hurts torch.compile
The check needs a Python bool: whether every element is true. That reads the tensor, so the graph ends at the
call, and the code around the call runs in two graphs.

## Use instead
`torch._assert_async(condition.all())`, or a plain `assert condition.all()`. Dynamo turns both into an
assertion inside the graph. `torch._check` is for sizes and other Python values.

## Limits
`torch._check` rejects a tensor in eager mode too, so it is not reported here. On a GPU, a failed
`torch._assert_async` is a device-side assertion: after it, no CUDA call of the process works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.engine.facts import Call
from tcready.static.engine.values import tensor_of
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located

NAMES = frozenset({"torch._check_tensor_all", "torch._check_tensor_all_with"})


def check(fact: Call) -> Claim | None:
    if fact.name in NAMES and any(tensor_of(arg) for arg in fact.args):
        return Claim(f"`{fact.name}` reads the tensor it checks: the graph ends here")
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._truths import rewrite_check

    return rewrite_check(place)


RULE = Rule(
    code="TCR212",
    name="check-of-tensor",
    effect="graph_break",
    level="error",
    gb_ids=("GB0124",),
    facts=(Call,),
    check=check,
    rewrite=rewrite,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        torch._check_tensor_all(y < 100)  # BAD
        return y + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        torch._check_tensor_all_with(ValueError, y < 100)  # BAD
        return y + 1
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        assert (y < 100).all()
        torch._assert_async((y < 100).all())
        torch._check(x.shape[0] > 1)
        return y + 1
"""
        ),
    ),
)
