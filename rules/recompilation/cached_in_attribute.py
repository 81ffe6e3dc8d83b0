"""The `forward` stores a size, or a value that the first call creates, on the module."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Store
from tcready.static.domain.values import Const, Plain, Value, options, tensor_of


def check(fact: Store) -> Claim | None:
    if fact.kind != "attribute" or not fact.own_module or fact.augmented:
        return None
    if fact.old is None:
        if fact.where.conditional and tensor_of(fact.value):
            return Claim(f"`{fact.name}` is first created in the forward: the next call recompiles", "medium")
        return None
    if size(fact.value) and number(fact.old):
        return Claim(f"`{fact.name}` stores a size: if it is read first, each change causes a recompilation", "medium")
    return None


def size(value: Value) -> bool:
    return any(isinstance(v, Plain) and v.origin == "shape" and v.kind == "int" for v in options(value))


def number(value: Value) -> bool:
    return any(isinstance(v, Plain) or (isinstance(v, Const) and isinstance(v.value, int)) for v in options(value))


RULE = Rule(
    code="TCR504",
    effect="recompile",
    level="note",
    facts=(Store,),
    check=check,
    no_rewrite="The author has to decide what to cache and for how long. Create it before the first call.",
    module=__name__,
)
