"""A tensor method that Dynamo does not put into a graph.

## Why it hurts torch.compile
The method changes storage or shape in place, draws random numbers, or needs what only real tensors have. There is no
operator for the graph.

## Use instead
Use the function that returns a new tensor: `torch.rand`, `torch.randint`, `as_strided`, `reshape`.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="tensor-method",
    page=__doc__,
    breaks=(
        Break(
            "GB0107",
            "`random_` draws random numbers in place.",
            cure="Draw a new tensor.",
            bad="""
def model(x):
    return (x + 1).random_(3)  # BAD
""",
            good="""
def model(x):
    return torch.randint_like(x, 3)
""",
        ),
        Break(
            "GB0110",
            "The code calls `uniform_` with `from`.",
            cure="Draw without it, and scale the result.",
            bad="""
def model(x):
    return (x + 1).uniform_(**{"from": 0.0, "to": 2.0})  # BAD
""",
            good="""
def model(x):
    return torch.rand_like(x) * 2.0
""",
        ),
        Break(
            "GB0128",
            "The code calls `set_` with several arguments.",
            cure="Use `as_strided` or `view`.",
            bad="""
def model(x):
    y = torch.empty(0)
    y.set_(x, 0, (4, 8), (8, 1))  # BAD
    return y * 2
""",
            good="""
def model(x):
    return torch.as_strided(x, (4, 8), (8, 1)) * 2
""",
        ),
        Break(
            "GB0045",
            "The code calls `is_inference()`.",
            cure="Call it before the model, and pass the result.",
            bad="""
def model(x):
    return x * 2 if x.is_inference() else x + 1  # BAD
""",
            good="""
def model(x, inference):
    return x * 2 if inference else x + 1
""",
            good_inputs="(x := torch.randn(4, 8), x.is_inference())",
        ),
    ),
    unshown=(
        Unshown(
            NEWER,
            (
                "GB6602",
                "GB9182",
            ),
        ),
        Unshown(
            "Under torch 2.13, the programs tried so far break with a type that a rule predicts.",
            (
                "GB0072",
                "GB4197",
            ),
        ),
        Unshown(
            UNRAISED,
            ("GB0141",),
        ),
    ),
)
