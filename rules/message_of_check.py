"""The message of `torch._check` is a string, or depends on objects.

## What it does
Finds `torch._check(condition, message)` and similar functions if the message is a string, a function that is
not defined in the code that runs, or a lambda that reads a tensor or an object (`self`) of the enclosing
function.

## Why it hurts torch.compile
Dynamo puts the check into the graph, together with the text of its message, which it computes while tracing.
It accepts only a function that is defined in the compiled code and reads nothing from its enclosing scope
except constants and sizes. Otherwise the graph ends at the call.

## Use instead
`torch._check(n > 0, lambda: f"{n} rows")`, with the values for the message in local variables:
`n = x.shape[0]`.

## Limits
A message that is an argument from code that is not read is assumed to be valid.
"""

from tcready.static.engine.facts import CheckMessage
from tcready.static.rule import Claim, Rule, Sample

WORDS = {
    "elsewhere": "the message of the check is not a function that is defined here: the graph ends at the call",
    "of objects": "the message of the check reads a tensor or an object: the graph ends at the call",
}


def check(fact: CheckMessage) -> Claim:
    return Claim(WORDS[fact.made], form=fact.made)


RULE = Rule(
    code="TCR420",
    name="message-of-check",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0288",
        "GB9158",
        "GB9840",
    ),
    facts=(CheckMessage,),
    check=check,
    no_rewrite="What the message is to say has to be put into variables first, which is for the author to word.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        torch._check(x.shape[0] > 1, "too few rows")  # BAD
        y = y + 1
        torch._check(x.dim() == 2, lambda: f"{x.dim()} dimensions")  # BAD
        y = y + 2
        torch._check_value(x.dim() == 2, lambda: f"{self.__class__.__name__} takes rows")  # BAD
        y = y + 3
        torch._check_with(ValueError, x.dim() == 2, worded)  # BAD
        return y + 4
""",
            setup="""
def worded():
    return "rows alone"
""",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        torch._check(rows > 1, lambda: f"{rows} rows of {columns}")
        torch._check(x.dim() == 2, lambda: "rows alone")
        torch._check(columns > 1)
        return x * 2
"""
        ),
    ),
)
