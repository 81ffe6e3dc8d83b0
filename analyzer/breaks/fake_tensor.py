"""An operation that cannot be tried on tensors without data.

## Why it hurts torch.compile
Dynamo tries every operation on stand-ins that have shapes and no data. Sparse and nested layouts, and operators
without a fake implementation, do not support that.

## Use instead
Register a fake implementation with `torch.library.register_fake` for an operator of your own; convert to strided
tensors, or to nested ones with `layout=torch.jagged`, before the compiled code.
"""

from __future__ import annotations

from tcready.breaks.page import Break, Page

PAGE = Page(
    name="fake-tensor",
    page=__doc__,
    breaks=(
        Break(
            "GB0090",
            "The operator, or the layout of the tensors, does not support stand-ins.",
            bad="""
def model(x):
    n = torch.nested.nested_tensor([x, x])  # BAD
    return n.to_padded_tensor(0)
""",
            good="""
def model(x):
    n = torch.nested.nested_tensor([x, x], layout=torch.jagged)
    return n.values()
""",
        ),
    ),
)
