"""`nonzero`, `argwhere`, `masked_select` or one-argument `where` selects by value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.fixes.rewriters.names import SELECTING, operands
from tcready.static.diagnostics.rule import Claim, Declined, Rewrite, Rule
from tcready.static.domain.facts import Call
from tcready.static.library.semantics import ARRAY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.diagnostics.cst_view import Located


def check(fact: Call) -> Claim | None:
    one = operands(fact, "where") is None or len(fact.args) + len(fact.keywords) == 1
    of_array = one and ((fact.name or "").startswith("numpy.") or fact.receiver == ARRAY)
    if (fact.reads == "size" or of_array) and operands(fact, *SELECTING) is not None:
        message = "selects items by value: the size of the result depends on the data"
        return Claim(message, suppressed_by_config="capture_dynamic_output_shape_ops")
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.fixes.rewriters.masks import masked_select
    from tcready.fixes.rewriters.places import over_places
    from tcready.fixes.rewriters.truths import rewrite_nonzero_count

    if found := [*over_places(place)]:
        yield from found
        return
    yield from rewrite_nonzero_count(place)
    yield from masked_select(place)


RULE = Rule(
    code="TCR205",
    name="data-dependent-selection",
    effect="graph_break",
    level="error",
    gb_ids=("GB0036",),
    settings=("capture_dynamic_output_shape_ops",),
    facts=(Call,),
    check=check,
    rewrite=rewrite,
    module=__name__,
)
