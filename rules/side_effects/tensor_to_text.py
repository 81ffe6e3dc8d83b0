"""A tensor is converted to a string with `str` or `repr`."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call, Format
from tcready.static.domain.values import Plain, Value, options, tensor_of


def check(fact: Call | Format) -> Claim | None:
    if isinstance(fact, Format):
        return Claim("`%` formats a tensor: the graph ends here") if fact.at_once else None
    name = fact.constructed
    if name in ("str", "repr") and fact.args and tensor_of(fact.args[0]):
        return Claim(f"`{name}` of a tensor needs its values: the graph ends here")
    if name == "len" and any(map(text_of_tensor, fact.args)):
        return Claim("the length of a string with a tensor is used: the function runs eagerly", effect="frame_skip")
    return None


def text_of_tensor(value: Value) -> bool:
    """An f-string that a tensor was written into."""
    return any(isinstance(v, Plain) and v.kind == "str" and v.origin == "tensor" for v in options(value))


RULE = Rule(
    code="TCR304",
    gb_ids=("GB0059", "GB0569", "GB0088", "GB0208", "GB0033"),
    facts=(Call, Format),
    check=check,
    no_rewrite="The string needs the values. Create it outside of the compiled code.",
    module=__name__,
)
