"""Sparse and nested tensors that are passed as arguments or resized.

## Why it hurts torch.compile
Graphs hold strided tensors, and nested tensors with the jagged layout. Dynamo breaks at code that creates or changes
other tensors.

## Use instead
Keep the values in a padded tensor with a mask, or in one flat tensor with offsets. Create nested tensors with
`layout=torch.jagged`. Convert sparse tensors outside of the compiled code.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="sparse-or-nested-input",
    page=__doc__,
    breaks=(
        Break(
            "GB0129",
            "The code calls `sparse_resize_`.",
            cure="A graph cannot resize a sparse tensor. Create one of the right size outside of the compiled "
            "code.",
            bad="""
def model(x):
    x.sparse_resize_((4, 8), 2, 0)  # BAD
    return x
""",
            good="""
def model(x):
    return x * 2
""",
        ),
        Break(
            "GB0130",
            "The code calls `sparse_resize_and_clear_`.",
            cure="A graph cannot resize a sparse tensor. Create one of the right size outside of the compiled "
            "code.",
            bad="""
def model(x):
    x.sparse_resize_and_clear_((4, 8), 2, 0)  # BAD
    return x
""",
            good="""
def model(x):
    return x * 2
""",
        ),
        Break(
            "GB0245",
            "`nested_tensor` gets a tensor.",
            cure="Pass a list of tensors.",
            bad="""
def model(x):
    n = torch.nested.nested_tensor(x, layout=torch.jagged)  # BAD
    return n.values()
""",
            good="""
def model(x):
    return torch.nested.nested_tensor([x, x], layout=torch.jagged).values()
""",
        ),
    ),
    unshown=(
        Unshown(
            "The programs tried so far first break with a type that a rule predicts.",
            (
                "GB0044",
                "GB0233",
                "GB0374",
            ),
        ),
        Unshown(
            NEWER,
            ("GB0375",),
        ),
        Unshown(
            UNRAISED,
            ("GB1501",),
        ),
    ),
)
