"""A profiler range or a profiler is entered in compiled code.

## What it does
Finds `with torch.profiler.record_function(...)`, its equivalent in autograd, and
`with torch.profiler.profile(...)`.

## Why it hurts torch.compile
Dynamo silently drops the block. Its body is compiled as if the block were not there, so the label is missing
from every profile.

## Use instead
Put the range around the compiled call, or around a part that is compiled separately.

## Limits
Results are the same. Only the label or the profile is lost.
"""

from tcready.static.engine.facts import With
from tcready.static.rule import Claim, Rule, Sample

PROFILERS = ("torch.profiler.", "torch.autograd.profiler.")


def check(fact: With) -> Claim | None:
    if (fact.name or "").startswith(PROFILERS) and fact.context is not None and not fact.context.gb_id:
        return Claim(f"`with {fact.name}` is dropped from the compiled code: its label is lost")
    return None


RULE = Rule(
    code="TCR319",
    name="profiler-block",
    effect="wrong_result",
    level="note",
    gb_ids=(),
    facts=(With,),
    check=check,
    no_rewrite="The author has to decide what to measure. Put the block around the compiled call, or remove it.",
    unproved="the results are those of eager code, and only a label in a profile is missing",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        with torch.profiler.record_function("block"):  # BAD
            y = x * 2
        return y + 1
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return y + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            y = x * 2
        return y + 1
"""
        ),
    ),
)
