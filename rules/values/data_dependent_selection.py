"""`nonzero`, `argwhere`, `masked_select` or one-argument `where` selects by value."""

from __future__ import annotations

from tcready.fixes.rewriters.names import SELECTING, operands
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.library.semantics import ARRAY


def check(fact: Call) -> Claim | None:
    one = operands(fact, "where") is None or len(fact.args) + len(fact.keywords) == 1
    of_array = one and ((fact.name or "").startswith("numpy.") or fact.receiver == ARRAY)
    if (fact.reads == "size" or of_array) and operands(fact, *SELECTING) is not None:
        message = "selects items by value: the size of the result depends on the data"
        return Claim(message, suppressed_by_config="capture_dynamic_output_shape_ops")
    return None


RULE = Rule(
    code="TCR205",
    gb_ids=("GB0036",),
    settings=("capture_dynamic_output_shape_ops",),
    facts=(Call,),
    check=check,
    rewriters=("places.rewrite_selection",),
    module=__name__,
)
