"""A tensor is converted to a string with `str` or `repr`.

## What it does
Finds `str(t)`, `repr(t)` and `"%s" % t` of a tensor, and `len` of an f-string that contains a tensor.

## Why it hurts torch.compile
The string contains the values, which Dynamo does not have while tracing. The graph ends at the call.

## Use instead
Format what is known while tracing (`t.shape`, `t.dtype`), or create the string outside of the compiled
region.

## Limits
An f-string of a tensor breaks the graph only if the string is used. Of such uses, this rule reports only
`len`.
"""

from tcready.static.engine.facts import Call, Format
from tcready.static.engine.values import Plain, Value, options, tensor_of
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call | Format) -> Claim | None:
    if isinstance(fact, Format):
        return Claim("`%` formats a tensor: the graph ends here") if fact.at_once else None
    name = fact.constructed
    if name in ("str", "repr") and fact.args and tensor_of(fact.args[0]):
        return Claim(f"`{name}` of a tensor needs its values: the graph ends here")
    if name == "len" and any(map(text_of_tensor, fact.args)):
        return Claim(
            "the length of a string with a tensor is used: the function runs eagerly", effect="frame_skip"
        )
    return None


def text_of_tensor(value: Value) -> bool:
    """An f-string that a tensor was written into."""
    return any(isinstance(v, Plain) and v.kind == "str" and v.origin == "tensor" for v in options(value))


RULE = Rule(
    code="TCR304",
    name="tensor-to-text",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0059",
        "GB0569",
        "GB0088",
        "GB0208",
        "GB0033",
    ),
    facts=(Call, Format),
    check=check,
    no_rewrite="The string needs the values. Create it outside of the compiled code.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        text = str(y)  # BAD
        again = repr(y)  # BAD
        return y + len(text) + len(again)
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        text = "%s" % y.mean()  # BAD
        return y + len(text)
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        text = f"{y.sum()}"
        return y + len(text)  # BAD
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        text = str(y.shape)
        again = repr(y.dtype)
        return y + len(text) + len(again)
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        unused = f"{y.mean():.3f}"
        shape = f"{x.shape[0]} {x.dtype} {x.device}"
        text = "{}".format(x.shape) + "%s" % x.dim() + ",".join(["a", "b"])
        return y + len(shape) + len(text)
"""
        ),
    ),
)
