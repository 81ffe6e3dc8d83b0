"""An attribute that holds an `nn.Buffer` is assigned the same buffer again in the forward.

## What it does
Finds `self.table = self.table.to(dtype)` and similar assignments if the attribute was created with
`nn.Buffer(...)`: a conversion that may return the buffer itself, or an in-place operation. Also finds
`nn.Buffer(...)` assigned in the forward.

## Why it hurts torch.compile
Such an assignment goes through `nn.Module.__setattr__`, which checks the type of the new value in a way that
Dynamo does not trace. The graph ends here.

## Use instead
`self.table.copy_(new)`; `register_buffer` in `__init__`, because such buffers may be replaced; or a local
variable if nothing must be stored.

## Limits
A conversion that does convert returns a plain tensor, and assigning that is traced. The source does not show
which of the two happens.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tcready.static.engine.facts import Store
from tcready.static.engine.values import Tensor, options, tensor_of
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located

CONVERSIONS = frozenset("to float type type_as contiguous cpu cuda".split())
"""Methods that give back the tensor itself if there is nothing to convert."""


def check(fact: Store) -> Claim | None:
    if fact.kind != "attribute" or not fact.own_module:
        return None
    if any(isinstance(v, Tensor) and v.buffer for v in options(fact.value)) and fact.source is not None:
        if isinstance(fact.source, ast.Call) and not fact.where.symbol.endswith(".__init__"):
            return Claim(f"`{fact.name}` is assigned an nn.Buffer in the forward: the graph ends here")
    was_buffer = fact.old is not None and any(isinstance(v, Tensor) and v.buffer for v in options(fact.old))
    if not was_buffer or not tensor_of(fact.value):
        return None
    if isinstance(fact.node, ast.Attribute) and _gives_itself(fact.source, fact.node):
        return Claim(
            f"`{fact.name}` holds an nn.Buffer and is assigned the same buffer again: the graph ends here"
        )
    return None


def _gives_itself(source: ast.expr | None, target: ast.Attribute) -> bool:
    """`self.table.to(dtype)`, `self.table.add_(1)`."""
    if not isinstance(source, ast.Call) or not isinstance(source.func, ast.Attribute):
        return False
    name = source.func.attr
    if name not in CONVERSIONS and not (name.endswith("_") and not name.startswith("_")):
        return False
    return name != "requires_grad_" and ast.unparse(source.func.value) == ast.unparse(target)


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._state import keep_buffer

    return keep_buffer(place)


RULE = Rule(
    code="TCR323",
    name="buffer-replaced",
    effect="graph_break",
    level="error",
    gb_ids=("GB4841", "GB0170"),
    facts=(Store,),
    check=check,
    rewrite=rewrite,
    may_autofix=True,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Buffer(torch.ones(8))
        self.count = nn.Buffer(torch.zeros(8))

    def forward(self, x):
        y = x * 2
        self.table = self.table.to(y.dtype)  # BAD
        self.count = self.count.add_(1)  # BAD
        return y + self.table + self.count
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Buffer(torch.ones(8))
        self.register_buffer("count", torch.zeros(8))

    def forward(self, x):
        y = x * 2
        self.table.copy_(y[0])
        self.table = self.table * 2
        self.count = self.count.to(y.dtype)
        return y + self.table + self.count
"""
        ),
    ),
)
