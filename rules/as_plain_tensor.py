"""A tensor is cast to plain `torch.Tensor`, or created by a class whose `__init__` lacks arguments.

## What it does
Finds, in compiled code, `x.as_subclass(torch.Tensor)`, and `as_subclass` of a tensor that is already an
instance of a subclass. Finds calls of a subclass of `torch.Tensor` if its required `__init__` arguments are
positional, or if it has no `__new__` of its own and receives more than a tensor. Finds
`torch.Tensor._make_wrapper_subclass`, and `grad` of a tensor of such a class. Finds `x.type(type(y))`, which
passes the class `torch.Tensor` to `type`.

## Why it hurts torch.compile
Dynamo traces `as_subclass` to a subclass whose source it knows, but not back to the base class: the graph
ends at the call. It calls `__new__` of a subclass with all arguments, but `__init__` only with keyword
arguments, so positional arguments are missing there. A graph cannot contain the class `torch.Tensor`.

## Use instead
Unwrap the tensor before the compiled region, or let `__torch_function__` of the subclass return plain
tensors. Pass the arguments of `__init__` as keywords. Write `x.type_as(y)` or `x.to(y)`.

## Limits
`as_subclass` from a plain tensor to a subclass of `torch.Tensor` is traced and not reported. Neither is a
call of a subclass whose `__init__` receives all required arguments as keywords.
"""

from tcready.rules._names import method_of_tensor
from tcready.static.engine.facts import Attribute, Call
from tcready.static.engine.values import Class, External, Tensor, likely, tensor_of
from tcready.static.rule import Claim, Rule, Sample

UNTRACED = frozenset({"grad", "_grad", "_base"})
"""Attributes that Dynamo does not read of a tensor whose class is the user's own."""


def check(fact: Call | Attribute) -> Claim | None:
    if isinstance(fact, Attribute):
        owner = tensor_of(fact.owner)
        if fact.name not in UNTRACED or owner is None or owner.subclass is None or owner.leaf:
            return None
        return Claim(f"`{fact.name}` of an instance of a tensor subclass: the graph ends here")
    if fact.constructed == "torch.Tensor._make_wrapper_subclass":
        return Claim("a tensor that wraps others is created: the graph ends here")
    if fact.name == "torch.Tensor.__init__" and isinstance(fact.function, Class):
        return Claim("a tensor of a class with an `__init__` is created: the graph ends here")
    if method_of_tensor(fact, "type") and External("torch.Tensor") in map(likely, fact.args):
        return Claim("`type` of a tensor is called with the class `torch.Tensor`: the graph ends here")
    if method_of_tensor(fact, "as_subclass") and External("torch.Tensor") in fact.args:
        return Claim("`as_subclass(torch.Tensor)` in compiled code: the graph ends here")
    if method_of_tensor(fact, "as_subclass") and isinstance(fact.receiver, Tensor) and fact.receiver.subclass:
        return Claim("`as_subclass` of an instance of a tensor subclass: the graph ends here")
    return None


RULE = Rule(
    code="TCR413",
    name="as-plain-tensor",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0001",
        "GB0007",
        "GB0117",
        "GB0163",
        "GB7312",
        "GB7489",
        "GB0088",
    ),
    facts=(Call, Attribute),
    check=check,
    no_rewrite="The purpose of the code is to change the class of the tensor.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.ones(8)

    def forward(self, x):
        y = x * 2
        return y * self.scale.type(type(x.data))  # BAD
"""
        ),
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
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = torch.Tensor.as_subclass(x * 2, Tagged)
        return torch.Tensor.as_subclass(y, Tagged) + 1  # BAD
""",
            setup="""
class Tagged(torch.Tensor):
    pass
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = (x * 2).as_subclass(Tagged)
        done = y.grad is not None  # BAD
        return x * 2 if done else x * 3
""",
            setup="""
class Tagged(torch.Tensor):
    pass
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
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        named = Named(x * 2, names=["a", "b"])
        return x * named.shape[0] + len(named.columns)
""",
            setup="""
class Named(torch.Tensor):
    @staticmethod
    def __new__(cls, *data, names):
        return torch.Tensor.as_subclass(data[0], cls)

    def __init__(self, *data, names):
        self.columns = names
""",
        ),
    ),
)
