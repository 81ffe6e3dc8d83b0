"""`int`, `float`, `bool`, `complex` or a `math` function is called with a tensor."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import tensor_of

CONVERSIONS = frozenset({"int", "float", "bool", "complex"})
HARMLESS = frozenset({"math.prod"})
CAPTURED = frozenset({"int", "float", "bool"})


def check(fact: Call) -> Claim | None:
    name = fact.constructed
    if not (name in CONVERSIONS or (name.startswith("math.") and name not in HARMLESS)):
        return None
    if any(tensor_of(arg) for arg in fact.args):
        message = f"`{name}` reads a tensor's value back to Python: the graph ends here"
        return Claim(message, suppressed_by_config="capture_scalar_outputs" if name in CAPTURED else None)
    return None


RULE = Rule(
    code="TCR203",
    gb_ids=("GB0124", "GB0059", "GB0033"),
    settings=("capture_scalar_outputs",),
    facts=(Call,),
    check=check,
    rewriters=("conversions.rewrite_number",),
    module=__name__,
)
