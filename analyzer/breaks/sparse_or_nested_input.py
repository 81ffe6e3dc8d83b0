"""Sparse and nested tensors, where they come in as arguments or are resized.

## Why it hurts torch.compile
Graphs hold strided tensors, and nested tensors of the jagged layout. Dynamo breaks at what makes or changes others.

## Use instead
Keep the values in a padded tensor with a mask, or in one flat tensor with offsets. Make nested tensors with
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
            "`sparse_resize_` is called.",
            cure="Nothing in a graph resizes a sparse tensor: make one of the right size outside.",
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
            "`sparse_resize_and_clear_` is called.",
            cure="Nothing in a graph resizes a sparse tensor: make one of the right size outside.",
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
            "`nested_tensor` is given a tensor.",
            cure="Give a list.",
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
            "The type that a rule knows is shown first for the programs that were tried.",
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
