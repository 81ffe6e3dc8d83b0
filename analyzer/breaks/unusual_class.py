"""A class or module with its own way to find, set or make things.

## Why it hurts torch.compile
Dynamo follows `__init__`, attributes and methods as Python classes usually have them. Custom ways, such as a
`__getattr__` that is an object, `super()` on what is no method, a class made anew by validation, or attributes of
exceptions, would have to be executed to know what they do: the graph ends there.

## Use instead
Do what the class does in its own way before the compiled code: read such attributes in the constructor and keep
plain values; build configuration objects outside and hand them in.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="unusual-class",
    page=__doc__,
    breaks=(
        Break(
            "GB0256",
            "`__getattr__` is an object, no function.",
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
            "`setattr` with a name that is a tensor, which eager refuses, too.",
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
            "An attribute of a tensor is set that Dynamo does not follow.",
            cure="Use the operation that gives such a tensor.",
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
            "`super()` is asked for what is neither a function nor a method.",
            cure="Name the class.",
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
            "`super()` is asked for an attribute that no base has.",
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
            "`super().__init__()` of a module is called in `forward`.",
            cure="Build modules in the constructor.",
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
            "`dataclasses.fields` of something that is no dataclass.",
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
            "A dataclass of pydantic is made: its validation changes the object.",
            cure="Make it outside, and hand it in.",
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
            "An attribute of a traceback is read.",
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
            "An attribute of an exception is set.",
            cure="Give it to the exception's constructor.",
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
            "A `TypedDict` with keys that may be left out is made.",
            cure="Make a plain dict.",
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
            "Classes of that kind that were tried are traced under torch 2.13, or break with another "
            "type; no example has been found so far.",
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
            "No example has been found so far.",
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
