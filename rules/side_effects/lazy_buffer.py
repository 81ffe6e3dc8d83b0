"""`register_buffer` or `register_parameter` is called in the forward."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call


def check(fact: Call) -> Claim | None:
    built = fact.where.symbol.endswith(".__init__")
    if fact.method in ("register_buffer", "register_parameter") and not built:
        return Claim(f"`{fact.method}` in the forward: the second call recompiles")
    return None


RULE = Rule(
    code="TCR314",
    effect="recompile",
    level="warning",
    facts=(Call,),
    check=check,
    no_rewrite="Its content depends on the call, so `__init__` cannot register it.",
    module=__name__,
)
