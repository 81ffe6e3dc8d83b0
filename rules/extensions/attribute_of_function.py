"""An attribute of a class of `torch.autograd.Function` is used in compiled code."""

from tcready.fixes.rewriters.unresolved import claim_of_use
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Unresolved
from tcready.static.library.semantics import OF_FUNCTION


def check(fact: Unresolved) -> Claim | None:
    return claim_of_use("an attribute of an autograd function", fact) if fact.value is OF_FUNCTION else None


RULE = Rule(
    code="TCR424",
    gb_ids=("GB0055", "GB0150", "GB0156", "GB4347", "GB4841", "GB6215"),
    facts=(Unresolved,),
    check=check,
    no_rewrite="The author has to decide where to store the value instead.",
    module=__name__,
)
