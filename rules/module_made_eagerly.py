"""A module is constructed in compiled code, and another break makes Python run its constructor.

## What it does
Finds the first use of the module, usually the call of `super().__init__()`, in the constructors of modules
that the forward constructs, if something in the construction breaks, or if the whole function that constructs
the module runs eagerly.

## Why it hurts torch.compile
Dynamo traces the construction of a module as part of the function that constructs it. A break ends that, and
Python calls the constructor. Dynamo then compiles the constructor separately, finds a module without any
attributes, and skips the function. The same happens in each constructor of a base class, up to the one of
`nn.Module`.

## Use instead
Construct the module once, in `__init__`. If it holds no state, use a plain object or a function. If you
remove the other break, this one disappears too.

## Limits
A constructor that is traced completely does not break and is not reported.
"""

from tcready.static.engine.facts import Initialised
from tcready.static.rule import Claim, Rule, Sample


def check(_fact: Initialised) -> Claim:
    return Claim(
        "a module is constructed in compiled code, and another break makes Python run its constructor"
    )


RULE = Rule(
    code="TCR332",
    name="module-made-eagerly",
    effect="frame_skip",
    level="warning",
    gb_ids=("GB0119",),
    facts=(Initialised,),
    check=check,
    follows=True,
    no_rewrite="Where the module can be constructed instead depends on its arguments.",
    page=__doc__,
    bad=(
        Sample(
            """
class Gate(nn.Module):
    def __init__(self, x):
        super().__init__()  # BAD
        self.open = x.sum().item()  # CAUSE

    def forward(self, x):
        return x * self.open


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return Gate(y)(y)
"""
        ),
        Sample(
            """
class Base(nn.Module):
    def __init__(self, scale):
        super().__init__()  # BAD
        self.scale = scale


class Gate(Base):
    def __init__(self, scale):
        Base.__init__(self, scale)  # BAD
        self.shift = 1

    def forward(self, x):
        return x * self.scale + self.shift


class Model(nn.Module):
    def forward(self, x):
        y = Gate(x.mean())(x)
        for _ in range(2):
            print("again")  # CAUSE
            y = y * 2
        return y
"""
        ),
    ),
    good=(
        Sample(
            """
class Base(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale


class Gate(Base):
    def __init__(self, scale):
        super().__init__(scale)
        self.shift = 1

    def forward(self, x):
        return x * self.scale + self.shift


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return Gate(x.mean())(y)
"""
        ),
    ),
)
