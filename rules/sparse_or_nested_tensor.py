"""A sparse or nested tensor is made in compiled code.

## What it does
Finds `to_sparse`, `torch.sparse_coo_tensor` and `torch.nested.nested_tensor` reached from the compiled
forward.

## Why it hurts torch.compile
Dynamo has no stand-in without data for these layouts: it ends the graph where one is made, and what is
computed with it runs eagerly.

## Use instead
Dense tensors and a mask; `torch.nn.attention.flex_attention` for ragged attention; keep sparse products
outside of the compiled region.

## Limits
Jagged nested tensors that come in as arguments are not reported.
"""

from tcready.rules._names import constructed, method_of_tensor
from tcready.static.engine.facts import Call
from tcready.static.rule import Claim, Rule, Sample

NAMES = frozenset({"torch.sparse_coo_tensor", "torch.nested.nested_tensor", "torch.nested.as_nested_tensor"})


def check(fact: Call) -> Claim | None:
    name = constructed(fact)
    if name in NAMES or method_of_tensor(fact, "to_sparse"):
        return Claim("a sparse or nested tensor is made: the graph ends here")
    return None


RULE = Rule(
    code="TCR211",
    name="sparse-or-nested-tensor",
    effect="graph_break",
    level="error",
    gb_ids=("GB0277", "GB0015", "GB0090", "GB0016", "GB0007"),
    facts=(Call,),
    check=check,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        weight = y.to_sparse()  # BAD
        return y + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        rows = torch.nested.nested_tensor([y[0], y[1]])  # BAD
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
        weight = y * (y > 0)
        return y + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = torch.stack([x[0], x[1]]).to_dense()
        return y.to(torch.float32)
"""
        ),
    ),
)
