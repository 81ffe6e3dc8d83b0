"""A list of the module, a global or a closure grows in each call."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call, Store
from tcready.static.domain.values import Sequence, Value, options


def check(fact: Call | Store) -> Claim | None:
    if isinstance(fact, Store):
        if fact.augmented and isinstance(fact.value, Sequence) and fact.old is not None and is_module_state(fact.old):
            return Claim(f"`{fact.name}` grows in each call: its length is guarded, so each call recompiles")
        return None
    if fact.method in ("append", "extend", "insert") and fact.receiver is not None and is_module_state(fact.receiver):
        return Claim(
            f"`{fact.method}` on a list that outlives the call: its length is guarded, so each call recompiles"
        )
    return None


def is_module_state(value: Value) -> bool:
    """A list of a module, a global or an enclosing function."""
    return any(isinstance(v, Sequence) and v.kind == "list" and v.escaping for v in options(value))


RULE = Rule(
    code="TCR312",
    effect="recompile",
    facts=(Call, Store),
    check=check,
    no_rewrite="Other code may read a list that outlives the call. Return the values instead of storing them.",
    module=__name__,
)
