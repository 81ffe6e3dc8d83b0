"""A distribution is created with `validate_args=True` in compiled code.

## What it does
Finds constructors of `torch.distributions` with argument validation enabled, and calls of `_validate_sample`
by subclasses of `Distribution`, which validates regardless of `validate_args`.

## Why it hurts torch.compile
Validation tests whether all values satisfy a constraint. This is a Python `if` on a tensor inside torch, in
the constructor and again in `log_prob`.

## Use instead
Omit `validate_args`: validation is then off while compiling. Put `self._validate_sample(value)` under
`if self._validate_args:`. Check values outside of the compiled region.

## Limits
`torch.distributions.Distribution.set_default_validate_args(True)` is not tracked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.engine.facts import Call
from tcready.static.engine.values import Const, ExternalInstance, Instance
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located


def check(fact: Call) -> Claim | None:
    if fact.constructed.startswith("torch.distributions.") and fact.keyword("validate_args") == Const(True):
        return Claim("validation of the arguments needs a Python bool from a tensor: the graph ends here")
    if fact.method == "_validate_sample" and isinstance(fact.receiver, (Instance, ExternalInstance)):
        return Claim("validation of a sample needs a Python bool from a tensor: the graph ends here")
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._state import drop_validation

    return drop_validation(place)


RULE = Rule(
    code="TCR415",
    name="validated-distribution",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0007",
        "GB0170",
        "GB0124",
    ),
    facts=(Call,),
    check=check,
    rewrite=rewrite,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        normal = torch.distributions.Normal(y, torch.ones(8), validate_args=True)  # BAD
        return normal.rsample() * 0 + y
"""
        ),
        Sample(
            """
class Shifted(torch.distributions.Distribution):
    arg_constraints = {}
    support = torch.distributions.constraints.real

    def __init__(self, shift):
        self.shift = shift
        super().__init__(validate_args=False)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.shifted = Shifted(torch.ones(8))

    def forward(self, x):
        self.shifted._validate_sample(x * 2)  # BAD
        return x - self.shifted.shift
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        normal = torch.distributions.Normal(y, torch.ones(8))
        picked = torch.distributions.Categorical(logits=y)
        return normal.log_prob(y) + picked.entropy().unsqueeze(1)
"""
        ),
        Sample(
            """
class Shifted(torch.distributions.Distribution):
    arg_constraints = {}
    support = torch.distributions.constraints.real

    def __init__(self, shift):
        self.shift = shift
        super().__init__()

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return value - self.shift


class Model(nn.Module):
    def forward(self, x):
        return Shifted(x * 2).log_prob(x)
"""
        ),
    ),
)
