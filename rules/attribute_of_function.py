"""An attribute of a class of `torch.autograd.Function` is used in compiled code.

## What it does
Finds arithmetic, comparisons, indexing and loops with an attribute that is read from a class of
`torch.autograd.Function`, tests of its truth value, and calls that receive it. Also finds `hasattr`, and
`getattr` with a default, of such a class.

## Why it hurts torch.compile
Dynamo looks up only `apply` and methods of such a class. Anything else it keeps as an unresolved object
without a value, so the graph ends where the object is used. Dynamo cannot add to such an object or loop over
it, so in most cases the whole function runs eagerly.

## Use instead
Store the value outside of the class: as a constant of the module, or as an attribute of the model that is set
from it in `__init__` (`self.names = Spike.names`).

## Limits
If the attribute is only returned, stored or compared with None, it is traced and not reported. For an
attribute in an f-string, Dynamo reports nothing, and neither does this rule: the function runs eagerly.
"""

from tcready.rules._unresolved import claim_of_use
from tcready.static.engine.facts import Unresolved
from tcready.static.engine.knowledge import OF_FUNCTION
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Unresolved) -> Claim | None:
    return claim_of_use("an attribute of an autograd function", fact) if fact.value is OF_FUNCTION else None


RULE = Rule(
    code="TCR424",
    name="attribute-of-function",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0055",
        "GB0150",
        "GB0156",
        "GB4347",
        "GB4841",
        "GB6215",
    ),
    facts=(Unresolved,),
    check=check,
    no_rewrite="The author has to decide where to store the value instead.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        scale = getattr(Double, "scale", 3)  # BAD
        y = y * scale
        if hasattr(Double, "wide"):  # BAD
            y = y + 1
        return Double.apply(y)
""",
            setup="""
class Double(torch.autograd.Function):
    scale = 2
    wide = True

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2
""",
        ),
        Sample(
            """
def last(x, function):
    return [x[name] for name in function.names]  # BAD


class Model(nn.Module):
    def forward(self, x):
        y = {"a": x * 2, "b": x * 3}
        return Double.apply(last(y, Double)[0])
""",
            setup="""
class Double(torch.autograd.Function):
    names = ["b"]

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2
""",
        ),
        Sample(
            """
class Model(nn.Module):
    function = Double

    def forward(self, x):
        y = x * 2
        if self.function.wide:  # BAD
            y = y + 1
        return self.function.apply(y) * 2
""",
            setup="""
class Double(torch.autograd.Function):
    wide = True

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        size = len(Double.names)  # BAD
        y = y * size
        return Double.scaled(y) * 2
""",
            setup="""
class Double(torch.autograd.Function):
    names = ["b"]
    scale = 2

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

    @classmethod
    def scaled(cls, x):
        return torch.mul(x, cls.scale)  # BAD
""",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = Double.scale
        self.names = Double.names

    def forward(self, x):
        y = Double.thrice(x) + self.scale
        for name in self.names:
            y = y + len(name)
        if Double.scale is None:
            return y
        return Double.apply(y)
""",
            setup="""
class Double(torch.autograd.Function):
    scale = 3
    names = ("a", "bc")

    @staticmethod
    def twice(x):
        return x * 2

    @classmethod
    def thrice(cls, x):
        return cls.twice(x) + x

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2
""",
        ),
    ),
)
