"""Text is made of an object that Dynamo cannot put into text while tracing.

## Why it hurts torch.compile
To know the text Dynamo would have to run `__str__` or `__repr__` of the object: written in C, or made of tensors
whose values are not known. The graph ends there.

## Use instead
Make the text outside of the compiled code, or of constants: names, sizes, types. Messages for people belong behind
`if not torch.compiler.is_compiling():`.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="text-of-object",
    page=__doc__,
    breaks=(
        Break(
            "GB0005",
            "Text of an object whose type is written in C.",
            cure="Make it once, outside.",
            bad="""
import decimal
by = decimal.Decimal(2)
def model(x):
    return x * len(str(by))  # BAD
""",
            good="""
import decimal

TEXT = str(decimal.Decimal(2))


def model(x):
    return x * len(TEXT)
""",
        ),
        Break(
            "GB6053",
            "Text of an iterator.",
            cure="Make text of what it gives.",
            bad="""
def model(x):
    return x * len(repr(zip([1], [2])))  # BAD
""",
            good="""
def model(x):
    return x * len(repr([(1, 2)]))
""",
        ),
        Break(
            "GB1584",
            "Text of a function made in the compiled code.",
            cure="Use its name.",
            bad="""
def model(x):
    def f(): return x
    return x * len(repr(f))  # BAD
""",
            good="""
def model(x):
    def f():
        return x

    return x * len("f")
""",
        ),
    ),
    unshown=(
        Unshown(
            "Objects of that kind that were tried break with another type of this page, or are put into "
            "text; no example has been found so far.",
            (
                "GB0020",
                "GB0021",
                "GB0184",
                "GB2483",
                "GB2852",
            ),
        ),
        Unshown(
            UNRAISED,
            (
                "GB0459",
                "GB1275",
                "GB5380",
                "GB7968",
                "GB8315",
                "GB9198",
            ),
        ),
        Unshown(
            NEWER,
            ("GB4399",),
        ),
    ),
)
