"""An operation that cannot run on fake tensors.

## Why it hurts torch.compile
Dynamo runs every operation on fake tensors, which have shapes but no data. Sparse and nested layouts, and operators
without a fake implementation, do not support that.

## Use instead
Register a fake implementation for your own operators with `torch.library.register_fake`. Convert other layouts to
strided tensors, or to nested ones with `layout=torch.jagged`, before the compiled code.
"""

from __future__ import annotations

from tcready.breaks.page import Break, Page

PAGE = Page(
    name="fake-tensor",
    page=__doc__,
    breaks=(
        Break(
            "GB0090",
            "The operator, or the layout of the tensors, does not support fake tensors.",
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
        Break(
            "GB0112",
            "An operation gets an argument that it does not accept. The fake tensor raises the `TypeError` "
            "that eager mode would raise.",
            cure="Pass a tensor. If eager code already passes one, Dynamo takes the argument for something else: "
            "the result of a comparison with an enum member, or a sequence that is asserted.",
            bad="""
def model(x):
    rows = [x, x]
    assert rows  # BAD
    return rows[0] * 2
""",
            good="""
def model(x):
    rows = [x, x]
    assert len(rows) > 0
    return rows[0] * 2
""",
        ),
    ),
)
