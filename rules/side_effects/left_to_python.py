"""Python runs a generator or comprehension, because another break makes the function run eagerly."""

import ast

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Alone, Consumed


def check(fact: Alone | Consumed) -> Claim | None:
    if isinstance(fact, Consumed):
        return Claim(
            "this call runs code that breaks, and Dynamo cannot recreate its generator expression: "
            "the function runs eagerly",
            form="" if fact.used_up else "holds what nothing reads behind it",
        )
    if fact.entry:
        return None
    if not fact.compiled:
        return Claim(
            "this comprehension calls code that breaks, and Dynamo cannot pass its iterator on: "
            "the function runs eagerly"
        )
    comprehension = isinstance(fact.node, (ast.ListComp, ast.SetComp, ast.DictComp))
    what = "comprehension" if comprehension else "generator"
    return Claim(f"Python runs this {what}, because of another break around it: it is not compiled")


RULE = Rule(
    code="TCR333",
    effect="frame_skip",
    level="warning",
    gb_ids=("GB0003", "GB0091", "GB4347", "GB8335"),
    facts=(Alone, Consumed),
    check=check,
    follows=True,
    no_rewrite="Fix the other break.",
    module=__name__,
)
