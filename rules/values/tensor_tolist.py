"""`.tolist()` converts a tensor to Python numbers."""

from __future__ import annotations

from tcready.fixes.rewriters.names import method_of_tensor
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call


def check(fact: Call) -> Claim | None:
    if method_of_tensor(fact, "tolist"):
        return Claim("`.tolist()` reads a tensor back to Python: the graph ends here")
    return None


RULE = Rule(
    code="TCR202",
    gb_ids=("GB0109", "GB0033"),
    facts=(Call,),
    check=check,
    rewriters=("places.rewrite_list",),
    module=__name__,
)
