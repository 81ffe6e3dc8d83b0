"""An `if` statement depends on the value of a tensor.

## What it does
Finds `if` statements whose condition is a tensor, or requires the truth value of one.

## Why it hurts torch.compile
Dynamo traces one path and does not know the value of the tensor. It ends the graph at the `if`, reads the
value back to Python and starts a new graph after it. If the statement is inside a loop, a `try` or a `with`
block, the whole function runs eagerly instead.

## Use instead
Compute both branches and select with `torch.where`, or use `torch.cond` if both branches are expensive. If
the condition is only a check, use an `assert`. Otherwise, move the decision out of the compiled region.

## Limits
A parameter without an annotation is assumed to be a tensor, with medium confidence. Conditions on shapes,
dtypes, devices, `None` and configuration are evaluated while tracing and are not reported.
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
    if fact.kind == "if" and tensor_of(fact.value):
        return Claim("`if` on the value of a tensor: Dynamo cannot know which branch runs")
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._tests import written_anew

    return written_anew(place)


RULE = Rule(
    code="TCR101",
    name="data-dependent-if",
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
        if y.sum() > 0:  # BAD
            return y + 1
        return y - 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.limit = True

    def forward(self, x, mask):
        y = x * 2
        if (y > 100).any() and self.limit:  # BAD
            y = y.clamp(max=100)
        if not mask.all():  # BAD
            y = y * mask[:, None]
        return y + 1
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
        return torch.where(y.sum() > 0, y + 1, y - 1)
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, mask=None, *, scale=None):
        if self.training:
            x = F.dropout(x)
        if mask is None:
            mask = torch.ones(8)
        if scale is not None and scale != 1:
            x = x * scale
        if x.shape[0] > 1 and x.dim() == 2 and x.size(-1) % 2 == 0:
            x = x + 1
        if x.dtype == torch.float16 or x.device.type == "meta" or x.is_cuda or x.requires_grad:
            x = x.float()
        if isinstance(x, tuple) or not torch.is_tensor(x):
            x = x[0]
        if x.numel() == 0 or len(x) == 0:
            return x
        return x * mask
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.keep = {0, 2}
        self.head = None

    def forward(self, x):
        for index, layer in enumerate(self.layers):
            if index in self.keep and hasattr(layer, "weight"):
                x = layer(x)
        if self.head:
            x = self.head(x)
        if not torch.jit.is_scripting() and torch.is_grad_enabled():
            x = x + 1
        return x
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = None

    def forward(self, x):
        assert torch.isfinite(x).all()
        assert x.shape[0] == 4, "four rows"
        if x is self.last or x.shape == (1, 8):
            return x
        return x * 2
"""
        ),
    ),
)
