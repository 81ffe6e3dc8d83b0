"""A foreign function is called through `ctypes` in compiled code."""

from tcready.fixes.rewriters.names import receiver_class
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call


def check(fact: Call) -> Claim | None:
    if fact.constructed.startswith("ctypes.") or receiver_class(fact).startswith("ctypes."):
        return Claim("call through `ctypes`: the graph ends here")
    return None


RULE = Rule(
    code="TCR402",
    gb_ids=("GB0156", "GB8977"),
    facts=(Call,),
    check=check,
    no_rewrite="Only the library determines the shapes. Register the call as an operator with a fake kernel.",
    module=__name__,
)
