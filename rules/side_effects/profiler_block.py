"""A profiler range or a profiler is entered in compiled code."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import With

PROFILERS = ("torch.profiler.", "torch.autograd.profiler.")


def check(fact: With) -> Claim | None:
    if (fact.name or "").startswith(PROFILERS) and fact.context is not None and not fact.context.gb_id:
        return Claim(f"`with {fact.name}` is dropped from the compiled code: its label is lost")
    return None


RULE = Rule(
    code="TCR319",
    effect="wrong_result",
    level="note",
    facts=(With,),
    check=check,
    no_rewrite="The author has to decide what to measure. Put the block around the compiled call, or remove it.",
    unproved="the results are those of eager code, and only a label in a profile is missing",
    module=__name__,
)
