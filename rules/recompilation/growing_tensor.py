"""A tensor of the module grows in each call (`self.cache = torch.cat([self.cache, x])`)."""

import ast

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Store
from tcready.static.domain.values import tensor_of

JOINING = frozenset("cat concat concatenate stack hstack vstack".split())


def check(fact: Store) -> Claim | None:
    if fact.kind != "attribute" or not fact.augmented or tensor_of(fact.value) is None:
        return None
    if isinstance(fact.source, ast.Call) and ast.unparse(fact.source.func).rpartition(".")[2] in JOINING:
        message = f"`{fact.name}` is a longer tensor in each call: its size is guarded, so it recompiles"
        return Claim(message, of_size=True)
    return None


RULE = Rule(
    code="TCR503",
    effect="recompile",
    level="warning",
    facts=(Store,),
    check=check,
    no_rewrite="Only the author knows the maximum length. Allocate that at first, and store how much is used.",
    module=__name__,
)
