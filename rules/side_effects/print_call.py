"""`print` is called in compiled code."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call


def check(fact: Call) -> Claim | None:
    if fact.constructed in ("print", "pprint.pprint"):
        return Claim("`print` in compiled code: the graph ends here", regardless=True)
    return None


RULE = Rule(
    code="TCR301",
    gb_ids=("GB0059", "GB0156"),
    facts=(Call,),
    check=check,
    side_output_only=True,
    rewriters=("messages.unless_compiling",),
    may_autofix=True,
    module=__name__,
)
