"""A break that somebody asked for.

## Why it hurts torch.compile
Code calls a function whose purpose is to end the graph or to leave a function to Python.

## Use instead
Remove the call if it was for debugging; keep it where it is meant.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, Break, Page, Unshown

PAGE = Page(
    name="deliberate-marker",
    page=__doc__,
    breaks=(
        Break(
            "GB0030",
            "`comptime.graph_break()` is called.",
            cure="There is nothing to put in its place: without it the code computes the same, compiled.",
            bad="""
from torch._dynamo.comptime import comptime
def model(x):
    comptime.graph_break()  # BAD
    return x * 2
""",
            good="""
def model(x):
    return x * 2
""",
        ),
        Break(
            "GB4297",
            "`torch._dynamo.skip_frame()` is called.",
            cure="There is nothing to put in its place: without it the code computes the same, compiled.",
            bad="""
def model(x):
    torch._dynamo.skip_frame()  # BAD
    return x * 2
""",
            good="""
def model(x):
    return x * 2
""",
        ),
        Break(
            "GB4636",
            "`torch._dynamo.step_unsupported()` is called.",
            cure="There is nothing to put in its place: without it the code computes the same, compiled.",
            bad="""
def model(x):
    torch._dynamo.step_unsupported()  # BAD
    return x * 2
""",
            good="""
def model(x):
    return x * 2
""",
        ),
        Break(
            "GB0275",
            "`torch._dynamo.step_unsupported()` is called where nothing was computed yet.",
            cure="There is nothing to put in its place: without it the code computes the same, compiled.",
            bad="""
def model(x):
    torch._dynamo.step_unsupported()  # BAD
    return x * 2
""",
            good="""
def model(x):
    return x * 2
""",
        ),
    ),
    unshown=(
        Unshown(
            "A tool of torch's own tests leads to it.",
            (
                "GB0060",
                "GB0269",
                "GB0284",
            ),
        ),
        Unshown(
            NEWER,
            (
                "GB0376",
                "GB0377",
            ),
        ),
    ),
)
