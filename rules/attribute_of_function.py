"""What a class of `torch.autograd.Function` has as an attribute is used in compiled code.

## What it does
Finds computing, comparing, indexing and looping with an attribute that is read from a class of
`torch.autograd.Function`, a question for its truth, and calls that are given it; `hasattr`, and `getattr` with a
default, of such a class.

## Why it hurts torch.compile
Of such a class Dynamo looks up `apply` and methods. Anything else it keeps as it stands, and takes it for an
object without a value: the graph ends where something is asked of it. In Dynamo's eyes it cannot be added to or looped
over, so that most often the whole function runs as eager code.

## Use instead
Keep the value outside of the class: a constant of the module, or an attribute of the model that is set from it in
`__init__` (`self.names = Spike.names`).

## Limits
What is only returned, kept or compared with None is traced and not reported. Of one in an f-string Dynamo says nothing,
and neither is that: the function runs as eager code.
"""

from tcready.rules._unresolved import used
from tcready.static.engine.facts import Unresolved
from tcready.static.engine.knowledge import OF_FUNCTION
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Unresolved) -> Claim | None:
    return used("an attribute of an autograd function", fact) if fact.value is OF_FUNCTION else None


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
    no_rewrite="Where the value is to stand instead is for its author to say.",
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
