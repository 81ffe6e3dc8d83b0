"""A list of the module, a global or a closure grows in each call.

## What it does
Finds `append`, `extend`, `insert` and `+=` on lists that outlive the call.

## Why it hurts torch.compile
The length of the list is guarded. In each call the list is longer than the compiled code expects, so each
call recompiles, up to the limit of 8. After that, the function always runs eagerly.

## Use instead
Return the value and collect it outside of the compiled region, or write into a preallocated buffer by index.

## Limits
A list that the same call empties again (`append` then `pop`), or that is created anew in the call
(`self.log = []`), is harmless. The rule does not recognize the first case.
"""

from tcready.static.engine.facts import Call, Store
from tcready.static.engine.values import Sequence, Value, options
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call | Store) -> Claim | None:
    if isinstance(fact, Store):
        if fact.augmented and isinstance(fact.value, Sequence) and fact.old is not None and kept(fact.old):
            return Claim(f"`{fact.name}` grows in each call: its length is guarded, so each call recompiles")
        return None
    if fact.method in ("append", "extend", "insert") and fact.receiver is not None and kept(fact.receiver):
        return Claim(
            f"`{fact.method}` on a list that outlives the call: its length is guarded, so each call recompiles"
        )
    return None


def kept(value: Value) -> bool:
    """A list of a module, a global or an enclosing function."""
    return any(isinstance(v, Sequence) and v.kind == "list" and v.escaping for v in options(value))


RULE = Rule(
    code="TCR312",
    name="growing-container",
    effect="recompile",
    level="error",
    gb_ids=(),
    facts=(
        Call,
        Store,
    ),
    check=check,
    no_rewrite="Other code may read a list that outlives the call. Return the values instead of storing them.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.history = []

    def forward(self, x):
        y = x * 2
        self.history.append(y.mean())  # BAD
        return y
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.history = []

    def forward(self, x):
        y = x * 2
        self.history += [y.mean()]  # BAD
        return y
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        LOG.append(1)  # BAD
        return y
""",
            setup="""
LOG = []
""",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return y, y.mean()
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.last = []

    def forward(self, x):
        outputs = []
        for layer in self.layers:
            x = layer(x)
            outputs.append(x)
        outputs += [x]
        outputs.extend([x, x])
        self.last = []
        self.last.append(x)
        return torch.stack(outputs)
"""
        ),
    ),
)
