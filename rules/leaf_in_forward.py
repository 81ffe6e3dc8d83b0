"""A tensor that requires a gradient is created in the forward.

## What it does
Finds `torch.tensor`, `torch.zeros`, `torch.randn` and other functions that create a tensor, if they are
called with `requires_grad=True` in code that the compiled forward reaches.

## Why it hurts torch.compile
Leaf tensors of autograd can only be inputs of a graph; a graph cannot create them. It ends at the call.

## Use instead
Remove `requires_grad`: what is computed from the tensor and parameters has a gradient anyway. If the tensor
is an initial value to be trained, make it a parameter in `__init__`.

## Limits
`x.new_zeros(..., requires_grad=True)` and similar methods are traced and not reported; `x.new_tensor` is
reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.engine.facts import Call
from tcready.static.engine.values import Const, Tensor, likely
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located


def check(fact: Call) -> Claim | None:
    module, _, name = fact.constructed.rpartition(".")
    made = module == "torch" or (isinstance(fact.receiver, Tensor) and fact.method == "new_tensor")
    asked = fact.keyword("requires_grad")
    if not made or asked is None or likely(asked) != Const(True):
        return None
    return Claim(
        f"`{fact.method or name}` with `requires_grad=True` in compiled code: the graph ends here",
        confidence=None if asked == Const(True) else "medium",
    )


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._state import plain_leaf

    return plain_leaf(place)


RULE = Rule(
    code="TCR325",
    name="leaf-in-forward",
    effect="graph_break",
    level="error",
    gb_ids=("GB0225",),
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
        loss = torch.tensor(0.0, requires_grad=True)  # BAD
        return y + loss
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        options = {"dtype": x.dtype, "requires_grad": True}
        noise = torch.zeros_like(y, **options)  # BAD
        start = y.new_tensor([1.0], requires_grad=True)  # BAD
        return y + noise + start
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = torch.zeros(8, requires_grad=True)

    def forward(self, x, learnt=False):
        y = x * 2
        loss = torch.zeros(1, device=x.device) + torch.zeros(1, requires_grad=False)
        loss = loss + torch.ones(1, requires_grad=learnt) + torch.ones(1, requires_grad=x.requires_grad)
        loss = loss + y.new_zeros(1, requires_grad=True)
        return y + loss + self.start
"""
        ),
    ),
)
