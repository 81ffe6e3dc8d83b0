"""`torch.equal`, `allclose` or `is_nonzero` computes a Python bool from the values of a tensor.

## What it does
Finds `torch.equal`, `torch.allclose` and `torch.is_nonzero`, as functions or methods, and `torch._assert` of
a tensor.

## Why it hurts torch.compile
They return a Python bool that depends on data, so the graph ends at the call, even if no branch uses the
result.

## Use instead
`(a == b).all()` or `torch.isclose(a, b).all()`, whose results are tensors. Move checks out of the compiled
region, or write them as an `assert` of a tensor, which is captured.

## Limits
Comparing shapes, dtypes and devices is harmless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.engine.facts import Call
from tcready.static.engine.values import tensor_of
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located


def check(fact: Call) -> Claim | None:
    asserted = fact.name == "torch._assert" and bool(fact.args) and tensor_of(fact.args[0]) is not None
    if asserted or (fact.reads == "number" and fact.method != "item"):
        message = "needs a Python bool from the values of a tensor: the graph ends here"
        return Claim(message, form="torch._assert" if asserted else "")
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._tests import written_anew
    from tcready.rules._truths import rewrite_equality

    yield from written_anew(place)
    yield from rewrite_equality(place)


RULE = Rule(
    code="TCR208",
    name="tensor-equality-as-bool",
    effect="graph_break",
    level="error",
    gb_ids=("GB0033",),
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
        same = torch.equal(x, y)  # BAD
        return y + same
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        a = x.allclose(y)  # BAD
        b = torch.is_nonzero(y.sum())  # BAD
        torch._assert(y.sum() != 0, "zero")  # BAD
        return y + a + b
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        same = (x == y).all()
        return y + same
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        close = torch.isclose(x, y).all()
        assert torch.isfinite(y).all()
        assert x.shape == y.shape
        kind = (x.dtype == y.dtype) + torch.is_tensor(y) + torch.is_floating_point(y)
        return y + close + torch.eq(x, y) + kind
"""
        ),
    ),
)
