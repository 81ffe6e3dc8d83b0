"""A subclass of `torch.Tensor` with its own methods or attributes.

## Why it hurts torch.compile
What a method of the subclass does is decided at run time. Dynamo follows `__torch_function__`, and little else.

## Use instead
Use `__torch_function__` for it, or write plain functions of tensors. Create objects of the subclass with
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
            "The code creates the subclass with more than a tensor, which its constructor refuses in eager "
            "mode too.",
            cure="Pass only the tensor. If the subclass does nothing, leave it out, as in the example.",
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
            "The subclasses tried so far are traced by torch 2.13, or break with another type.",
            (
                "GB0103",
                "GB0163",
                "GB0164",
                "GB0227",
            ),
        ),
    ),
)
