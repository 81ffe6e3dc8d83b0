"""An `assert` tests an object, or a collection of tensors, which Dynamo treats as a tensor."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Test
from tcready.static.domain.values import (
    ExternalInstance,
    Instance,
    Mapping,
    Sequence,
    Tensor,
    Value,
    likely,
    members_of,
    options,
)


def check(fact: Test) -> Claim | None:
    if fact.kind != "assert":
        return None
    usual = options(likely(fact.value))
    if isinstance(fact.value, Tensor) or not all(map(_cannot_be_asserted, usual)):
        return None
    return Claim(
        "`assert` of an object or a collection of tensors: the function runs eagerly",
        "high" if len(usual) == len(options(fact.value)) else "medium",
    )


def _cannot_be_asserted(value: Value) -> bool:
    """An object, or a row that holds a tensor or an object for sure."""
    members: tuple[Value, ...] = ()
    if isinstance(value, Sequence):
        members = members_of(value)
    elif isinstance(value, Mapping):
        members = tuple(member for _, member in value.entries)
    if any(all(map(_is_no_constant, options(member))) for member in members):
        return True
    if isinstance(value, ExternalInstance):
        return not value.name.startswith("numpy.")  # traced as a tensor
    return isinstance(value, Instance)


def _is_no_constant(value: Value) -> bool:
    return isinstance(value, Tensor) or _cannot_be_asserted(value)


RULE = Rule(
    code="TCR106",
    effect="frame_skip",
    gb_ids=("GB0055", "GB0112"),
    facts=(Test,),
    check=check,
    rewriters=("truths.rewrite_object_assert",),
    module=__name__,
)
