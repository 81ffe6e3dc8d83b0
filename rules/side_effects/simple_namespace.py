"""A `types.SimpleNamespace` is created or modified in compiled code."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call, Store
from tcready.static.domain.values import ExternalInstance, Value, options


def check(fact: Call | Store) -> Claim | None:
    if isinstance(fact, Store):
        written = fact.kind == "attribute" and fact.owner is not None and namespace(fact.owner)
    elif fact.constructed == "types.SimpleNamespace":
        return Claim("a `SimpleNamespace` is created in compiled code: the graph ends here")
    else:
        written = fact.constructed == "setattr" and bool(fact.args) and namespace(fact.args[0])
    return Claim("an attribute of a `SimpleNamespace` is set: the graph ends here") if written else None


def namespace(value: Value) -> bool:
    return any(isinstance(v, ExternalInstance) and v.name == "types.SimpleNamespace" for v in options(value))


RULE = Rule(
    code="TCR309",
    gb_ids=("GB0147", "GB0156"),
    facts=(Call, Store),
    check=check,
    no_rewrite="Other code may read the object. A dataclass that is defined at module level is traced.",
    module=__name__,
)
