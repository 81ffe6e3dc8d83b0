"""A tensor indexes a Python list, or is a bound of a slice.

## What it does
Finds a list, tuple or ModuleList that is indexed by a tensor; slices with a tensor as a bound; and a tensor
that is indexed by a one-integer tensor that compiled code computed (`x[scores.argmax()]`).

## Why it hurts torch.compile
Python needs the number, so it is read from the tensor (`Tensor.__index__`), and the graph ends there. At a
slice, Dynamo skips the whole function, which then runs eagerly. Torch treats a 0-d index tensor as such a
number and reads it too. If the tensor is an argument of the compiled function, its value is known.

## Use instead
`torch.stack(items)[index]` or `index_select`. For a slice, use a mask over the full length, or a bound that
is a size. For experts in a ModuleList, compute with stacked weights.

## Limits
A tensor that is indexed by a 1-d tensor of integers is harmless. The number of dimensions is unknown for many
tensors. Under `fullgraph=True`, a list and a slice are captured if the number stays symbolic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.engine.facts import Index
from tcready.static.engine.values import (
    ExternalInstance,
    Sequence,
    Tensor,
    Value,
    is_place,
    options,
    tensor_of,
)
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located


def check(fact: Index) -> Claim | None:
    if any(tensor_of(bound) for bound in fact.slices):
        return Claim(
            "slice with a tensor as a bound: its value is read, the function runs eagerly",
            effect="frame_skip",
        )
    if isinstance(fact.base, Tensor) and any(map(is_place, fact.parts)):
        return Claim("index by one computed number: its value has to be read back", "medium")
    if tensor_of(fact.index) and any(python_list(v) for v in options(fact.base)):
        message = "Python list indexed by a tensor: its value has to be read back"
        return Claim(message, suppressed_by_config="capture_scalar_outputs")
    return None


def python_list(value: Value) -> bool:
    if isinstance(value, ExternalInstance):
        return value.name in ("torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ParameterList")
    return isinstance(value, Sequence) and value.kind in ("list", "tuple")


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._numbers import index_numbers

    return index_numbers(place)


RULE = Rule(
    code="TCR207",
    name="index-by-tensor",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0033",
        "GB0124",
    ),
    settings=("capture_scalar_outputs",),
    facts=(Index,),
    check=check,
    rewrite=rewrite,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, choice):
        y = x * 2
        scales = [1.0, 2.0, 3.0]
        return y * scales[choice]  # BAD
""",
            inputs="(torch.randn(4, 8), torch.tensor(2))",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, length: torch.Tensor):
        y = x * 2
        return y[:, :length] + 1  # BAD
""",
            inputs="(torch.randn(4, 8), torch.tensor(2))",
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])

    def forward(self, x, choice):
        y = x * 2
        return self.experts[choice](y)  # BAD
""",
            inputs="(torch.randn(4, 8), torch.tensor(2))",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        best = y.sum(1).argmax()
        return y[best] + 1  # BAD
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        highest, _ = y.flatten(1).max(0)
        return y[highest.argsort()[0]] + 1  # BAD
""",
            inputs="(torch.randn(9, 2, 4),)",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, choice):
        y = x * 2
        scales = torch.tensor([1.0, 2.0, 3.0])
        return y * scales[choice]
""",
            inputs="(torch.randn(4, 8), torch.tensor(2))",
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])

    def forward(self, x, choice):
        y = x * 2
        table = {"a": 1.0}
        names = ["a"]
        half = y[: x.shape[0] // 2].sum()
        return y[choice] + y[:, choice].sum() + table[names[0]] + half + self.experts[0](y)
""",
            inputs="(torch.randn(4, 8), torch.tensor(2))",
        ),
    ),
)
