"""A list that a method of `str` returned is changed in place."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call, Index
from tcready.static.domain.values import Sequence, Value, likely, options

CHANGING = frozenset("append extend insert pop remove clear sort reverse".split())


def check(fact: Call | Index) -> Claim | None:
    if isinstance(fact, Index):
        if fact.mode != "load" and _is_constant(fact.base):
            return Claim("an item of a list that a method of `str` returned is assigned: the graph ends here")
        return None
    if fact.method in CHANGING and fact.receiver is not None and _is_constant(fact.receiver):
        return Claim(f"`{fact.method}` on a list that a method of `str` returned: the graph ends here")
    return None


def _is_constant(value: Value) -> bool:
    return all(isinstance(v, Sequence) and v.constant and v.kind == "list" for v in options(likely(value)))


RULE = Rule(
    code="TCR324",
    gb_ids=("GB0156", "GB7786"),
    facts=(Call, Index),
    check=check,
    rewriters=("state.own_list",),
    may_autofix=True,
    module=__name__,
)
