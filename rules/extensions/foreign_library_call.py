"""A tensor is passed to a library that computes outside of torch (SciPy, scikit-learn, pandas)."""

from __future__ import annotations

from tcready.schema.enums import Confidence
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import holds_tensor, options
from tcready.static.library.semantics import ARRAY

LIBRARIES = ("scipy.", "sklearn.", "pandas.")
OF_ARRAYS = "scipy."
"""It computes with arrays of numpy by means that Dynamo does not trace (all 21 functions that were tried), and with
numbers and lists too (56 of the 63 that were tried)."""


def check(fact: Call) -> Claim | None:
    name = fact.constructed
    given = (*fact.args, *(value for _, value in fact.keywords))
    foreign = name.startswith(LIBRARIES) and any(map(holds_tensor, given))
    message = f"`{name}` computes outside of torch: the graph ends here"
    if foreign:
        return Claim(message)
    if name.startswith(OF_ARRAYS):
        # what has left torch already is seldom in the way of a usual call, where a test decides on it
        sure: Confidence | None = None if any(ARRAY in options(value) for value in given) else "medium"
        return Claim(message, "low" if fact.where.conditional else sure)
    return None


RULE = Rule(
    code="TCR416",
    gb_ids=("GB0007", "GB0008", "GB0156", "GB0157", "GB0208", "GB0294", "GB4818"),
    facts=(Call,),
    check=check,
    rewriters=("operators.matching_operator",),
    module=__name__,
)
