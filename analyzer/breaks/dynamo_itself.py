"""A check of Dynamo's own state failed.

## Why it hurts torch.compile
Dynamo keeps stand-ins for every value while it traces, and checks them. When such a check fails it cannot go on
with the graph and leaves the code to Python. What leads to it is not a construct of the source.

## Use instead
Look at the line that the break names, and make it simpler: give intermediate results names, take what is special
out of the compiled code, or mark the function with `torch.compiler.disable`. A newer torch may not do it; it is
worth reporting to PyTorch.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="dynamo-itself",
    page=__doc__,
    breaks=(
        Break(
            "GB0148",
            "A function that Dynamo decided to break at is reached only when it is called, such as a "
            "method in place that changes the shape of an argument.",
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
            "A check of Dynamo's own state: user code is not known to lead to it.",
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
            "About one bytecode instruction; Python's compiler is not known to write it so that Dynamo "
            "breaks.",
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
