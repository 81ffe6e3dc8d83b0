"""`.tolist()` converts a tensor to Python numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.fixes.rewriters.names import method_of_tensor
from tcready.static.diagnostics.rule import Claim, Declined, Rewrite, Rule
from tcready.static.domain.facts import Call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.diagnostics.cst_view import Located


def check(fact: Call) -> Claim | None:
    if method_of_tensor(fact, "tolist"):
        return Claim("`.tolist()` reads a tensor back to Python: the graph ends here")
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.fixes.rewriters.numbers import keep_tensors
    from tcready.fixes.rewriters.parts import padded_parts
    from tcready.fixes.rewriters.places import over_places

    if found := [*over_places(place)]:
        yield from found
        return
    yield from padded_parts(place)
    yield from keep_tensors(place)


RULE = Rule(
    code="TCR202",
    name="tensor-tolist",
    effect="graph_break",
    level="error",
    gb_ids=("GB0109", "GB0033"),
    facts=(Call,),
    check=check,
    rewrite=rewrite,
    module=__name__,
)
