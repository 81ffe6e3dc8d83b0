"""`.item()` reads a number from a tensor.

## What it does
Finds `.item()` on a tensor, regardless of how the number is used.

## Why it hurts torch.compile
Python needs the number, so Dynamo ends the graph, waits for the value and starts a new graph after it. A
Python number that is used in the next graph is guarded: another value can cause a recompilation. On a GPU,
each read also waits for the device.

## Use instead
Keep the value in a tensor: a 0-d tensor works in arithmetic, `torch.where` and indexing. Add `.detach()` if
gradients matter, because `.item()` does not propagate any. Log and convert outside of the compiled region.
For a branch on the number, see TCR101. If the number is only a size, a bound of a slice or a factor,
`torch._dynamo.config.capture_scalar_outputs = True` keeps it in the graph.

## Limits
With `fullgraph=True`, Dynamo captures scalars by itself, so this line may compile there. Values are not
reported if the source does not show that they are tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.rules._names import method_of_tensor
from tcready.static.engine.facts import Call
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located


def check(fact: Call) -> Claim | None:
    if method_of_tensor(fact, "item"):
        message = "`.item()` reads a number from a tensor: the graph ends here"
        return Claim(message, unless="capture_scalar_outputs")
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._numbers import keep_tensor
    from tcready.rules._sorts import rewrite_sorted
    from tcready.rules._tests import written_anew

    if found := [*rewrite_sorted(place)]:
        yield from found
        return
    yield from written_anew(place)
    yield from keep_tensor(place)


RULE = Rule(
    code="TCR201",
    name="tensor-item",
    effect="graph_break",
    level="error",
    gb_ids=("GB0124",),
    settings=("capture_scalar_outputs",),
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
        peak = y.max().item()  # BAD
        return y / peak
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, lengths):
        y = x * 2
        longest = lengths.max().item()  # BAD
        return y[:, :longest]
""",
            inputs="(torch.randn(4, 8), torch.tensor([2, 5, 3, 4]))",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        if y.sum().item() > 0:  # BAD
            y = y + 1
        return y
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        peak = y.max()
        return y / peak
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        sizes = {"rows": x.shape[0], "columns": x.size(1)}
        total = sum(size for _, size in sizes.items())
        return y * total + x.numel() + x.dim() + len(x) + x.stride(0)
"""
        ),
    ),
)
