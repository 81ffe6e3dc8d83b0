"""A method of a tensor that Dynamo does not put into a graph.

## Why it hurts torch.compile
The method changes storage or shape in place, draws numbers, or asks for what only real tensors have: there is no
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
            "`random_` draws in place.",
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
            "`uniform_` with `from`.",
            cure="Draw without it, and scale.",
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
            "`set_` with several arguments.",
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
            "`is_inference()` is asked.",
            cure="Ask it before the call, and pass the answer.",
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
            "The programs that were tried are reported under torch 2.13 by a type that a rule knows; no "
            "example has been found so far.",
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
