"""An operation on an object whose type is written in C, or whose method Dynamo cannot trace.

## Why it hurts torch.compile
For the types that it knows, Dynamo does arithmetic, comparison, indexing, iteration and hashing itself. For other types
it would have to call code written in C, which it cannot trace. The graph ends at the operation.

## Use instead
Convert the object outside of the compiled code: an `array.array` or `decimal.Decimal` to a list, a tuple, a number or a
tensor. Compare values rather than `id()`. Use strings and numbers as keys.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="special-method",
    page=__doc__,
    breaks=(
        Break(
            "GB0682",
            "The code uses a method of a tensor as the key of a dict.",
            cure="Use its name.",
            bad="""
def model(x):
    d = {x.add: 1}  # BAD
    return x * d[x.add]
""",
            good="""
def model(x):
    d = {"add": 1}
    return x * d["add"]
""",
        ),
        Break(
            "GB4411",
            "The code uses `in` on an object of a type written in C.",
            cure="Use a tuple or list.",
            bad="""
import array
numbers = array.array("d", [1.0, 2.0])
def model(x):
    return x * 2 if 1.0 in numbers else x  # BAD
""",
            good="""
NUMBERS = [1.0, 2.0]


def model(x):
    return x * 2 if 1.0 in NUMBERS else x
""",
        ),
        Break(
            "GB4880",
            "The code indexes an object of a type written in C.",
            cure="Use a tuple or list.",
            bad="""
import array
numbers = array.array("d", [1.0, 2.0])
def model(x):
    return x * numbers[0]  # BAD
""",
            good="""
NUMBERS = [1.0, 2.0]


def model(x):
    return x * NUMBERS[0]
""",
        ),
        Break(
            "GB6012",
            "The code calls `len` on an object of a type written in C.",
            cure="Use a tuple or list.",
            bad="""
import array
class Numbers(array.array): pass
numbers = Numbers("d", [1.0, 2.0])
def model(x):
    return x * len(numbers)  # BAD
""",
            good="""
NUMBERS = [1.0, 2.0]


def model(x):
    return x * len(NUMBERS)
""",
        ),
        Break(
            "GB9458",
            "The code repeats an object of a type written in C with `*`.",
            cure="Use a tuple or list.",
            bad="""
import array
numbers = array.array("d", [1.0, 2.0])
def model(x):
    return x * len(numbers * 2)  # BAD
""",
            good="""
NUMBERS = [1.0, 2.0]


def model(x):
    return x * len(NUMBERS * 2)
""",
        ),
        Break(
            "GB9561",
            "The code repeats an object of a type written in C in place with `*=`.",
            cure="Use a tuple or list.",
            bad="""
import array
numbers = array.array("d", [1.0, 2.0])
def model(x):
    n = numbers
    n *= 2  # BAD
    return x * 2
""",
            good="""
NUMBERS = (1.0, 2.0)


def model(x):
    n = NUMBERS
    n *= 2
    return x * 2
""",
        ),
        Break(
            "GB4347",
            "The code calls `next` on an iterator of a type written in C.",
            cure="Iterate over a list.",
            bad="""
import array
numbers = iter(array.array("d", [1.0, 2.0]))
def model(x):
    return x * next(numbers)  # BAD
""",
            good="""
NUMBERS = [1.0, 2.0]


def model(x):
    return x * next(iter(NUMBERS))
""",
        ),
        Break(
            "GB4271",
            "The code replaces the class of an object.",
            cure="Create an object of the other class.",
            bad="""
class A: pass
class B: pass
def model(x):
    a = A()
    a.__class__ = B  # BAD
    return x * 2
""",
            good="""
class A:
    pass


class B:
    pass


def model(x):
    a = B()
    return x * 2
""",
        ),
        Break(
            "GB9316",
            "The code compares the `id` of an object that was created in the compiled code.",
            cure="Compare with `is`.",
            bad="""
def model(x):
    y = [x]
    return x * 2 if id(y) != id(x) else x  # BAD
""",
            good="""
def model(x):
    y = [x]
    return x * 2 if y is not x else x
""",
        ),
        Break(
            "GB0222",
            "A set of tensors is passed as an argument.",
            cure="Pass a list, or a dict with names as keys.",
            bad="""
def model(x, s):
    return x * len(s)  # BAD
""",
            good="""
def model(x, s):
    return x * len(s)
""",
            inputs="(torch.randn(4, 8), {torch.randn(3)})",
            good_inputs="(torch.randn(4, 8), [torch.randn(3)])",
        ),
        Break(
            "GB0808",
            "The code calls a special method written in C on an object.",
            cure="Convert the object to a number outside of the compiled code.",
            bad="""
import decimal
by = decimal.Decimal(2)
def model(x):
    return x * float(by + by)  # BAD
""",
            good="""
import decimal

BY = float(decimal.Decimal(2))


def model(x):
    return x * (BY + BY)
""",
        ),
    ),
    unshown=(
        Unshown(
            "With objects of `decimal.Decimal` and `array.array`, iterators and descriptors, Dynamo breaks "
            "with another type of this page, or does not break. The advice above holds for these types, "
            "too.",
            (
                "GB0153",
                "GB0281",
                "GB0755",
                "GB0781",
                "GB0871",
                "GB1220",
                "GB1752",
                "GB2544",
                "GB2861",
                "GB3006",
                "GB3241",
                "GB3697",
                "GB3775",
                "GB3934",
                "GB4608",
                "GB4749",
                "GB5904",
                "GB6890",
                "GB7286",
                "GB7510",
                "GB9277",
                "GB9548",
                "GB9648",
            ),
        ),
        Unshown(
            UNRAISED,
            (
                "GB0287",
                "GB0364",
                "GB0365",
                "GB0366",
                "GB5565",
                "GB7906",
                "GB8435",
                "GB9672",
            ),
        ),
        Unshown(
            "None has been found so far.",
            (
                "GB0367",
                "GB4240",
            ),
        ),
        Unshown(
            NEWER,
            (
                "GB2582",
                "GB3003",
                "GB4234",
                "GB5017",
                "GB9493",
            ),
        ),
    ),
)
