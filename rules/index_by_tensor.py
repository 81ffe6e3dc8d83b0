"""A tensor indexes a Python list, or bounds a slice.

## What it does
Finds a list, tuple or ModuleList indexed by a tensor, and slices with a tensor as bound.

## Why it hurts torch.compile
Python needs the number, so it is read from the tensor (`Tensor.__index__`): the graph ends there. At a
slice Dynamo gives up the whole function.

## Use instead
`torch.stack(items)[index]` or `index_select`; a mask over the full length for a slice, or a bound that is a
size. For experts in a ModuleList, compute with stacked weights.

## Limits
A tensor indexed by an integer tensor is harmless. Under `fullgraph=True` both are captured if the number
stays symbolic.
"""

from tcready.static.engine.facts import Index
from tcready.static.engine.values import ExternalInstance, Sequence, Value, options, tensor_of
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Index) -> Claim | None:
    if any(tensor_of(bound) for bound in fact.slices):
        return Claim("slice bounded by a tensor: the frame goes eager to read it", effect="frame_skip")
    if tensor_of(fact.index) and any(python_list(v) for v in options(fact.base)):
        message = "Python list indexed by a tensor: its value has to be read back"
        return Claim(message, unless="capture_scalar_outputs")
    return None


def python_list(value: Value) -> bool:
    if isinstance(value, ExternalInstance):
        return value.name in ("torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ParameterList")
    return isinstance(value, Sequence) and value.kind in ("list", "tuple")


RULE = Rule(
    code="TCR207",
    name="index-by-tensor",
    effect="graph_break",
    level="error",
    gb_ids=("GB0124",),
    settings=("capture_scalar_outputs",),
    facts=(Index,),
    check=check,
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
    def forward(self, x, length):
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
