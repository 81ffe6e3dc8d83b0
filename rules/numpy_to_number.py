"""A numpy array is turned into a Python number in compiled code.

## What it does
Finds `int`, `float`, `bool` and `complex` of a numpy array, and `.item()` and `.tolist()` on one.

## Why it hurts torch.compile
Dynamo turns numpy code into tensor code, so an array is a tensor to it, and its value has to be read back:
the graph ends here.

## Use instead
Keep the array, or better the tensor it came from; `math` for numbers that are known while tracing
(`math.prod(x.shape)` for `int(np.prod(x.shape))`).

## Limits
Arithmetic between arrays, `torch.from_numpy` and `np.sqrt` of a size are traced and not reported. A branch
on an array's value is not recognised.
"""

from tcready.rules._names import constructed, receiver_class
from tcready.static.facts import Call
from tcready.static.rule import Claim, Rule, Sample
from tcready.static.values import ExternalInstance, Value, options

ARRAY = "numpy.ndarray"


def check(fact: Call) -> Claim | None:
    name = constructed(fact)
    if name in ("int", "float", "bool", "complex") and fact.args and array(fact.args[0]):
        return Claim(f"`{name}` of a numpy array reads its value back: the graph ends here")
    if fact.method in ("item", "tolist") and receiver_class(fact) == ARRAY:
        return Claim(f"`.{fact.method}()` of a numpy array reads it back: the graph ends here")
    return None


def array(value: Value) -> bool:
    return any(isinstance(v, ExternalInstance) and v.name == ARRAY for v in options(value))


RULE = Rule(
    code="TCR209",
    name="numpy-to-number",
    effect="graph_break",
    level="error",
    gb_ids=("GB0033", "GB0109"),
    facts=(Call,),
    check=check,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        scale = float(np.sin(y.numpy()).mean())  # BAD
        return y * scale
""",
            setup="""
import numpy as np
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        total = y.numpy().sum().item()  # BAD
        rows = y.numpy().tolist()  # BAD
        return y * total + len(rows)
""",
            setup="""
import numpy as np
""",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        scale = torch.sin(y).mean()
        return y * scale
""",
            setup="""
import numpy as np
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        wave = torch.from_numpy(np.sin(y.numpy()))
        root = np.sqrt(x.shape[-1]) + math.prod(x.shape)
        return y * root + wave + torch.from_numpy(np.linspace(0, 1, 8))
""",
            setup="""
import math

import numpy as np
""",
        ),
    ),
)
