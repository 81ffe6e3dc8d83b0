"""A class is defined in compiled code."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call, Define
from tcready.static.domain.values import holds_tensor
from tcready.static.library.semantics import NEW_CLASS


def check(fact: Define | Call) -> Claim | None:
    if isinstance(fact, Call):
        if fact.function == NEW_CLASS:
            return Claim("a class that compiled code created is called: the graph ends here")
        if fact.name == "type" and len(fact.args) == 3 and holds_tensor(fact.args[2]):
            return Claim("a class is created with a tensor among its attributes: the graph ends here")
        return None
    return Claim(f"class `{fact.node.name}` is defined in compiled code: the graph ends here")


RULE = Rule(
    code="TCR316",
    gb_ids=("GB8977", "GB0147", "GB0193", "GB0088"),
    facts=(Define, Call),
    check=check,
    no_rewrite="At module level, the class has to receive the variables of the enclosing function as arguments.",
    module=__name__,
)
