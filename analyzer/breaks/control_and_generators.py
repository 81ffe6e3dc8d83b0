"""Loops, generators, context managers and inner functions that Dynamo cannot trace as written.

## Why it hurts torch.compile
After a break, Dynamo resumes in the same function, except inside a loop: then Python runs the whole function. Dynamo
cannot resume after a break in a function that must be traced as a whole either. Dynamo traces a generator if it is
consumed within one frame. A decorated context manager must be a generator.

## Use instead
Return a list. Consume a generator in the function that creates it. Move the break out of loops, and out of functions
that a checkpoint calls.
"""

from __future__ import annotations

from tcready.breaks.page import Break, Page, Unshown

PAGE = Page(
    name="control-and-generators",
    page=__doc__,
    breaks=(
        Break(
            "GB0003",
            "The compiled function itself is a generator. Without `fullgraph=True`, Python runs it and "
            "Dynamo reports nothing.",
            cure="Return a list, or compile the function that consumes the generator.",
            bad="""
def model(x):
    yield x * 2
""",
            good="""
def model(x):
    return [x * 2]
""",
            fullgraph=True,
        ),
        Break(
            "GB8335",
            "A break occurs after a generator has consumed some or all of its input. Dynamo has to pass the "
            "generator on, and cannot reconstruct it.",
            cure="Make a list (`f(*[...])`), or fix the other break.",
            bad="""
def first(*rows):
    print("rows")
    return rows[0]
def model(x):
    return first(*(x * by for by in (1, 2)))  # BAD
""",
            good="""
def first(*rows):
    return rows[0]
def model(x):
    return first(*(x * by for by in (1, 2)))
""",
        ),
        Break(
            "GB7000",
            "A break occurs in a loop. Dynamo cannot resume inside a loop, so it runs the whole function "
            "eagerly.",
            cure="Fix the break on that line, whatever its type, or move it out of the loop. Otherwise, compile "
            "the body of the loop as a separate function.",
            bad="""
def model(x):
    for _ in range(2):
        x = x + 1
        print("a round")  # BAD
    return x
""",
            good="""
def model(x):
    for _ in range(2):
        x = x + 1
        if not torch.compiler.is_compiling():
            print("a round")
    return x
""",
        ),
        Break(
            "GB0221",
            "A function decorated with `contextlib.contextmanager` has no `yield`.",
            bad="""
import contextlib
@contextlib.contextmanager  # BAD
def f():
    return 3
def model(x):
    try:
        with f():
            pass
    except TypeError:
        pass
    return x * 2
""",
            good="""
import contextlib


@contextlib.contextmanager
def f():
    yield


def model(x):
    with f():
        return x * 2
""",
        ),
    ),
    unshown=(
        Unshown(
            "The programs tried so far break with another type, or not at all.",
            (
                "GB0065",
                "GB0097",
                "GB0358",
                "GB9741",
            ),
        ),
    ),
)
