"""A break that the code requests explicitly.

## Why it hurts torch.compile
The code calls a function whose purpose is to end the graph or to leave a function to Python.

## Use instead
Remove the call if it was for debugging. Keep it if it is intended.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, Break, Page, Unshown

PAGE = Page(
    name="deliberate-marker",
    page=__doc__,
    breaks=(
        Break(
            "GB0030",
            "The code calls `comptime.graph_break()`.",
            cure="Remove the call. Without it, the code computes the same and is compiled.",
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
            "The code calls `torch._dynamo.skip_frame()`.",
            cure="Remove the call. Without it, the code computes the same and is compiled.",
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
            "The code calls `torch._dynamo.step_unsupported()`.",
            cure="Remove the call. Without it, the code computes the same and is compiled.",
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
            "The code calls `torch._dynamo.step_unsupported()` before it computes anything.",
            cure="Remove the call. Without it, the code computes the same and is compiled.",
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
            "Raised by a tool of torch's own tests.",
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
