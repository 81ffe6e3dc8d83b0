"""A member of an enum is used as the number or string that it also is.

## What it does
Finds methods of numbers and strings that are called on a member of an `enum.IntEnum`, of a
`class Mode(str, Enum)` and similar classes. Also finds such a member as the index of a list, a tuple, a size
or an `nn.ModuleList`; `float` of a member; and a string member that is iterated over, searched or
concatenated before another string.

## Why it hurts torch.compile
Python treats the member as the number or string. In Dynamo it is an object that supports less, and the graph
ends at a method call on it. The effect of an index or `float` depends on the version: torch 2.13 fails with
an infinite recursion, and the compiled call raises an error.

## Use instead
Append `.value` to the member: `self.layers[Kind.WORD.value]`, `self.mode.value.upper()`. Or store that in
`__init__`.

## Limits
Arithmetic, comparisons between members, f-strings, keys of a dict and `len` are traced and not reported. The
uses that are not traced were tested with each version of torch that tcready has tables for.
"""

from tcready.rules._members import KINDS, claim_of_use
from tcready.static.engine.facts import DIFFERS, RAISES, OfMember
from tcready.static.rule import Claim, Rule, Sample

OF_TENSORS = ("tensor", "attribute", "argument")


def check(fact: OfMember) -> Claim | None:
    if fact.use.startswith(OF_TENSORS):
        return None
    kind = "string" if fact.use.startswith("text") else "number"
    ends = {DIFFERS: "the result differs", RAISES: "tracing raises"}
    message = f"a member of an enum is used as a {kind}: {ends.get(fact.outcome, 'the graph ends here')}"
    return claim_of_use(fact, message, "graph_break")


RULE = Rule(
    code="TCR425",
    name="member-as-value",
    effect="graph_break",
    level="error",
    gb_ids=("GB0007", "GB0088", "GB0150", "GB0156", "GB0811", "GB4411", "GB9493"),
    facts=(OfMember,),
    check=check,
    no_rewrite="Any expression may denote the member. Append `.value` to it.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = Mode.SUM

    def forward(self, x):
        y = x * 2
        if self.mode.upper() == "SUM":  # BAD
            y = y + 1
        return y * Kind.WORD.bit_length()  # BAD
""",
            setup=KINDS,
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.ReLU()])
        self.kind = Kind.WORD

    def forward(self, x):
        return self.layers[self.kind](x)  # BAD
""",
            setup=KINDS,
            raises="RecursionError",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        scales = [1, 2]
        return x * scales[Kind.WORD] * float(Kind.WORD) * x.shape[Kind.NONE]  # BAD
""",
            setup=KINDS,
            raises="RecursionError",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.ReLU()])
        self.kind = Kind.WORD
        self.mode = Mode.SUM

    def forward(self, x):
        y = self.layers[self.kind.value](x)
        if self.mode.value.upper() == "SUM" and len(self.mode) == 3 and f"{self.mode.value}" == "sum":
            y = y + {Kind.NONE: 1, Kind.WORD: 2}[self.kind]
        if self.mode == "sum" and self.kind > Kind.NONE:
            y = y * (self.kind + 1)
        return y
""",
            setup=KINDS,
        ),
    ),
)
