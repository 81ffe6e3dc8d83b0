"""A `types.SimpleNamespace` is created or modified in compiled code.

## What it does
Finds calls of `types.SimpleNamespace` and writes to attributes of an instance, also through `setattr`.

## Why it hurts torch.compile
Dynamo does not model the class. Creating an instance ends the graph, and so does each attribute that is set
on it.

## Use instead
A dataclass, a plain class or a dict. Dynamo traces reads and writes of all three.

## Limits
Reading attributes of a namespace that was created outside is traced and not reported.
"""

from tcready.static.engine.facts import Call, Store
from tcready.static.engine.values import ExternalInstance, Value, options
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call | Store) -> Claim | None:
    if isinstance(fact, Store):
        written = fact.kind == "attribute" and fact.owner is not None and namespace(fact.owner)
    elif fact.constructed == "types.SimpleNamespace":
        return Claim("a `SimpleNamespace` is created in compiled code: the graph ends here")
    else:
        written = fact.constructed == "setattr" and bool(fact.args) and namespace(fact.args[0])
    return Claim("an attribute of a `SimpleNamespace` is set: the graph ends here") if written else None


def namespace(value: Value) -> bool:
    return any(isinstance(v, ExternalInstance) and v.name == "types.SimpleNamespace" for v in options(value))


RULE = Rule(
    code="TCR309",
    name="simple-namespace",
    effect="graph_break",
    level="error",
    gb_ids=("GB0147", "GB0156"),
    facts=(Call, Store),
    check=check,
    no_rewrite="Other code may read the object. A dataclass that is defined at module level is traced.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        out = types.SimpleNamespace(hidden=3)  # BAD
        return y * out.hidden
""",
            setup="""
import types
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.state = types.SimpleNamespace(a=1)

    def forward(self, x):
        y = x * 2
        self.state.a = 2  # BAD
        y = y * 2
        setattr(self.state, "b", 2)  # BAD
        return y * 3
""",
            setup="""
import types
""",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        out = Output(3)
        return y * out.hidden
""",
            setup="""
import dataclasses


@dataclasses.dataclass
class Output:
    hidden: int
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.state = types.SimpleNamespace(a=1)

    def forward(self, x):
        return x * self.state.a + vars(self.state)["a"]
""",
            setup="""
import types
""",
        ),
    ),
)
