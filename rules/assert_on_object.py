"""An `assert` tests an object, or a collection of tensors, which Dynamo treats as a tensor.

## What it does
Finds `assert rows` if `rows` is a list, tuple or dict that contains tensors or objects, and
`assert self.head` if that is a module or another instance of a class.

## Why it hurts torch.compile
Dynamo turns an `assert` on a value that it does not know into an assertion in the graph. For that, it
converts the value to a tensor. A collection or an object cannot be converted, so the whole function around it
runs eagerly.

## Use instead
Assert the condition that you mean: `assert len(rows) > 0`, `assert self.head is not None`.

## Limits
Numbers, strings and collections of these are known while tracing, and so are functions and classes. The
results of numpy are tensors there. An `assert` whose message is not a plain string is an ordinary branch, and
is traced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.engine.facts import Test
from tcready.static.engine.values import (
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
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located


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


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._truths import rewrite_object_assert

    return rewrite_object_assert(place)


RULE = Rule(
    code="TCR106",
    name="assert-on-object",
    effect="frame_skip",
    level="error",
    gb_ids=("GB0055", "GB0112"),
    facts=(Test,),
    check=check,
    rewrite=rewrite,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        rows = [x, x + 1]
        assert rows  # BAD
        return torch.stack(rows)
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 8)

    def forward(self, x):
        y = x * 2
        assert self.head, "no head"  # BAD
        return self.head(y)
"""
        ),
        Sample(
            """
class Step:
    def __init__(self, scale):
        self.scale = scale


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        steps = {"first": Step(y), "second": Step(x)}
        assert steps, "no steps"  # BAD
        return y + 1
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 8)
        self.names = ["first", "second"]

    def forward(self, x):
        rows = [x, x + 1]
        assert len(rows) > 0
        assert self.head is not None
        assert self.names, "no names"
        assert rows, f"no rows of {x.shape}"
        return self.head(torch.stack(rows))
"""
        ),
    ),
)
