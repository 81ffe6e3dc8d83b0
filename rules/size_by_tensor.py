"""A tensor is used as a size or a number: `torch.zeros(lengths.max())`, `x.clamp(0, x.max())`.

## What it does
Finds factory functions, `view`, `reshape`, `expand`, `repeat`, `narrow`, `split`, `roll` and `F.pad` with a
computed tensor as a size. Also finds any operation with such a tensor as an argument that no overload accepts
as a tensor: `torch.roll(x, shift)`, `x.new_full((2,), fill)`, `torch.add(x, y, alpha=a)`,
`F.one_hot(x, count)`.

## Why it hurts torch.compile
The size, the dimension or the factor must be a number while tracing. The value of the tensor is read, so the
graph ends here.

## Use instead
A size that is known (`x.shape[1]`, a maximum from the configuration) and a mask. Or pass the number as an
argument. Instead of a factor, use arithmetic on tensors: `x + a * y`, `torch.minimum(x.clamp(min=0), top)`.

## Limits
A tensor that is an argument of the compiled function, a parameter or a buffer may be treated as a constant
and guarded by its value, so it is not reported. A one-element tensor that is made from a Python number while
tracing (`torch.tensor(x.shape[1] - 2)`), and what is computed only from such tensors, is not reported either,
because Dynamo keeps its value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.rules._names import sizes
from tcready.static.engine.facts import Call
from tcready.static.engine.values import FLOATING, Value, tensor_of
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located

HARMLESS = frozenset({"torch.full"})
"""Dynamo fills what it made with the tensor."""


def check(fact: Call) -> Claim | None:
    if any(map(read, sizes(fact))):
        return Claim("a tensor is used as a size: its value has to be read, and the graph ends here")
    if fact.constructed not in HARMLESS and any(read(v) or _is_kept_fraction(v) for v in fact.numbers):
        return Claim(
            "a tensor is passed where torch takes a number: its value is read, and the graph ends here"
        )
    return None


def read(value: Value) -> bool:
    """Whether it is a computed tensor whose value Dynamo does not keep."""
    tensor = tensor_of(value)
    return tensor is not None and not (tensor.leaf or tensor.graph_input or tensor.from_python_scalar)


def _is_kept_fraction(value: Value) -> bool:
    """A buffer of fractions: these are read, where a whole number of before the call comes in with its value."""
    tensor = tensor_of(value)
    return tensor is not None and tensor.leaf and not tensor.parameter and tensor.dtype in FLOATING


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._numbers import without_number

    return without_number(place)


RULE = Rule(
    code="TCR210",
    name="size-by-tensor",
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
    def forward(self, x, lengths):
        y = x * 2
        room = torch.zeros(lengths.max(), 8)  # BAD
        return y.sum() + room.sum()
""",
            inputs="(torch.randn(4, 8), torch.tensor([2, 3, 1, 4]))",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, lengths):
        y = x * 2
        a = y.repeat(lengths.min(), 1)  # BAD
        b = y.view(lengths.max(), -1)  # BAD
        c = F.pad(y, (0, lengths.max()))  # BAD
        d = y.new_zeros((lengths.max(), 2))  # BAD
        e = torch.arange(lengths.max())  # BAD
        return a.sum() + b.sum() + c.sum() + d.sum() + e.sum()
""",
            inputs="(torch.randn(4, 8), torch.tensor([2, 3, 1, 4]))",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, count):
        y = x * 2
        a = torch.roll(y, y.argmax())  # BAD
        b = y.new_full((4, 8), y.sum())  # BAD
        c = torch.add(y, x, alpha=y.mean())  # BAD
        d = y.clamp(0, y.max())  # BAD
        e = F.one_hot(y.argmax(-1), count.max() + 1)  # BAD
        f = F.one_hot(y.argmax(-1), max(count.max() + 1, 4))  # BAD
        return a + b + c + d + e.sum() + f.sum()
""",
            inputs="(torch.randn(4, 8), torch.tensor([9, 3, 8, 4]))",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, order):
        y = x * 2
        a = y.permute(*order.flip(0))  # BAD
        b = y.flip(order.argmax())  # BAD
        c = y.unflatten(0, (order.max() + 1, -1))  # BAD
        d = F.interpolate(y[None], size=order.max() + 3)  # BAD
        e = F.adaptive_avg_pool1d(y, order.max() + 1)  # BAD
        f = torch.full((order.max(), 2), 1.0)  # BAD
        return a.sum() + b.sum() + c.sum() + d.sum() + e.sum() + f.sum()
""",
            inputs="(torch.randn(4, 8), torch.tensor([0, 1]))",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        two = torch.tensor([2, 4])
        row = torch.stack([torch.tensor(2), torch.tensor(4)])
        y = x.reshape(two[0], -1).sum()  # BAD
        return y + x.new_zeros(row[0], torch.ones((), dtype=torch.int64)).sum()  # BAD
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("slope", torch.tensor(0.5))

    def forward(self, x):
        y = F.leaky_relu(x, self.slope)  # BAD
        return F.pad(y, (0, 1), value=self.slope)  # BAD
""",
            setup="import torch.nn.functional as F",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, lengths):
        y = x * 2
        room = torch.zeros(y.shape[0], 8) * (torch.arange(4) < lengths.max())[:, None]
        return y.sum() + room.sum()
""",
            inputs="(torch.randn(4, 8), torch.tensor([2, 3, 1, 4]))",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        rows, columns = y.shape
        a = torch.full((2,), y.sum()) + torch.linspace(0, y.sum(), 2)
        b = y.view(rows, -1).repeat(2, 1).reshape(rows * 2, columns)
        c = y.clamp(min=y.mean()).roll(1).narrow(0, 0, 2)
        c = c * torch.lerp(c, c, y.mean()) + torch.pow(c.abs(), y.mean()) + c.masked_fill(c > 0, y.max())
        return a.sum() + b.sum() + c.sum() + torch.zeros(rows, columns).sum() + torch.zeros(list(x.shape)).sum()
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        short = x[:, 2:]
        missing = torch.tensor([x.shape[1] - short.shape[1]])
        padded = F.pad(short, [missing // 2, missing - missing // 2])
        half = torch.ceil(torch.tensor(x.shape[0] / 2)).long()
        rows = torch.max(x.new_tensor(2, dtype=torch.int64), half)
        return padded.sum() + x.new_zeros((rows, half * 2)).sum() + x.topk(half.clone()[None][0])[0].sum()
"""
        ),
    ),
)
