"""A tensor is cast to plain `torch.Tensor`, or made by calling a class with an `__init__`.

## What it does
Finds `x.as_subclass(torch.Tensor)` in compiled code, `as_subclass` of a tensor that is of a subclass already, and
calls of a subclass of `torch.Tensor` that has an `__init__` of its own.

## Why it hurts torch.compile
Dynamo traces `as_subclass` towards a subclass that it knows from its source, and not back to the base class: the
graph ends at the call. It follows `__new__` of a subclass, and cannot bind the arguments of `__init__`.

## Use instead
Unwrap before the compiled region, or let the subclass's `__torch_function__` give back plain tensors.

## Limits
`as_subclass` from a plain tensor towards a subclass of `torch.Tensor` is traced and not reported, nor is a call of a
subclass that has no `__init__`.
"""

from tcready.rules._names import method_of_tensor
from tcready.static.engine.facts import Call
from tcready.static.engine.values import Class, External, Tensor
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call) -> Claim | None:
    if fact.name == "torch.Tensor.__init__" and isinstance(fact.function, Class):
        return Claim("a tensor of a class with an `__init__` is made: the graph ends here")
    if method_of_tensor(fact, "as_subclass") and External("torch.Tensor") in fact.args:
        return Claim("`as_subclass(torch.Tensor)` in compiled code: the graph ends here")
    if method_of_tensor(fact, "as_subclass") and isinstance(fact.receiver, Tensor) and fact.receiver.subclass:
        return Claim("`as_subclass` of a tensor of a class of its own: the graph ends here")
    return None


RULE = Rule(
    code="TCR413",
    name="as-plain-tensor",
    effect="graph_break",
    level="error",
    gb_ids=("GB0001", "GB0117", "GB7312"),
    facts=(Call,),
    check=check,
    no_rewrite="The class of the tensor is what the code is about.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        plain = y.as_subclass(torch.Tensor)  # BAD
        return plain * 3
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = (x * 2).as_subclass(Vector)
        return y.as_subclass(Vector).sum()  # BAD
""",
            setup="""
class Vector(torch.Tensor):
    pass
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        named = Named(y, ["a", "b"])  # BAD
        return named + 1
""",
            setup="""
class Named(torch.Tensor):
    def __new__(cls, x, names):
        return x.as_subclass(cls)

    def __init__(self, x, names):
        self.columns = names
""",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        tagged = (x * 2).as_subclass(Tagged)
        return x * tagged.shape[0]
""",
            setup="""
class Tagged(torch.Tensor):
    pass
""",
        ),
    ),
)
