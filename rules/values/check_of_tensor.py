"""A tensor is checked with `torch._check_tensor_all`, which reads its values."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import tensor_of

NAMES = frozenset({"torch._check_tensor_all", "torch._check_tensor_all_with"})


def check(fact: Call) -> Claim | None:
    if fact.name in NAMES and any(tensor_of(arg) for arg in fact.args):
        return Claim(f"`{fact.name}` reads the tensor it checks: the graph ends here")
    return None


RULE = Rule(
    code="TCR212", gb_ids=("GB0124",), facts=(Call,), check=check, rewriters=("truths.rewrite_check",), module=__name__
)
