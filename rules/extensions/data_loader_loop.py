"""Compiled code iterates over a `DataLoader`."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call, Loop
from tcready.static.domain.values import ExternalInstance, Value, options


def check(fact: Call | Loop) -> Claim | None:
    if isinstance(fact, Loop):
        if loader(fact.value):
            return Claim("a loop over a `DataLoader`: the function runs eagerly", effect="frame_skip")
        return None
    if fact.constructed in ("iter", "enumerate") and fact.args and loader(fact.args[0]):
        return Claim("a `DataLoader` is iterated over in compiled code: the graph ends here")
    return None


def loader(value: Value) -> bool:
    return any(isinstance(v, ExternalInstance) and v.name.startswith("torch.utils.data.") for v in options(value))


RULE = Rule(
    code="TCR411",
    gb_ids=("GB0008",),
    facts=(Call, Loop),
    check=check,
    no_rewrite="The loop has to be outside of the compiled code. The author has to decide where to split it.",
    module=__name__,
)
