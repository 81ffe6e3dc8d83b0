"""`backward`, `autograd.grad`, `retain_grad` or an optimizer runs in compiled code.

## What it does
Finds `.backward()`, `.retain_grad()`, `torch.autograd.backward`, `torch.autograd.grad`, the functions of
`torch.autograd.functional` (`jacobian`, `hessian`, `jvp`, `vjp`, `hvp`, `vhp`), and `step` and `zero_grad` of
a `torch.optim` optimizer in code that the compiled function reaches. Also finds the call that creates an
optimizer or a scheduler.

## Why it hurts torch.compile
Dynamo traces the forward, and the backward of what it captured is created together with the graph. A backward
inside ends the graph, and the step of an optimizer breaks the graph by design. Creating an optimizer breaks
too; if it receives an iterator (`model.parameters()`), the whole function runs eagerly, because Dynamo cannot
recreate the iterator.

## Use instead
Compile the model or the loss function, and call `backward` and `step` outside. The step can be compiled
separately. `torch.func.grad` is traced, and so are `torch.func.jacrev`, `hessian`, `jvp` and `vjp`.

## Limits
An optimizer is not reported if the source does not show its class.
"""

import re

from tcready.rules._names import method_of_tensor, receiver_class
from tcready.schema.words import Effect
from tcready.static.engine.facts import Call
from tcready.static.engine.values import Mapping, Sequence, Value, members_of, options
from tcready.static.rule import Claim, Rule, Sample

OPTIMIZER = re.compile(r"torch\.optim\.(\w+\.)?[A-Z]\w*")
"""An optimizer, or a scheduler of its learning rate."""
BY_AUTOGRAD = "torch.autograd.functional."
"""Its functions call `torch.autograd.grad` in what Dynamo takes for an operation of torch (all six, on torch 2.13)."""


def check(fact: Call) -> Claim | None:
    if method_of_tensor(fact, "backward"):
        return Claim("`backward` in compiled code: the graph ends here")
    if method_of_tensor(fact, "retain_grad"):
        return Claim("`retain_grad` in compiled code: the function runs eagerly", effect="frame_skip")
    name = fact.constructed
    if name in ("torch.autograd.backward", "torch.autograd.grad") or name.startswith(BY_AUTOGRAD):
        return Claim(f"`{name}` in compiled code: the graph ends here")
    if receiver_class(fact).startswith("torch.optim.") and fact.method in ("step", "zero_grad"):
        return Claim(f"`{fact.method}` of an optimizer in compiled code: the graph ends here")
    if OPTIMIZER.fullmatch(name):
        given = (*fact.args, *(value for _, value in fact.keywords))
        effect: Effect | None = "frame_skip" if any(map(holds_iterator, given)) else None
        return Claim(f"`{name}` is created in compiled code: the graph ends here", effect=effect)
    return None


def holds_iterator(value: Value) -> bool:
    """Whether a value is an iterator, or a list or dict with one."""
    for option in options(value):
        if isinstance(option, Sequence) and (
            option.kind == "iterator" or any(map(holds_iterator, members_of(option)))
        ):
            return True
        if isinstance(option, Mapping) and any(holds_iterator(each) for _, each in option.entries):
            return True
    return False


RULE = Rule(
    code="TCR408",
    name="backward-in-compiled-code",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0123",
        "GB0007",
        "GB9186",
        "GB0025",
        "GB0008",
        "GB0055",
        "GB0059",
        "GB0108",
        "GB0467",
        "GB8335",
    ),
    facts=(Call,),
    check=check,
    no_rewrite="The compiled region has to end before `backward()`. Where to split depends on the whole training step.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        hidden = self.layer(x)
        hidden.retain_grad()  # BAD
        return hidden * 2
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        loss = self.layer(x).square().mean()
        loss.backward()  # BAD
        return loss.detach() + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        (slope,) = torch.autograd.grad(y.sum(), x)  # BAD
        return y.detach() + slope
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        slopes = torch.autograd.functional.jacobian(lambda value: value.sin(), y)  # BAD
        return y + slopes.sum()
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.optimizer = torch.optim.SGD(self.layer.parameters(), lr=0.1)

    def forward(self, x):
        y = self.layer(x)
        self.optimizer.zero_grad()  # BAD
        self.optimizer.step()  # BAD
        return self.layer(x) + y
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        y = self.layer(x)
        optimizer = torch.optim.SGD(list(self.layer.parameters()), lr=0.1)  # BAD
        return y + optimizer.param_groups[0]["lr"]
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        y = self.layer(x)
        optimizer = torch.optim.AdamW(self.layer.parameters())  # BAD
        return y * 2
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
        loss = self.layer(x).square().mean()
        return loss.detach() + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        def slope(value):
            return value.square().sum()

        return torch.func.grad(slope)(x) + x.detach()
"""
        ),
    ),
)
