"""An operator that a class overloads is used between an instance of the class and a tensor.

## What it does
Finds `+`, `@`, `*` and every other arithmetic operator between a tensor and an object whose class has a
method for it (`__add__`, `__rmatmul__`), including augmented assignments (`+=`) and the functions of
`operator`. Also finds `@` between such an object and anything else.

## Why it hurts torch.compile
If one operand is a tensor, Dynamo assumes the operator of tensors and puts it into the graph, which cannot
contain the other operand. It never calls the method of the class. The whole function that contains the
operator runs eagerly.

## Use instead
A method that is called by name: `rotation.apply(x)` instead of `rotation @ x`. The operator can remain for
eager code and call that method.

## Limits
Comparisons are traced. All operators except `@` are traced between two such objects, or with a number. Named
tuples, members of an enum, subclasses of `int` and `float`, and classes with a `__torch_function__` are
traced too.
"""

from tcready.static.engine.facts import Overloaded
from tcready.static.engine.values import Instance, likely
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Overloaded) -> Claim:
    return Claim(
        "an operator that a class overloads: Dynamo assumes the operator of tensors",
        effect="frame_skip" if fact.written else None,
        confidence=None if fact.sure else "medium",
        form="between two objects" if isinstance(likely(fact.other), Instance) else "",
    )


RULE = Rule(
    code="TCR331",
    name="operator-with-object",
    effect="graph_break",
    level="error",
    gb_ids=("GB0055", "GB0059"),
    facts=(Overloaded,),
    check=check,
    no_rewrite="The class needs a named method, and it may not be yours.",
    page=__doc__,
    bad=(
        Sample(
            """
class Rotation:
    def __init__(self, matrix):
        self.matrix = matrix

    def __matmul__(self, points):
        return self.matrix @ points


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.turn = Rotation(torch.eye(4))

    def forward(self, x):
        y = x * 2
        return self.turn @ y  # BAD
"""
        ),
        Sample(
            """
class Gain:
    def __init__(self, factor):
        self.factor = factor

    def __rmul__(self, signal):
        return signal * self.factor


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        y *= Gain(x.mean())  # BAD
        return y
"""
        ),
        Sample(
            """
import operator


class Gain(nn.Module):
    def __mul__(self, signal):
        return signal * 3


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = Gain()

    def forward(self, x):
        y = x * 2
        return operator.mul(self.gain, y) + 1  # BAD
"""
        ),
        Sample(
            """
class Rotation:
    def __init__(self, matrix):
        self.matrix = matrix

    def __matmul__(self, other):
        return Rotation(self.matrix @ other.matrix)


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        turn = Rotation(torch.eye(4)) @ Rotation(y)  # BAD
        return turn.matrix
"""
        ),
    ),
    good=(
        Sample(
            """
from typing import NamedTuple


class Rotation:
    def __init__(self, matrix):
        self.matrix = matrix

    def apply(self, points):
        return self.matrix @ points

    def __add__(self, other):
        return Rotation(self.matrix + other.matrix)

    def __mul__(self, count):
        return Rotation(self.matrix * count)

    def __gt__(self, points):
        return self.matrix > points


class Pair(NamedTuple):
    low: float
    high: float

    def __mul__(self, points):
        return points.clamp(self.low, self.high)


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        turn = (Rotation(torch.eye(4)) + Rotation(torch.ones(4, 4))) * x.shape[0]
        return turn.apply(y) + Pair(0.0, 1.0) * y + (turn > y[:, :4]).sum()
"""
        ),
    ),
)
