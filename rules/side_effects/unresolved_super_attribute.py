"""A property is read through `super().name`, and the result is used."""

from tcready.fixes.rewriters.unresolved import claim_of_use
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Unresolved
from tcready.static.library.semantics import UNRESOLVED


def check(fact: Unresolved) -> Claim | None:
    return claim_of_use("a property that was read through `super()`", fact) if fact.value is UNRESOLVED else None


RULE = Rule(
    code="TCR327",
    gb_ids=("GB0055", "GB0088", "GB0006", "GB0059", "GB0156", "GB0682", "GB4841", "GB4880", "GB6215"),
    facts=(Unresolved,),
    check=check,
    no_rewrite="The base class needs a method that the property calls, and it may not be yours.",
    module=__name__,
)
