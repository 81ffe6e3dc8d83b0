"""`.tolist()` converts a tensor to Python numbers.

## What it does
Finds `.tolist()` on a tensor, regardless of how the list is used.

## Why it hurts torch.compile
Python needs all values before the next line can be traced. The graph ends here, and each number becomes a
guard on the next graph.

## Use instead
Keep the tensor: index with it, or call `torch.split` with sizes that are known in advance. Or pass the list
as an argument, in addition to the tensor.

## Limits
A float tensor breaks the graph under every setting. An integer tensor does not break it with
`capture_scalar_outputs` (so neither under `fullgraph=True`).
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
    if method_of_tensor(fact, "tolist"):
        return Claim("`.tolist()` reads a tensor back to Python: the graph ends here")
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._numbers import keep_tensors
    from tcready.rules._parts import padded_parts
    from tcready.rules._places import over_places

    if found := [*over_places(place)]:
        yield from found
        return
    yield from padded_parts(place)
    yield from keep_tensors(place)


RULE = Rule(
    code="TCR202",
    name="tensor-tolist",
    effect="graph_break",
    level="error",
    gb_ids=("GB0109", "GB0033"),
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
        rows = y.sum(1).tolist()  # BAD
        return y + rows[0]
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, lengths):
        y = x * 2
        parts = y.split(lengths.tolist())  # BAD
        return torch.cat([part.mean(0) for part in parts])
""",
            inputs="(torch.randn(4, 8), torch.tensor([1, 3]))",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        rows = y.sum(1)
        return y + rows[0]
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        shape = list(x.shape)
        parts = x.split([1, 3])
        return torch.cat([part.mean(0) for part in parts]) + torch.tensor([1.0, 2.0]).sum() + shape[0]
"""
        ),
    ),
)
