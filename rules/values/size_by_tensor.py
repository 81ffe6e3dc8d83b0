"""A tensor is used as a size or a number: `torch.zeros(lengths.max())`, `x.clamp(0, x.max())`."""

from __future__ import annotations

from tcready.fixes.rewriters.names import sizes
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import FLOATING, Value, tensor_of

HARMLESS = frozenset({"torch.full"})
"""Dynamo fills what it made with the tensor."""


def check(fact: Call) -> Claim | None:
    if any(map(read, sizes(fact))):
        return Claim("a tensor is used as a size: its value has to be read, and the graph ends here")
    if fact.constructed not in HARMLESS and any(read(v) or _is_float_in_graph(v) for v in fact.numbers):
        return Claim("a tensor is passed where torch takes a number: its value is read, and the graph ends here")
    return None


def read(value: Value) -> bool:
    """Whether it is a computed tensor with a value that Dynamo does not keep."""
    tensor = tensor_of(value)
    return tensor is not None and not (tensor.leaf or tensor.graph_input or tensor.from_python_scalar)


def _is_float_in_graph(value: Value) -> bool:
    """A buffer of fractions: these are read, where a whole number of before the call comes in with its value."""
    tensor = tensor_of(value)
    return tensor is not None and tensor.leaf and not tensor.parameter and tensor.dtype in FLOATING


RULE = Rule(
    code="TCR210",
    gb_ids=("GB0033",),
    facts=(Call,),
    check=check,
    rewriters=("numbers.without_number",),
    module=__name__,
)
