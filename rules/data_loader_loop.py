"""Compiled code iterates over a `DataLoader`.

## What it does
Finds loops over a `torch.utils.data.DataLoader`, and `iter` or `next` of one, in compiled code.

## Why it hurts torch.compile
The iterator of a loader uses processes, queues and random state, which Dynamo skips. A loop over it makes the
whole function around it run eagerly.

## Use instead
Compile the step and loop over the loader outside: `for batch in loader: compiled_step(batch)`.

## Limits
A loader that is an argument without an annotation is not recognized.
"""

from tcready.static.engine.facts import Call, Loop
from tcready.static.engine.values import ExternalInstance, Value, options
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call | Loop) -> Claim | None:
    if isinstance(fact, Loop):
        if loader(fact.value):
            return Claim("a loop over a `DataLoader`: the function runs eagerly", effect="frame_skip")
        return None
    if fact.constructed in ("iter", "enumerate") and fact.args and loader(fact.args[0]):
        return Claim("a `DataLoader` is iterated over in compiled code: the graph ends here")
    return None


def loader(value: Value) -> bool:
    return any(
        isinstance(v, ExternalInstance) and v.name.startswith("torch.utils.data.") for v in options(value)
    )


RULE = Rule(
    code="TCR411",
    name="data-loader-loop",
    effect="graph_break",
    level="error",
    gb_ids=("GB0008",),
    facts=(Call, Loop),
    check=check,
    no_rewrite="The loop has to be outside of the compiled code. The author has to decide where to split it.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        for batch in loader:  # BAD
            y = y + batch
        return y * 3
""",
            setup="""
from torch.utils.data import DataLoader

loader = DataLoader([torch.ones(8), torch.ones(8)], batch_size=1)
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        batch = next(iter(loader))  # BAD
        return y * batch
""",
            setup="""
from torch.utils.data import DataLoader

loader = DataLoader([torch.ones(8), torch.ones(8)], batch_size=1)
""",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        for batch in batches:
            y = y + batch
        return y * 3
""",
            setup="""
batches = [torch.ones(8), torch.ones(8)]
""",
        ),
    ),
)
