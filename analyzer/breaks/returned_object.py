"""Something is returned, or still open at another break, that cannot be made again behind the graph.

## Why it hurts torch.compile
After a graph Dynamo has to make again every object that goes on living: what is returned, what stands in variables
at a break, what was changed. For some kinds it has no way: contexts, views of a dict, functions that hold others,
identities.

## Use instead
Return tensors, numbers, and lists, tuples or dicts of them. Keep contexts within one function, free of breaks.
Often it follows from a break elsewhere: mend that first.
"""

from __future__ import annotations

from tcready.breaks.page import UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="returned-object",
    page=__doc__,
    breaks=(
        Break(
            "GB0198",
            "A dict is changed while a read-only view of it is in use.",
            cure="Read from the dict.",
            bad="""
def model(x, d, p):
    d["a"] = 2
    return x * p["a"]  # BAD
""",
            good="""
def model(x, d):
    return x * d["a"]
""",
            inputs='(torch.randn(4, 8), *(lambda d: (d, __import__("types").MappingProxyType(d)))({"a": 1}))',
            good_inputs='(torch.randn(4, 8), {"a": 1})',
        ),
        Break(
            "GB0212",
            "A profiler is returned.",
            cure="Return what was computed, and profile around the compiled call.",
            bad="""
def model(x):
    return x * 2, torch.profiler.profile()  # BAD
""",
            good="""
def model(x):
    return x * 2


def profiled(compiled, x):
    with torch.profiler.profile() as profile:
        return compiled(x), profile
""",
        ),
        Break(
            "GB0279",
            "A break stands within a block of annotations.",
            cure="Take the break out of the block.",
            bad="""
import torch.fx.traceback as t
def model(x):
    with t.annotate({"a": 1}):
        y = x * 2
        torch._dynamo.graph_break()  # BAD
    return y
""",
            good="""
def model(x):
    with torch.fx.traceback.annotate({"a": 1}):
        return x * 2
""",
        ),
        Break(
            "GB2533",
            "A context made by `contextlib.contextmanager` is returned.",
            cure="Enter it in the compiled code, or make it outside.",
            bad="""
import contextlib
@contextlib.contextmanager
def f():
    yield
def model(x):
    return x * 2, f()  # BAD
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
        Break(
            "GB4501",
            "The `id` of an object made in the compiled code is returned.",
            cure="Return the object.",
            bad="""
def model(x):
    y = [x]
    return x * 2, id(y)  # BAD
""",
            good="""
def model(x):
    y = [x]
    return x * 2, y
""",
        ),
    ),
    unshown=(
        Unshown(
            UNRAISED,
            (
                "GB0197",
                "GB0272",
                "GB9528",
            ),
        ),
        Unshown(
            "Objects of that kind that were tried are made again under torch 2.13, or break with another "
            "type; no example has been found so far.",
            (
                "GB0199",
                "GB0274",
                "GB0276",
                "GB0283",
                "GB0295",
                "GB0370",
                "GB1297",
                "GB1319",
            ),
        ),
        Unshown(
            "No example has been found so far.",
            ("GB4778",),
        ),
    ),
)
