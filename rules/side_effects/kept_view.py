"""A view of a dict, or an iterator, that was created before the compiled call is iterated over in it."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call, Contains, Loop
from tcready.static.domain.values import Sequence, Value, options

WALKING = frozenset("list tuple set sum len max min sorted dict any all iter next".split())


def check(fact: Call | Loop | Contains) -> Claim | None:
    if isinstance(fact, Call):
        view = kind_of_view(fact.args[0]) if fact.constructed in WALKING and fact.args else None
        return Claim(f"`{fact.constructed}` iterates over {view}: the graph ends here") if view else None
    view = kind_of_view(fact.value if isinstance(fact, Loop) else fact.container)
    return Claim(f"{view} is iterated over: the function runs eagerly", effect="frame_skip") if view else None


def kind_of_view(value: Value) -> str | None:
    """What a view or an iterator that outlives the compiled call is called; None for anything else."""
    kinds = [v.kind for v in options(value) if isinstance(v, Sequence) and v.escaping]
    if "view" in kinds:
        return "a view of a dict that was created before the call"
    return "an iterator that was created before the call" if "iterator" in kinds else None


RULE = Rule(
    code="TCR326",
    gb_ids=("GB0811", "GB4347", "GB6012", "GB0116", "GB9493"),
    facts=(Call, Contains, Loop),
    check=check,
    no_rewrite="Create a list instead of the view, or store the dict. That code is elsewhere.",
    module=__name__,
)
