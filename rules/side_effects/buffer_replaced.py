"""An attribute that holds an `nn.Buffer` is assigned the same buffer again in the forward."""

from __future__ import annotations

import ast

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Store
from tcready.static.domain.values import Tensor, options, tensor_of

CONVERSIONS = frozenset("to float type type_as contiguous cpu cuda".split())
"""Methods that give back the tensor itself if there is nothing to convert."""


def check(fact: Store) -> Claim | None:
    if fact.kind != "attribute" or not fact.own_module:
        return None
    if any(isinstance(v, Tensor) and v.buffer for v in options(fact.value)) and fact.source is not None:
        if isinstance(fact.source, ast.Call) and not fact.where.symbol.endswith(".__init__"):
            return Claim(f"`{fact.name}` is assigned an nn.Buffer in the forward: the graph ends here")
    was_buffer = fact.old is not None and any(isinstance(v, Tensor) and v.buffer for v in options(fact.old))
    if not was_buffer or not tensor_of(fact.value):
        return None
    if isinstance(fact.node, ast.Attribute) and _gives_itself(fact.source, fact.node):
        return Claim(f"`{fact.name}` holds an nn.Buffer and is assigned the same buffer again: the graph ends here")
    return None


def _gives_itself(source: ast.expr | None, target: ast.Attribute) -> bool:
    """`self.table.to(dtype)`, `self.table.add_(1)`."""
    if not isinstance(source, ast.Call) or not isinstance(source.func, ast.Attribute):
        return False
    name = source.func.attr
    if name not in CONVERSIONS and not (name.endswith("_") and not name.startswith("_")):
        return False
    return name != "requires_grad_" and ast.unparse(source.func.value) == ast.unparse(target)


RULE = Rule(
    code="TCR323",
    gb_ids=("GB4841", "GB0170"),
    facts=(Store,),
    check=check,
    rewriters=("state.keep_buffer",),
    may_autofix=True,
    module=__name__,
)
