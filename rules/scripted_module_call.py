"""TorchScript is made or called in compiled code.

## What it does
Finds calls of modules from `torch.jit.load`, and `torch.jit.script`, `trace` and `freeze` reached from the
compiled forward.

## Why it hurts torch.compile
TorchScript is compiled code of another compiler, which Dynamo does not look into: a scripted module turns
the function that calls it eager, making one ends the graph.

## Use instead
Keep the Python module and compile that. TorchScript functions (`@torch.jit.script` over a function of
tensors) stay in the graph.

## Limits
A module scripted in `__init__` (`self.layer = torch.jit.script(layer)`) is not told apart from the module
it was made of.
"""

from tcready.rules._names import constructed, instance_called
from tcready.static.facts import Call
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call) -> Claim | None:
    if constructed(fact) in ("torch.jit.script", "torch.jit.trace", "torch.jit.freeze"):
        return Claim("TorchScript is made in compiled code: the graph ends here")
    if instance_called(fact) in ("torch.jit.load", "torch.jit.ScriptModule"):
        return Claim("a TorchScript module is called: the frame goes eager", effect="frame_skip")
    return None


RULE = Rule(
    code="TCR405",
    name="scripted-module-call",
    effect="graph_break",
    level="error",
    gb_ids=("GB4695", "GB0007", "GB0098"),
    facts=(Call,),
    check=check,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.jit.load(io.BytesIO(SAVED.getvalue()))

    def forward(self, x):
        y = x * 2
        return self.layer(y)  # BAD
""",
            setup="""
import io

SAVED = io.BytesIO()
torch.jit.save(torch.jit.script(nn.Linear(8, 8)), SAVED)
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        relu = torch.jit.script(nn.ReLU())  # BAD
        return y + 1
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        y = x * 2
        return self.layer(y)
"""
        ),
        Sample(
            """
@torch.jit.script
def twice(x):
    return x * 2


class Model(nn.Module):
    def forward(self, x):
        if torch.jit.is_scripting() or torch.jit.is_tracing():
            return x
        return twice(x) + 1
"""
        ),
    ),
)
