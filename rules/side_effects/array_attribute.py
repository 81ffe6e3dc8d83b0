"""An attribute of a numpy array is read that Dynamo does not model."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Attribute, Call
from tcready.static.library.semantics import ARRAY

UNMODELLED = frozenset({"base", "dtype", "flags"})
"""Attributes of `numpy.ndarray` that `NumpyNdarrayVariable.var_getattr` of torch 2.13 gives up (each run)."""
BYTES = frozenset({"tobytes", "tostring"})
"""Methods that its `call_method` gives up."""


def check(fact: Attribute | Call) -> Claim | None:
    if isinstance(fact, Call):
        if fact.method in BYTES and fact.receiver == ARRAY:
            return Claim(f"`.{fact.method}()` of a numpy array, which is a tensor to Dynamo: the graph ends here")
        return None
    if fact.owner == ARRAY and fact.name in UNMODELLED:
        return Claim(f"`.{fact.name}` of a numpy array, which is a tensor to Dynamo: the graph ends here")
    return None


RULE = Rule(
    code="TCR335",
    gb_ids=("GB0157", "GB0158"),
    facts=(Attribute, Call),
    check=check,
    no_rewrite="The code that creates the array and determines its dtype is elsewhere.",
    module=__name__,
)
