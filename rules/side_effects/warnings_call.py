"""`warnings.warn` is called in compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.diagnostics.rule import Claim, Declined, Rewrite, Rule
from tcready.static.domain.facts import Call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.diagnostics.cst_view import Located


FILTERS = frozenset({"warnings.simplefilter", "warnings.filterwarnings"})
"""The tables have no call of these: measured on torch 2.13."""


def check(fact: Call) -> Claim | None:
    name = fact.constructed
    if name in FILTERS or (name.startswith("warnings.") and fact.gb_id):
        return Claim(f"`{name}` in compiled code: the graph ends here", regardless=True)
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.fixes.rewriters.messages import unless_compiling

    return unless_compiling(place)


RULE = Rule(
    code="TCR303",
    name="warnings-call",
    effect="graph_break",
    level="error",
    gb_ids=("GB0007",),
    facts=(Call,),
    check=check,
    side_output_only=True,
    rewrite=rewrite,
    may_autofix=True,
    module=__name__,
)
