"""A check of Dynamo's internal state failed.

## Why it hurts torch.compile
During tracing, Dynamo represents every value by an object of its own, and checks these objects. If a check fails,
Dynamo cannot continue the graph and leaves the code to Python. The cause is not a construct of the source.

## Use instead
Simplify the line that the break names: assign intermediate results to variables, move unusual code out of the
compiled code, or mark the function with `torch.compiler.disable`. The break may not occur with a newer torch. Consider
reporting it to PyTorch.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="dynamo-itself",
    page=__doc__,
    breaks=(
        Break(
            "GB0148",
            "The code calls a function at which Dynamo has already decided to break. An example is an "
            "in-place method that changes the shape of an argument.",
            cure="Use the method that returns a new tensor.",
            bad="""
def model(x):
    x.t_()  # BAD
    return x * 2
""",
            good="""
def model(x):
    return x.t() * 2
""",
        ),
    ),
    unshown=(
        Unshown(
            UNRAISED,
            (
                "GB0009",
                "GB0048",
                "GB0063",
                "GB0096",
                "GB0114",
                "GB0176",
                "GB2669",
                "GB5696",
                "GB7425",
            ),
        ),
        Unshown(
            "A check of Dynamo's internal state. No user code is known to trigger it.",
            (
                "GB0018",
                "GB0027",
                "GB0047",
                "GB0049",
                "GB0071",
                "GB0080",
                "GB0086",
                "GB0093",
                "GB0115",
                "GB0122",
                "GB0178",
                "GB0188",
                "GB0204",
                "GB0229",
                "GB0255",
                "GB2922",
            ),
        ),
        Unshown(
            "About one bytecode instruction. Python's compiler is not known to emit it in a way that makes "
            "Dynamo break.",
            (
                "GB0024",
                "GB0061",
                "GB0062",
                "GB0079",
                "GB0089",
                "GB0094",
                "GB0120",
                "GB0169",
                "GB0200",
                "GB0253",
                "GB6276",
                "GB6604",
                "GB9898",
            ),
        ),
        Unshown(
            NEWER,
            (
                "GB1392",
                "GB1940",
                "GB2069",
                "GB2444",
                "GB2710",
                "GB6956",
                "GB7151",
                "GB8949",
            ),
        ),
    ),
)
