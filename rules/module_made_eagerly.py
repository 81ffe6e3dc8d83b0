"""A module is made in compiled code, and another break makes Python run its constructor.

## What it does
Finds the first use of the module, mostly the call of `super().__init__()`, in the constructors of modules that are made
in the forward, where something in the making breaks, or where all of the function that makes the module runs as
eager code.

## Why it hurts torch.compile
Dynamo traces the making of a module as part of the function that makes it. A break ends that, and Python calls the
constructor: Dynamo looks at it by itself then, meets a module with nothing set on it, and gives the function up. So
does each constructor of a base class, up to the one of `nn.Module`.

## Use instead
Make the module in `__init__`, once; or a plain object or a function if it holds no state. Where the other break goes,
this one goes too.

## Limits
A constructor that is traced to its end does not break and is not reported.
"""

from tcready.static.engine.facts import Initialised
from tcready.static.rule import Claim, Rule, Sample


def check(_fact: Initialised) -> Claim:
    return Claim("a module is made in compiled code, and another break makes Python run its constructor")


RULE = Rule(
    code="TCR332",
    name="module-made-eagerly",
    effect="frame_skip",
    level="warning",
    gb_ids=("GB0119",),
    facts=(Initialised,),
    check=check,
    follows=True,
    no_rewrite="Where a module can be made instead depends on what it is made of.",
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
