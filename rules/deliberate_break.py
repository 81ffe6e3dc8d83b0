"""The code ends the graph deliberately: `torch.compiler.disable`, `graph_break`.

## What it does
Finds calls of functions that are decorated with `torch.compiler.disable`, and of `torch._dynamo.graph_break`.

## Why it hurts torch.compile
The function runs eagerly, as requested, and the graph around the call is split in two. With `fullgraph=True`,
it is an error.

## Use instead
If there is a reason for it, leave it. If the reason no longer exists, remove the decorator. To call a kernel
that Dynamo cannot trace, `torch.library.custom_op` is a better choice.

## Limits
The code inside a disabled function is not checked.
"""

from tcready.static.engine.facts import Call
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call) -> Claim | None:
    name = fact.constructed
    if name.endswith("()") and fact.gb_id:
        return Claim("a function that is excluded from compilation is called: the graph ends here")
    if name == "torch._dynamo.graph_break":
        return Claim("`graph_break()` ends the graph here, as requested")
    return None


RULE = Rule(
    code="TCR410",
    name="deliberate-break",
    effect="graph_break",
    level="warning",
    gb_ids=("GB0025", "GB0098", "GB0099", "GB0007"),
    facts=(Call,),
    check=check,
    no_rewrite="The break is deliberate.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        y = helper(y)  # BAD
        y = y * 2
        y = shallow(y)  # BAD
        return y * 3
""",
            setup="""
@torch.compiler.disable
def helper(x):
    return x + 1


@torch.compiler.disable(recursive=False)
def shallow(x):
    return x + 1
""",
        ),
        Sample(
            """
class Model(nn.Module):
    @torch.compiler.disable
    def part(self, x):
        print(x)
        return x + 1

    def forward(self, x):
        y = x * 2
        y = self.part(y)  # BAD
        y = y * 2
        torch._dynamo.graph_break()  # BAD
        return y * 3
""",
            setup="""
import torch._dynamo
""",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        y = helper(y)
        return y * 3
""",
            setup="""
def helper(x):
    return x + 1
""",
        ),
    ),
)
