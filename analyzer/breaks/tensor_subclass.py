"""A subclass of `torch.Tensor` with methods or attributes of its own.

## Why it hurts torch.compile
What a method of the subclass does is decided when it runs. Dynamo follows `__torch_function__`, and little beside
it.

## Use instead
Let `__torch_function__` do it, or write plain functions of tensors. Make objects of the subclass with
`as_subclass`.
"""

from __future__ import annotations

from tcready.breaks.page import Break, Page, Unshown

PAGE = Page(
    name="tensor-subclass",
    page=__doc__,
    breaks=(
        Break(
            "GB0026",
            "The subclass is made with more than a tensor, which its constructor refuses, too.",
            cure="Give the tensor alone; a subclass that does nothing is left out, as here.",
            bad="""
class Sub(torch.Tensor):
    pass
def model(x):
    return Sub(x, 3) * 2  # BAD
""",
            good="""
def model(x):
    return x * 2
""",
        ),
    ),
    unshown=(
        Unshown(
            "Subclasses that were tried are traced under torch 2.13, or break with another type; no "
            "example has been found so far.",
            (
                "GB0103",
                "GB0163",
                "GB0164",
                "GB0227",
            ),
        ),
    ),
)
