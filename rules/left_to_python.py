"""Python runs a generator or comprehension, because another break makes the function run eagerly.

## What it does
Finds generator expressions, functions with a `yield` (including those under `contextlib.contextmanager`) and
comprehensions, if Python runs the code that creates them: in a function that runs eagerly as a whole because
of another break, such as one in a loop, and in helpers that are called from there and hold no tensor, or
compute none. Before Python 3.12, comprehensions are reported that iterate over a list, a dict, `zip`,
`enumerate` or similar and hold a tensor, a module or a name of torch; those over anything but a list also if
the break is in the comprehension itself. Also finds comprehensions over `enumerate`, views of a dict and
similar objects that call a function which breaks. Also finds calls that consume a generator expression at
once, through `sum` or a user function, if what they run breaks: to hand the generator to Python, Dynamo must
recreate it, and does not have the variables that nothing reads after the call. Also finds calls whose only
arguments are an unpacked generator expression (`f(*(...))`), if they break: its items are already consumed.

## Why it hurts torch.compile
Dynamo traces both as part of the function that uses them. If Python creates one instead, Dynamo has to
compile it separately. It never compiles a generator that way, and it skips a comprehension because it cannot
iterate over the argument. Their code runs eagerly.

## Use instead
Fix the break that makes the function around it run eagerly. If that break is gone, this one is gone too.

## Limits
A generator that contains a break is not reported, because the break is. The same is true of a comprehension
over a list.
"""

import ast

from tcready.static.engine.facts import Alone, Consumed
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Alone | Consumed) -> Claim | None:
    if isinstance(fact, Consumed):
        return Claim(
            "this call runs code that breaks, and Dynamo cannot recreate its generator expression: "
            "the function runs eagerly",
            form="" if fact.used_up else "holds what nothing reads behind it",
        )
    if fact.entry:
        return None
    if not fact.compiled:
        return Claim(
            "this comprehension calls code that breaks, and Dynamo cannot pass its iterator on: "
            "the function runs eagerly"
        )
    comprehension = isinstance(fact.node, (ast.ListComp, ast.SetComp, ast.DictComp))
    what = "comprehension" if comprehension else "generator"
    return Claim(f"Python runs this {what}, because of another break around it: it is not compiled")


RULE = Rule(
    code="TCR333",
    name="left-to-python",
    effect="frame_skip",
    level="warning",
    gb_ids=("GB0003", "GB0091", "GB4347", "GB8335"),
    facts=(Alone, Consumed),
    check=check,
    follows=True,
    no_rewrite="Fix the other break.",
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
