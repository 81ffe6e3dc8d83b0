"""An `if` compares a size with a bound (`if x.shape[0] > 4`)."""

import ast

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Test
from tcready.static.domain.values import Plain, options

ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def check(fact: Test) -> Claim | None:
    if fact.kind not in ("if", "while", "ifexp") or not isinstance(fact.node, ast.Compare) or fact.guards:
        return None
    sides = (fact.node.left, *fact.node.comparators)
    if any(isinstance(side, ast.Constant) and side.value in (0, 1) for side in sides):
        return None
    if not all(isinstance(op, ORDER) for op in fact.node.ops):
        return None
    if any(isinstance(v, Plain) and v.origin == "shape" for v in options(fact.value)):
        return Claim("branch on a size: the bound is guarded, and a size beyond it causes a recompilation")
    return None


RULE = Rule(
    code="TCR502",
    effect="recompile",
    level="note",
    facts=(Test,),
    check=check,
    no_rewrite="The branch is traced. If the sizes vary, mark them dynamic, or pad.",
    module=__name__,
)
