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
        Break(
            "GB0112",
            "An operation is given what it does not take: a stand-in raises the `TypeError` that eager code would raise.",
            cure="Give it a tensor. If eager code does that, Dynamo takes something else to stand there: the answer of a "
            "comparison with a member of an enum, or a row that is asserted.",
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
