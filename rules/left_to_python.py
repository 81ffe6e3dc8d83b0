"""A generator or comprehension is run by Python, as another break runs the code around it eagerly.

## What it does
Finds generator expressions, functions with a `yield`, those under `contextlib.contextmanager` among them, and
comprehensions, where Python runs the code that makes them: in a function that another break sends to eager as a
whole, as one in a loop does, and in helpers that are called from there and hold no tensor, or work none out. Of
comprehensions those over a list, a dict, `zip`, `enumerate` or the like that hold a tensor, a module or a name of
torch, before Python 3.12; those over anything but a list, also where a break stands in the comprehension itself. Also
comprehensions over `enumerate`, views of a dict and the like in which a function is called that breaks. Also calls
that go through a generator expression at once, by `sum` or a function of the user's, if what they run breaks: to hand
the generator to Python, Dynamo makes it anew, and lacks the variables that nothing reads behind the call. And calls
that are given a generator expression as all of their arguments (`f(*(...))`), if they break: what that has walked is
used up.

## Why it hurts torch.compile
Dynamo traces both as part of the function that uses them. Where Python makes one instead, Dynamo is asked to compile it
by itself: a generator it never does, and a comprehension it gives up as it cannot walk what that is given. What stands
in it runs as eager code.

## Use instead
Mend the break that the function around it goes eager by: where that goes, this one goes too.

## Limits
A generator in which a break stands is not reported: the break is, as of a comprehension over a list.
"""

import ast

from tcready.static.engine.facts import Alone, Consumed
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Alone | Consumed) -> Claim | None:
    if isinstance(fact, Consumed):
        return Claim(
            "what this call runs breaks, and Dynamo cannot make its generator expression anew: "
            "the function around it goes eager",
            form="" if fact.used_up else "holds what nothing reads behind it",
        )
    if fact.entry:
        return None
    if not fact.compiled:
        return Claim(
            "what this comprehension calls breaks, and Dynamo cannot pass the iterator on that it walks: "
            "the function around it goes eager"
        )
    comprehension = isinstance(fact.node, (ast.ListComp, ast.SetComp, ast.DictComp))
    what = "comprehension" if comprehension else "generator"
    return Claim(f"Python runs this {what}, as another break runs the code around it: it is not compiled")


RULE = Rule(
    code="TCR333",
    name="left-to-python",
    effect="frame_skip",
    level="warning",
    gb_ids=("GB0003", "GB0091", "GB4347", "GB8335"),
    facts=(Alone, Consumed),
    check=check,
    follows=True,
    no_rewrite="What is to be mended is the other break.",
    page=__doc__,
    bad=(
        Sample(
            """
def first(*rows):
    print("rows")  # CAUSE
    return rows[0]


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return self.walked(y) + self.counted(y)

    def walked(self, x):
        return first(*(x * row for row in (x, x)))  # BAD

    def counted(self, x):
        return first(*(x + i for i in range(3)))  # BAD
"""
        ),
        Sample(
            """
def rows(x):  # BAD
    for row in x:
        yield row * 2


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        for row in rows(y):
            print("a row")  # CAUSE
            y = y + row
        return y + sum(row.sum() for row in y.unbind())  # BAD
"""
        ),
        Sample(
            """
import contextlib

@contextlib.contextmanager  # BAD
def scaled(by):
    yield by * 2


def names(count):  # BAD
    for index in range(count):
        yield f"name {index}"


def helper(count):
    return [name for name in names(count)]


class Model(nn.Module):
    def forward(self, x):
        with scaled(3) as by:
            print("inside")  # CAUSE
            y = x * by
        return y + len(helper(2))
"""
        ),
        Sample(
            """
def places(names, shape):
    if any(name == "..." for name in names):  # BAD
        return shape[: len(names)]
    return shape


def shape_of(x, pattern):
    return places(pattern.split(), tuple(x.shape))


def rank(x):
    return sum(1 for _ in x.shape)  # BAD


def doubled(x):
    return sum(each for each in (x * 2, x * 3))


class Model(nn.Module):
    def forward(self, x):
        for _ in range(2):
            print("a round")  # CAUSE
            x = x + 1
        return doubled(x) * shape_of(x, "rows columns")[0] * rank(x)
"""
        ),
        Sample(
            """
def shown(x):
    print("a part")  # CAUSE
    return x * 2


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return sum(shown(y) for _ in range(2))  # BAD
"""
        ),
    ),
    good=(
        Sample(
            """
def rows(x):
    for row in x:
        yield row * 2


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        for row in rows(y):
            y = y + row
        return y + sum(row.sum() for row in y.unbind())
"""
        ),
    ),
)
