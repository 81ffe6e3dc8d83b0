"""`warnings.warn` is called in compiled code."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call

FILTERS = frozenset({"warnings.simplefilter", "warnings.filterwarnings"})
"""The tables have no call of these: measured on torch 2.13."""


def check(fact: Call) -> Claim | None:
    name = fact.constructed
    if name in FILTERS or (name.startswith("warnings.") and fact.gb_id):
        return Claim(f"`{name}` in compiled code: the graph ends here", regardless=True)
    return None


RULE = Rule(
    code="TCR303",
    gb_ids=("GB0007",),
    facts=(Call,),
    check=check,
    side_output_only=True,
    rewriters=("messages.unless_compiling",),
    may_autofix=True,
    module=__name__,
)
