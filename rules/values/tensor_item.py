"""`.item()` reads a number from a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.fixes.rewriters.names import method_of_tensor
from tcready.static.diagnostics.rule import Claim, Declined, Rewrite, Rule
from tcready.static.domain.facts import Call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.diagnostics.cst_view import Located


def check(fact: Call) -> Claim | None:
    if method_of_tensor(fact, "item"):
        message = "`.item()` reads a number from a tensor: the graph ends here"
        return Claim(message, suppressed_by_config="capture_scalar_outputs")
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.fixes.rewriters.numbers import keep_tensor
    from tcready.fixes.rewriters.sorts import rewrite_sorted
    from tcready.fixes.rewriters.tests import written_anew

    if found := [*rewrite_sorted(place)]:
        yield from found
        return
    yield from written_anew(place)
    yield from keep_tensor(place)


RULE = Rule(
    code="TCR201",
    name="tensor-item",
    effect="graph_break",
    level="error",
    gb_ids=("GB0124",),
    settings=("capture_scalar_outputs",),
    facts=(Call,),
    check=check,
    rewrite=rewrite,
    module=__name__,
)
