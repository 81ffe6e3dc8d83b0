"""A tensor gives a size: `torch.zeros(lengths.max())`, `x.view(count, -1)`.

## What it does
Finds factory functions, `view`, `reshape`, `expand`, `repeat`, `narrow`, `split`, `roll` and `F.pad` with a
tensor that was computed as a size.

## Why it hurts torch.compile
The size has to be a number while tracing, so the tensor's value is read: the graph ends here.

## Use instead
A size that is known (`x.shape[1]`, a maximum from the configuration) and a mask; or the number passed in as
an argument.

## Limits
A tensor that comes straight in as an argument, a parameter or a buffer may be taken as a constant and guarded
by its value, so it is not reported.
"""

from tcready.rules._names import sizes
from tcready.static.engine.facts import Call
from tcready.static.engine.values import Value, tensor_of
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call) -> Claim | None:
    if any(map(read, sizes(fact))):
        return Claim("a tensor gives a size: its value has to be read, and the graph ends here")
    return None


def read(value: Value) -> bool:
    """Whether it is a computed tensor."""
    tensor = tensor_of(value)
    return tensor is not None and not tensor.leaf and not tensor.given


RULE = Rule(
    code="TCR210",
    name="size-by-tensor",
    effect="graph_break",
    level="error",
    gb_ids=("GB0033",),
    facts=(Call,),
    check=check,
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
        return a.sum() + b.sum() + c.sum() + torch.zeros(rows, columns).sum() + torch.zeros(list(x.shape)).sum()
"""
        ),
    ),
)
