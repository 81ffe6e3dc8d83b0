"""An attribute that holds an `nn.Buffer` is given another tensor in the forward.

## What it does
Finds assignments to an attribute of a module that was made with `nn.Buffer(...)`.

## Why it hurts torch.compile
Such an assignment goes through `nn.Module.__setattr__`, which asks what type the new value has in a way Dynamo
does not trace: the graph ends here.

## Use instead
`self.table.copy_(new)`; `register_buffer` in `__init__`, whose buffers may be replaced; or a local name where
nothing has to be kept.

## Limits
Giving it the tensor it already holds, or None, is traced.
"""

from tcready.static.facts import Store
from tcready.static.rule import Claim, Rule, Sample
from tcready.static.values import Tensor, options, tensor_of


def check(fact: Store) -> Claim | None:
    if fact.kind != "attribute" or not fact.own_module or fact.old is None:
        return None
    held = any(isinstance(v, Tensor) and v.buffer for v in options(fact.old))
    if held and fact.value != fact.old and tensor_of(fact.value):
        return Claim(f"`{fact.name}` holds an nn.Buffer and is given another tensor: the graph ends here")
    return None


RULE = Rule(
    code="TCR323",
    name="buffer-replaced",
    effect="graph_break",
    level="error",
    gb_ids=("GB4841", "GB0170"),
    facts=(Store,),
    check=check,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Buffer(torch.ones(8))
        self.count = nn.Buffer(torch.zeros(8))

    def forward(self, x):
        y = x * 2
        self.table = self.table.to(y.dtype)  # BAD
        self.count += 1  # BAD
        return y + self.table + self.count
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Buffer(torch.ones(8))
        self.register_buffer("count", torch.zeros(8))

    def forward(self, x):
        y = x * 2
        self.table.copy_(y[0])
        self.table = self.table
        self.count = self.count.to(y.dtype)
        return y + self.table + self.count
"""
        ),
    ),
)
