"""An object that is returned, or in use at another break, and that Dynamo cannot reconstruct.

## Why it hurts torch.compile
After a graph, Dynamo has to reconstruct every object that lives on: returned values, variables at a break, and changed
objects. For some kinds it cannot: context managers, views of a dict, functions that hold others, ids of objects.

## Use instead
Return tensors, numbers, and lists, tuples or dicts of them. Keep context managers within one function, without breaks.
Often a break elsewhere is the cause: fix that one first.
"""

from __future__ import annotations

from tcready.breaks.page import UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="returned-object",
    page=__doc__,
    breaks=(
        Break(
            "GB0198",
            "The code changes a dict while a read-only view of it is in use.",
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
            "The code returns a profiler.",
            cure="Return the computed values, and profile around the compiled call.",
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
            "A break occurs inside a `torch.fx.traceback.annotate` block.",
            cure="Move the break out of the block.",
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
            "The code returns a context manager made by `contextlib.contextmanager`.",
            cure="Enter it in the compiled code, or create it outside.",
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
            "The code returns the `id` of an object that was created in the compiled code.",
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
            "The objects tried so far are reconstructed by torch 2.13, or break with another type.",
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
            "None has been found so far.",
            ("GB4778",),
        ),
    ),
)
