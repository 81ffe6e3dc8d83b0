"""A tensor that requires a gradient is created in the forward."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import Const, Tensor, likely


def check(fact: Call) -> Claim | None:
    module, _, name = fact.constructed.rpartition(".")
    made = module == "torch" or (isinstance(fact.receiver, Tensor) and fact.method == "new_tensor")
    requires_grad = fact.keyword("requires_grad")
    if not made or requires_grad is None or likely(requires_grad) != Const(True):
        return None
    return Claim(
        f"`{fact.method or name}` with `requires_grad=True` in compiled code: the graph ends here",
        confidence=None if requires_grad == Const(True) else "medium",
    )


RULE = Rule(
    code="TCR325", gb_ids=("GB0225",), facts=(Call,), check=check, rewriters=("state.plain_leaf",), module=__name__
)
