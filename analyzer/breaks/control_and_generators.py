"""Loops, generators, contexts and inner functions that Dynamo cannot trace as they stand.

## Why it hurts torch.compile
Behind a break Dynamo goes on in the same function, but not within a loop: it gives the function up. A break within a
function that must be traced whole has nowhere to go on either. A generator is traced where it is used up within one
frame; a decorated context must be a generator.

## Use instead
Return a list; use up generators in the function that makes them; take the break out of what is called by a
checkpoint or in a loop.
"""

from __future__ import annotations

from tcready.breaks.page import Break, Page, Unshown

PAGE = Page(
    name="control-and-generators",
    page=__doc__,
    breaks=(
        Break(
            "GB0003",
            "The compiled function is a generator itself. Without `fullgraph=True` Python runs it, and Dynamo reports "
            "nothing.",
            cure="Return a list, or compile the function that uses the generator up.",
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
            "A break stands behind a generator that has walked a part of what it is given, or all: Dynamo has to hand it "
            "over, and cannot make it anew.",
            cure="Make a list (`f(*[...])`), or cure the other break.",
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
            "A break stands in a loop, and Dynamo runs the whole function eagerly: it cannot go on within a loop.",
            cure="Cure the break on that line, whatever its kind, or take it out of the loop; else compile the body of "
            "the loop as a function of its own.",
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
            "A function under `contextlib.contextmanager` has no `yield`.",
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
            "The programs that were tried break with another type, or not at all; no example has been "
            "found so far.",
            (
                "GB0065",
                "GB0097",
                "GB0358",
                "GB9741",
            ),
        ),
    ),
)
