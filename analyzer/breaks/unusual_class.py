"""A class or module that finds, sets or creates things in its own way.

## Why it hurts torch.compile
Dynamo follows `__init__`, attributes and methods as Python classes usually have them. Examples of what it does not
follow are a `__getattr__` that is an object, `super()` on something that is not a method, a class that validation
rebuilds, and attributes of exceptions. Dynamo would have to execute these to know what they do, so the graph ends there.

## Use instead
Let the class do this before the compiled code: read such attributes in the constructor and keep plain values. Create
configuration objects outside, and pass them in.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="unusual-class",
    page=__doc__,
    breaks=(
        Break(
            "GB0256",
            "`__getattr__` is an object, not a function.",
            cure="Write a method.",
            bad="""
class Find:
    def __call__(self, name):
        return 2
class Part:
    __getattr__ = Find()
part = Part()
def model(x):
    return x * part.by  # BAD
""",
            good="""
class Part:
    def __getattr__(self, name):
        return 2


part = Part()


def model(x):
    return x * part.by
""",
        ),
        Break(
            "GB0254",
            "`setattr` gets a tensor as the name, which raises an error in eager mode too.",
            bad="""
class Part:
    pass
part = Part()
def model(x):
    setattr(part, x, 3)  # BAD
    return x * 2
""",
            good="""
class Part:
    pass


part = Part()


def model(x):
    setattr(part, "by", 3)
    return x * 2
""",
        ),
        Break(
            "GB0058",
            "The code sets an attribute of a tensor that Dynamo does not track.",
            cure="Use the operation that returns such a tensor.",
            bad="""
def model(x):
    y = x + 1
    y.names = None
    y.real = x  # BAD
    return y
""",
            good="""
def model(x):
    y = x + 1
    return torch.complex(x, torch.zeros_like(x)).real + y * 0
""",
        ),
        Break(
            "GB0006",
            "`super()` is used to get something that is neither a function nor a method.",
            cure="Use the name of the class.",
            bad="""
class Base:
    size = 3
    class Inner: pass
class Part(Base):
    def f(self):
        return super().Inner()  # BAD
part = Part()
def model(x):
    part.f()
    return x * 2
""",
            good="""
class Base:
    class Inner:
        pass


class Part(Base):
    def f(self):
        return Base.Inner()


part = Part()


def model(x):
    part.f()
    return x * 2
""",
        ),
        Break(
            "GB0113",
            "`super()` is used to get an attribute that no base class has.",
            bad="""
class Part:
    def f(self):
        return super().no  # BAD
part = Part()
def model(x):
    try:
        part.f()
    except AttributeError:
        pass
    return x * 2
""",
            good="""
class Base:
    def f(self):
        return 2


class Part(Base):
    def f(self):
        return super().f()


part = Part()


def model(x):
    return x * part.f()
""",
        ),
        Break(
            "GB0162",
            "`forward` calls `super().__init__()` of a module.",
            cure="Create modules in the constructor.",
            bad="""
class Model(nn.Module):
    def forward(self, x):
        super().__init__()  # BAD
        return x * 2
""",
            good="""
class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return x * 2
""",
        ),
        Break(
            "GB0180",
            "`dataclasses.fields` gets something that is not a dataclass.",
            bad="""
import dataclasses
def model(x):
    return x * len(dataclasses.fields(x))  # BAD
""",
            good="""
import dataclasses


@dataclasses.dataclass
class Part:
    n: int


def model(x):
    return x * len(dataclasses.fields(Part(3)))
""",
        ),
        Break(
            "GB3383",
            "The code creates a pydantic dataclass, whose validation changes the object.",
            cure="Create it outside, and pass it in.",
            bad="""
import dataclasses
try:
    from pydantic.dataclasses import dataclass
except ImportError:
    dataclass = dataclasses.dataclass
@dataclass
class Part:
    n: int
def model(x):
    return x * Part(3).n  # BAD
""",
            good="""
from pydantic.dataclasses import dataclass


@dataclass
class Part:
    n: int


PART = Part(3)


def model(x):
    return x * PART.n
""",
        ),
        Break(
            "GB9625",
            "The code reads an attribute of a traceback.",
            bad="""
def model(x):
    try:
        raise ValueError("a")
    except ValueError as e:
        n = e.__traceback__.tb_lasti  # BAD
    return x * n
""",
            good="""
def model(x):
    n = 0
    try:
        raise ValueError("a")
    except ValueError:
        n = 1
    return x * n
""",
        ),
        Break(
            "GB0135",
            "The code sets an attribute of an exception.",
            cure="Pass it to the exception's constructor.",
            bad="""
def model(x):
    try:
        raise ValueError("a")
    except ValueError as e:
        e.note = x  # BAD
    return x * 2
""",
            good="""
def model(x):
    try:
        raise ValueError("a")
    except ValueError:
        note = x
    return note * 2
""",
        ),
        Break(
            "GB0257",
            "The code creates a `TypedDict` with optional keys.",
            cure="Create a plain dict.",
            bad="""
import typing
class Options(typing.TypedDict, total=False):
    by: int
def model(x):
    o = Options(by=3)  # BAD
    return x * o["by"]
""",
            good="""
def model(x):
    options = {"by": 3}
    return x * options["by"]
""",
        ),
    ),
    unshown=(
        Unshown(
            "The classes tried so far are traced by torch 2.13, or break with another type.",
            (
                "GB0004",
                "GB0031",
                "GB0084",
                "GB0121",
                "GB0137",
                "GB0161",
                "GB0189",
                "GB0202",
                "GB0211",
                "GB0220",
                "GB0235",
                "GB0271",
                "GB0280",
                "GB2404",
                "GB5458",
                "GB5849",
                "GB6999",
                "GB7502",
                "GB7637",
            ),
        ),
        Unshown(
            UNRAISED,
            (
                "GB0032",
                "GB0075",
                "GB0095",
                "GB0136",
                "GB0261",
                "GB0357",
                "GB0368",
                "GB0369",
            ),
        ),
        Unshown(
            "None has been found so far.",
            ("GB0131",),
        ),
        Unshown(
            NEWER,
            (
                "GB1273",
                "GB2412",
                "GB3780",
                "GB4818",
                "GB5491",
                "GB6404",
                "GB7168",
                "GB9368",
                "GB9899",
            ),
        ),
    ),
)
