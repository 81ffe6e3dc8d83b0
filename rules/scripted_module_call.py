"""TorchScript is created or called in compiled code.

## What it does
Finds calls of modules from `torch.jit.load`, and `torch.jit.script`, `trace` and `freeze`, or
`torch.fx.symbolic_trace`, in code that the compiled forward reaches.

## Why it hurts torch.compile
TorchScript is the output of another compiler, which Dynamo does not trace. A function that calls a scripted
module runs eagerly, and creating a scripted module ends the graph.

## Use instead
Keep the Python module and compile that. TorchScript functions (`@torch.jit.script` on a function of tensors)
stay in the graph.

## Limits
A scripted module that is an argument without an annotation is not recognized.
"""

from tcready.rules._names import instance_called
from tcready.static.engine.facts import Call
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call) -> Claim | None:
    if fact.constructed in ("torch.jit.script", "torch.jit.trace", "torch.jit.freeze"):
        return Claim("TorchScript is created in compiled code: the graph ends here")
    if fact.constructed in ("torch.fx.symbolic_trace", "torch.fx.Tracer"):
        return Claim("a module is traced by torch.fx in compiled code: the graph ends here")
    if instance_called(fact) in ("torch.jit.load", "torch.jit.ScriptModule"):
        return Claim("a TorchScript module is called: the function runs eagerly", effect="frame_skip")
    if instance_called(fact) == "torch.jit.TracedModule":
        return Claim("a traced TorchScript module is called: the graph ends here")
    return None


RULE = Rule(
    code="TCR405",
    name="scripted-module-call",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB4695",
        "GB0007",
        "GB0008",
        "GB0098",
        "GB0116",
        "GB0082",
    ),
    facts=(Call,),
    check=check,
    no_rewrite="The module was scripted elsewhere. Use the original Python module in the model.",
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
        y = y * 2
        tracer = torch.fx.Tracer()  # BAD
        y = y * 2
        return traced(y)  # BAD
""",
            setup="""
import torch.fx

traced = torch.jit.trace(nn.Linear(8, 8), (torch.randn(4, 8),))
""",
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
