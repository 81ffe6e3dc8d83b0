"""A module is constructed in compiled code, and another break makes Python run its constructor."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Initialised


def check(_fact: Initialised) -> Claim:
    return Claim("a module is constructed in compiled code, and another break makes Python run its constructor")


RULE = Rule(
    code="TCR332",
    effect="frame_skip",
    level="warning",
    gb_ids=("GB0119",),
    facts=(Initialised,),
    check=check,
    follows=True,
    no_rewrite="Where the module can be constructed instead depends on its arguments.",
    module=__name__,
)
