"""A tensor is cast to plain `torch.Tensor`, or created by a subclass that lacks `__init__` arguments."""

from tcready.fixes.rewriters.names import method_of_tensor
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Attribute, Call
from tcready.static.domain.values import Class, External, Tensor, likely, tensor_of

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
    gb_ids=("GB0001", "GB0007", "GB0117", "GB0163", "GB7312", "GB7489", "GB0088"),
    facts=(Call, Attribute),
    check=check,
    no_rewrite="The purpose of the code is to change the class of the tensor.",
    module=__name__,
)
