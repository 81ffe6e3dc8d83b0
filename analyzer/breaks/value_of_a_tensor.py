"""Python needs the value of a tensor, or a size that depends on one.

## Why it hurts torch.compile
While Dynamo traces, a tensor has a shape and a dtype, but no values. If Python needs a value (to choose a branch, to
create a number, to know a length), the graph ends, the value is read back, and a new graph starts after it.

## Use instead
Stay with tensors: `torch.where` for a choice, a mask times values for a selection, `torch.clamp` for a limit. If
`item()` needs a number, set `torch._dynamo.config.capture_scalar_outputs`. For sizes, set
`capture_dynamic_output_shape_ops`. Or make the decision before the compiled code.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, Break, Page, Unshown

PAGE = Page(
    name="value-of-a-tensor",
    page=__doc__,
    breaks=(
        Break(
            "GB0170",
            "A branch depends on the value of a tensor.",
            bad="""
def model(x):
    if x.sum() > 0:  # BAD
        return x * 2
    return x + 1
""",
            good="""
def model(x):
    return torch.where(x.sum() > 0, x * 2, x + 1)
""",
        ),
        Break(
            "GB0124",
            "`item()`, or a conversion that calls it, reads a value.",
            bad="""
def model(x):
    n = x.sum().item()  # BAD
    return x * n
""",
            good="""
def model(x):
    n = x.sum()
    return x * n
""",
        ),
        Break(
            "GB0033",
            "An operation returns something that depends on values, such as whether two tensors are equal.",
            bad="""
def model(x):
    return x * 2 if torch.equal(x, x + 1) else x  # BAD
""",
            good="""
def model(x):
    return torch.where((x == x + 1).all(), x * 2, x)
""",
        ),
        Break(
            "GB0036",
            "The size of a result depends on values.",
            bad="""
def model(x):
    return x[x > 0].sum()  # BAD
""",
            good="""
def model(x):
    return torch.where(x > 0, x, 0.0).sum()
""",
        ),
        Break(
            "GB0109",
            "The code calls `tolist()` on a tensor that does not hold integers.",
            cure="Compute with the tensor, or call `tolist()` outside of the compiled code. "
            "`capture_scalar_outputs` captures `tolist()` of integers only.",
            bad="""
def model(x):
    return x * sum(x.sum(0).tolist())  # BAD
""",
            good="""
def model(x):
    return x * x.sum()
""",
        ),
    ),
    unshown=(
        Unshown(
            NEWER,
            (
                "GB9211",
                "GB9352",
            ),
        ),
    ),
)
