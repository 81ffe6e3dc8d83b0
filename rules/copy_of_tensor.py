"""`copy.deepcopy` or `copy.copy` copies tensors, modules or containers.

## What it does
Finds `copy.deepcopy` of a tensor, a module, or an object or a container with tensors, and `copy.copy` of a
tensor, a list, a dict or a module of torch.nn. Also finds `dataclasses.asdict` and `astuple` of an object
with tensors, which copy each of them.

## Why it hurts torch.compile
The copy protocol reads storages and calls C code that Dynamo does not trace, so the graph ends at the call.
In models this is the second most frequent break: layers that are cloned with `deepcopy` when the forward
runs.

## Use instead
`tensor.clone()`. Copy modules in `__init__`, or call `torch.func.functional_call` with copies of their
tensors. For shallow copies, use `list(items)` and `dict(items)`. Instead of `asdict(made)`, use `vars(made)`
or `{f.name: getattr(made, f.name) for f in fields(made)}`.

## Limits
`deepcopy` of Python numbers in lists and dicts, and `copy.copy` of a plain object or tuple, are traced. An
object whose class has a `forward` is assumed to be a module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.engine.facts import Call
from tcready.static.engine.values import (
    ExternalInstance,
    Instance,
    Mapping,
    Sequence,
    Value,
    holds_tensor,
    options,
)
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located


TO_CONTAINERS = ("dataclasses.asdict", "dataclasses.astuple")


def check(fact: Call) -> Claim | None:
    name = fact.constructed
    if name in TO_CONTAINERS and holds_tensor(fact.result):
        return Claim(f"`{name}` deep-copies the tensors of an object: the graph ends here")
    if name not in ("copy.deepcopy", "copy.copy") or not fact.args:
        return None
    what = fact.args[0]
    shallow = name == "copy.copy" and any(isinstance(v, Mapping) or _is_list(v) for v in options(what))
    deep = name == "copy.deepcopy" and any(map(is_module, options(what)))
    namespace = name == "copy.deepcopy" and any(map(is_namespace, options(what)))
    of_module = any(isinstance(v, ExternalInstance) and is_module(v) for v in options(what))
    if shallow or deep or of_module or fact.gb_id or holds_tensor(what):
        return Claim(f"`{name}` in compiled code: the graph ends here")
    if namespace:
        return Claim(f"`{name}` in compiled code: the graph ends here", form="of a SimpleNamespace")
    return None


def is_module(value: Value) -> bool:
    if isinstance(value, ExternalInstance):
        return value.name.startswith("torch.nn.")
    return isinstance(value, Instance) and "forward" in value.cls.functions


def is_namespace(value: Value) -> bool:
    return isinstance(value, ExternalInstance) and value.name == "types.SimpleNamespace"


def _is_list(value: Value) -> bool:
    return isinstance(value, Sequence) and value.kind == "list"


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._state import rewrite_deepcopy

    return rewrite_deepcopy(place)


RULE = Rule(
    code="TCR321",
    name="copy-of-tensor",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB4198",
        "GB0208",
        "GB0007",
        "GB0008",
        "GB0156",
    ),
    facts=(Call,),
    check=check,
    rewrite=rewrite,
    page=__doc__,
    bad=(
        Sample(
            """
class State:
    def __init__(self, hidden):
        self.hidden = hidden

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        layer = copy.copy(self.layer)  # BAD
        before = State(layer(x).detach())
        after = copy.deepcopy(before)  # BAD
        return before.hidden + after.hidden
""",
            setup="""
import copy
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        z = copy.deepcopy(y)  # BAD
        return z + 1
""",
            setup="""
import copy
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        y = x * 2
        layer = copy.deepcopy(self.layer)  # BAD
        items = copy.deepcopy([y])  # BAD
        same = copy.copy(y)  # BAD
        table = copy.copy({"a": y})  # BAD
        return layer(items[0]) + same + table["a"]
""",
            setup="""
import copy
""",
        ),
        Sample(
            """
@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    loss: torch.Tensor

class Model(nn.Module):
    def forward(self, x):
        made = Output(x * 2, x.sum())
        named = dataclasses.asdict(made)  # BAD
        return named["logits"] + named["loss"]
""",
            setup="""
import dataclasses
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.sizes = types.SimpleNamespace(rows=2)

    def forward(self, x):
        y = x * 2
        sizes = copy.deepcopy(self.sizes)  # BAD
        return y * sizes.rows
""",
            setup="""
import copy
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
        z = y.clone()
        return z + 1
""",
            setup="""
import copy
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        numbers = copy.deepcopy([1, 2])
        table = copy.deepcopy({"a": 1})
        pair = copy.copy((1, 2))
        items = list([y])
        named = dict({"a": y})
        other = {"a": y}.copy()
        return y + numbers[0] + table["a"] + pair[0] + items[0] + named["a"] + other["a"]
""",
            setup="""
import copy
""",
        ),
    ),
)
