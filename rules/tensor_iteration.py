"""A Python loop iterates over a tensor.

## What it does
Finds `for` loops and comprehensions over a tensor, also through `zip`, `enumerate` and `reversed`.

## Why it hurts torch.compile
Dynamo unrolls the loop. The graph contains one copy of the body for each row, compile time grows with the
length, and each new length causes a recompilation.

## Use instead
One operation over the whole dimension: broadcasting, `torch.vmap`, `torch.cumsum`, `torch.einsum`, or
`torch.stack` of what can be computed at once.

## Limits
A loop over a parameter or a buffer has a fixed length and is not reported. Loops over lists of tensors (their
length is part of the program) and unpacking (`a, b = x`) are not reported either.
"""

from tcready.static.engine.facts import Loop
from tcready.static.engine.values import tensor_of
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Loop) -> Claim | None:
    walked = tensor_of(fact.value)
    if walked is None or walked.leaf:
        return None
    return Claim("loop over a tensor: it is unrolled, and recompiled for each new length")


RULE = Rule(
    code="TCR111",
    name="tensor-iteration",
    effect="recompile",
    level="warning",
    gb_ids=(),
    facts=(Loop,),
    check=check,
    no_rewrite="One operation over all rows is another algorithm, which the author has to choose.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        out = []
        for row in x:  # BAD
            out.append(row * 2)
        return torch.stack(out)
""",
            again="(torch.randn(6, 8),)",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        return torch.stack([row * i for i, row in enumerate(x)])  # BAD
""",
            again="(torch.randn(6, 8),)",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        total = 0
        for a, b in zip(x, x * 2):  # BAD
            total = total + a * b
        return total
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
        scale = torch.arange(x.shape[0]).unsqueeze(1)
        a, b = x.chunk(2, dim=1)
        return (a * b) * scale
""",
            again="(torch.randn(6, 8),)",
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.register_buffer("table", torch.zeros(3, 8))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        for scale in (1.0, 2.0):
            x = x * scale
        for row in self.table:
            x = x + row
        return x
"""
        ),
    ),
)
