"""`int`, `float`, `bool`, `complex` or a `math` function is called with a tensor.

## What it does
Finds `int(t)`, `float(t)`, `bool(t)`, `complex(t)` and functions of `math` that are called with a tensor.

## Why it hurts torch.compile
The call reads the value of the tensor back to Python. The graph ends at the call, and the number becomes a
guard on the next graph.

## Use instead
To change the dtype, use `t.long()`, `t.float()` or `t.bool()`. Replace `math` by `torch.sqrt`, `torch.log`
and related functions. If no number is needed, keep the tensor.

## Limits
Conversions of sizes and Python numbers are harmless, and so is `math.prod` over a tensor. A number that
`.item()` already read is reported there (TCR201).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.engine.facts import Call
from tcready.static.engine.values import tensor_of
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located

CONVERSIONS = frozenset({"int", "float", "bool", "complex"})
HARMLESS = frozenset({"math.prod"})
CAPTURED = frozenset({"int", "float", "bool"})


def check(fact: Call) -> Claim | None:
    name = fact.constructed
    if not (name in CONVERSIONS or (name.startswith("math.") and name not in HARMLESS)):
        return None
    if any(tensor_of(arg) for arg in fact.args):
        message = f"`{name}` reads a tensor's value back to Python: the graph ends here"
        return Claim(message, unless="capture_scalar_outputs" if name in CAPTURED else None)
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
    code="TCR203",
    name="tensor-to-number",
    effect="graph_break",
    level="error",
    gb_ids=("GB0124", "GB0059", "GB0033"),
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
        scale = float(y.abs().max())  # BAD
        return y / scale
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        root = math.sqrt(y.abs().sum())  # BAD
        count = int(y.abs().sum())  # BAD
        some = bool(y.any())  # BAD
        wave = complex(y.sum())  # BAD
        return y * root + count + some + wave
""",
            setup="""
import math
""",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        scale = y.abs().max().float()
        return y / scale
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        rows = float(x.shape[0]) + int(x.shape[1]) + bool(x.shape[0] > 1)
        half = math.sqrt(x.shape[-1]) + math.ceil(x.shape[0] / 2) + math.prod([2, 3])
        return y.float() * rows + torch.sqrt(y.abs().sum()) + float("1.5") + half + abs(y)
""",
            setup="""
import math
""",
        ),
    ),
)
