"""A Python loop runs once for each element of a dimension (`for i in range(x.shape[0])`).

## What it does
Finds `for` loops and comprehensions over a `range` of a size of a tensor.

## Why it hurts torch.compile
Dynamo unrolls the loop. The graph contains one copy of the body for each iteration, compile time grows with
the size, and each new size causes a recompilation, up to the limit of 8.

## Use instead
One operation over the whole dimension: broadcasting, `torch.vmap`, `torch.cumsum`, `torch.einsum`. For a true
recurrence, compile the body and loop outside, or use `torch._higher_order_ops.scan`.

## Limits
A loop over a dimension that never changes (channels, heads) is unrolled only once. The rule does not know
which dimensions those are.
"""

from tcready.static.engine.facts import Loop
from tcready.static.engine.values import Plain, Sequence, options
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Loop) -> Claim | None:
    for v in options(fact.value):
        if isinstance(v, Sequence) and v.kind in ("range", "iterator") and v.items is None:
            if any(isinstance(step, Plain) and step.origin == "shape" for step in options(v.element)):
                return Claim("loop over a dimension: it is unrolled, and recompiled for each new size")
    return None


RULE = Rule(
    code="TCR501",
    name="loop-over-size",
    effect="recompile",
    level="warning",
    gb_ids=(),
    facts=(Loop,),
    check=check,
    no_rewrite="The loop is traced. If the sizes vary, mark them dynamic, or pad.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        out = []
        for i in range(x.shape[0]):  # BAD
            out.append(x[i] * 2)
        return torch.stack(out)
""",
            again="(torch.randn(6, 8),)",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        batch, _ = x.size()
        return torch.stack([x[i] * i for i in range(batch)])  # BAD
""",
            again="(torch.randn(6, 8),)",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        return x * 2
""",
            again="(torch.randn(6, 8),)",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        steps = torch.arange(x.shape[0]).unsqueeze(1)
        for i in range(x.dim()):
            x = x * (i + 1)
        for size in (2, 4):
            x = x + size
        for i in range(len(x.shape)):
            x = x + i
        return x * steps
""",
            again="(torch.randn(6, 8),)",
        ),
    ),
)
