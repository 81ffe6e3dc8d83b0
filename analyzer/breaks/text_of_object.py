"""The code converts an object to a string, and Dynamo cannot do this during tracing.

## Why it hurts torch.compile
To know the string, Dynamo would have to run `__str__` or `__repr__` of the object. This method is written in C, or the
object consists of tensors whose values are unknown. The graph ends there.

## Use instead
Create the string outside of the compiled code, or from constants: names, sizes, types. Put messages for people behind
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
            "The code converts an object of a type written in C to a string.",
            cure="Convert it once, outside of the compiled code.",
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
            "The code converts an iterator to a string.",
            cure="Convert its values instead.",
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
            "The code converts a function that was defined in the compiled code to a string.",
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
            "The objects tried so far break with another type of this page, or are converted.",
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
