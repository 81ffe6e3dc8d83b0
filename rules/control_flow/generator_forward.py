"""The compiled function itself is a generator function."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Alone


def check(fact: Alone) -> Claim | None:
    if not fact.entry:
        return None
    return Claim("the compiled function is a generator function: all of it runs eagerly")


RULE = Rule(
    code="TCR124",
    effect="frame_skip",
    gb_ids=("GB0003",),
    facts=(Alone,),
    check=check,
    no_rewrite="Callers may rely on the lazy evaluation of a generator: a list computes all items first.",
    module=__name__,
)
