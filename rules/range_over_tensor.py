"""`range` is called with a tensor.

## What it does
Finds calls of `range` with a tensor argument.

## Why it hurts torch.compile
The number of iterations must be read from the tensor. Dynamo cannot do that while tracing. It ends the graph
at the call, and each new number recompiles the rest.

## Use instead
A bound that is a Python number or a size (`x.shape[0]`), or a mask over the maximum length. If the loop only
counts positions, use `torch.arange`.

## Limits
`range(int(t))` and `range(t.item())` break the graph at the conversion. TCR203 and TCR201 report those.
"""

from tcready.static.engine.facts import Call
from tcready.static.engine.values import tensor_of
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call) -> Claim | None:
    if fact.constructed == "range" and any(tensor_of(arg) for arg in fact.args):
        return Claim("`range` over a tensor: its value has to be read back to Python")
    return None


RULE = Rule(
    code="TCR112",
    name="range-over-tensor",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0059",
        "GB0124",
    ),
    facts=(Call,),
    check=check,
    no_rewrite="The number of iterations depends on data. The author has to choose a bound that is a size.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, count: torch.Tensor):
        y = x * 2
        for step in range(count):  # BAD
            y = y + step
        return y
""",
            inputs="(torch.randn(4, 8), torch.tensor(2))",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x, count):
        y = x * 2
        steps = torch.arange(8)
        return y + torch.where(steps < count, steps, 0).sum()
""",
            inputs="(torch.randn(4, 8), torch.tensor(2))",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        for step in range(x.dim()):
            y = y + step
        for step in range(0, len(x.shape), 2):
            y[:, step] = 0
        for step in range(len([x, y])):
            y = y * step
        return y
"""
        ),
    ),
)
