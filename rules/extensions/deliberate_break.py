"""The code ends the graph deliberately: `torch.compiler.disable`, `graph_break`."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call


def check(fact: Call) -> Claim | None:
    name = fact.constructed
    if name.endswith("()") and fact.gb_id:
        return Claim("a function that is excluded from compilation is called: the graph ends here")
    if name == "torch._dynamo.graph_break":
        return Claim("`graph_break()` ends the graph here, as requested")
    return None


RULE = Rule(
    code="TCR410",
    level="warning",
    gb_ids=("GB0025", "GB0098", "GB0099", "GB0007"),
    facts=(Call,),
    check=check,
    no_rewrite="The break is deliberate.",
    module=__name__,
)
