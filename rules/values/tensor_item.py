"""`.item()` reads a number from a tensor."""

from __future__ import annotations

from tcready.fixes.rewriters.names import method_of_tensor
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call


def check(fact: Call) -> Claim | None:
    if method_of_tensor(fact, "item"):
        message = "`.item()` reads a number from a tensor: the graph ends here"
        return Claim(message, suppressed_by_config="capture_scalar_outputs")
    return None


RULE = Rule(
    code="TCR201",
    gb_ids=("GB0124",),
    settings=("capture_scalar_outputs",),
    facts=(Call,),
    check=check,
    rewriters=("conversions.rewrite_number",),
    module=__name__,
)
