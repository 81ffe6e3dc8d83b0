"""A distribution is made with `validate_args=True` in compiled code.

## What it does
Finds constructors of `torch.distributions` that are asked to validate their arguments.

## Why it hurts torch.compile
Validation asks whether all values satisfy a constraint, a Python `if` on a tensor inside of torch, in the
constructor and again in `log_prob`.

## Use instead
Leave `validate_args` out: validation is then off while compiling. Check values outside of the compiled region.

## Limits
`torch.distributions.Distribution.set_default_validate_args(True)` is not followed.
"""

from tcready.static.engine.facts import Call
from tcready.static.engine.values import Const
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call) -> Claim | None:
    if fact.constructed.startswith("torch.distributions.") and fact.keyword("validate_args") == Const(True):
        return Claim("validation of the arguments asks a tensor for a Python bool: the graph ends here")
    return None


RULE = Rule(
    code="TCR415",
    name="validated-distribution",
    effect="graph_break",
    level="error",
    gb_ids=("GB0007", "GB0170"),
    facts=(Call,),
    check=check,
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
    ),
)
