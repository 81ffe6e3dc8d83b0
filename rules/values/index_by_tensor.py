"""A tensor indexes a Python list, or is a bound of a slice."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Index
from tcready.static.domain.values import ExternalInstance, Sequence, Tensor, Value, is_place, options, tensor_of


def check(fact: Index) -> Claim | None:
    if any(tensor_of(bound) for bound in fact.slices):
        return Claim(
            "slice with a tensor as a bound: its value is read, the function runs eagerly", effect="frame_skip"
        )
    if isinstance(fact.base, Tensor) and any(map(is_place, fact.parts)):
        return Claim("index by one computed number: its value has to be read back", "medium")
    if tensor_of(fact.index) and any(python_list(v) for v in options(fact.base)):
        message = "Python list indexed by a tensor: its value has to be read back"
        return Claim(message, suppressed_by_config="capture_scalar_outputs")
    return None


def python_list(value: Value) -> bool:
    if isinstance(value, ExternalInstance):
        return value.name in ("torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ParameterList")
    return isinstance(value, Sequence) and value.kind in ("list", "tuple")


RULE = Rule(
    code="TCR207",
    gb_ids=("GB0033", "GB0124"),
    settings=("capture_scalar_outputs",),
    facts=(Index,),
    check=check,
    rewriters=("numbers.index_numbers",),
    module=__name__,
)
