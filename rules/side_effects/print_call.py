"""`print` is called in compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.static.diagnostics.rule import Claim, Declined, Rewrite, Rule
from tcready.static.domain.facts import Call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.diagnostics.cst_view import Located


def check(fact: Call) -> Claim | None:
    if fact.constructed in ("print", "pprint.pprint"):
        return Claim("`print` in compiled code: the graph ends here", regardless=True)
    return None


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.fixes.rewriters.messages import unless_compiling

    return unless_compiling(place)


RULE = Rule(
    code="TCR301",
    name="print-call",
    effect="graph_break",
    level="error",
    gb_ids=("GB0059", "GB0156"),
    facts=(Call,),
    check=check,
    side_output_only=True,
    rewrite=rewrite,
    may_autofix=True,
    module=__name__,
)
