"""Code that eager refuses too: a wrong call, a name that is not there, sizes or devices that do not fit.

## Why it hurts torch.compile
Dynamo finds while tracing that the code cannot work: the call has the wrong arguments, the name has no value, the
shapes do not fit. It leaves the code to Python, which raises the error where it runs. Where the code catches the
error itself, it works, and the break remains.

## Use instead
Mend the call or the name. Where an error is used to find out what is there, as with an optional import, find out
once when the module is imported.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="wrong-program",
    page=__doc__,
    breaks=(
        Break(
            "GB0050",
            "An `except` names what is no class of exceptions.",
            cure="Name the class.",
            bad="""
def model(x):
    try:
        raise ValueError
    except 3:  # BAD
        pass
    return x * 2
""",
            good="""
def model(x):
    try:
        raise ValueError
    except ValueError:
        pass
    return x * 2
""",
        ),
        Break(
            "GB0011",
            "A local variable is read on a path that never sets it.",
            bad="""
def model(x):
    if x.size(0) > 100:
        y = 2
    return x * y  # BAD
""",
            good="""
def model(x):
    y = 1
    if x.size(0) > 100:
        y = 2
    return x * y
""",
        ),
        Break(
            "GB0091",
            "An inner function reads a variable that is set only afterwards.",
            bad="""
def model(x):
    def f():
        return y
    z = f()  # BAD
    y = 2
    return x * z
""",
            good="""
def model(x):
    y = 2

    def f():
        return y

    return x * f()
""",
        ),
        Break(
            "GB0069",
            "A module that is not installed is imported in the compiled code.",
            cure="Import it at the top of the file.",
            bad="""
def model(x):
    import no_such_module  # BAD
    return x * 2
""",
            good="""
try:
    import no_such_module
except ImportError:
    no_such_module = None


def model(x):
    return x * 2 if no_such_module is None else x
""",
        ),
        Break(
            "GB0155",
            "`groupby` got a keyword that it does not have.",
            bad="""
import itertools
def model(x):
    return x * len(list(itertools.groupby([1, 2], by=3)))  # BAD
""",
            good="""
import itertools


def model(x):
    return x * len(list(itertools.groupby([1, 2], key=abs)))
""",
        ),
        Break(
            "GB0268",
            "`product` got a keyword that it does not have.",
            bad="""
import itertools
def model(x):
    return x * len(list(itertools.product([1, 2], times=3)))  # BAD
""",
            good="""
import itertools


def model(x):
    return x * len(list(itertools.product([1, 2], repeat=3)))
""",
        ),
        Break(
            "GB0223",
            "`torch.compile` got too many arguments by position.",
            bad="""
def model(x):
    return torch.compile(lambda x: x, x)(x)  # BAD
""",
            good="""
def double(x):
    return x * 2


def model(x):
    return torch.compile(double)(x)
""",
        ),
        Break(
            "GB0240",
            "Results go into tensors of another shape.",
            cure="Take the results as they are returned.",
            bad="""
def model(x):
    out = (torch.empty(3), torch.empty(3))
    torch.max(x, 1, out=(torch.empty(2), torch.empty(2, dtype=torch.long)))  # BAD
    return x
""",
            good="""
def model(x):
    return torch.max(x, 1).values
""",
        ),
        Break(
            "GB0247",
            "The result goes into a tensor of another shape.",
            cure="Take the result as it is returned.",
            bad="""
def model(x):
    out = torch.empty(3)
    torch.add(x, 1, out=out)  # BAD
    return out
""",
            good="""
def model(x):
    return torch.add(x, 1)
""",
        ),
        Break(
            "GB0248",
            "`torch.get_device_module` got too many arguments.",
            bad="""
def model(x):
    torch.get_device_module("cpu", 3)  # BAD
    return x * 2
""",
            good="""
def model(x):
    torch.get_device_module("cpu")
    return x * 2
""",
        ),
        Break(
            "GB0286",
            "`torch.get_device_module` got something that is no device.",
            bad="""
def model(x):
    torch.get_device_module(3.5)  # BAD
    return x * 2
""",
            good="""
def model(x):
    torch.get_device_module("cpu")
    return x * 2
""",
        ),
        Break(
            "GB0258",
            "A deque is made with too many arguments.",
            bad="""
import collections
def model(x):
    return x * len(collections.deque([1], 2, 3))  # BAD
""",
            good="""
import collections


def model(x):
    return x * len(collections.deque([1], 2))
""",
        ),
        Break(
            "GB0260",
            "`functools.partial` got no function.",
            bad="""
import functools
def model(x):
    return functools.partial()(x)  # BAD
""",
            good="""
import functools


def model(x):
    return functools.partial(torch.relu)(x)
""",
        ),
        Break(
            "GB0273",
            "An exception is made with a keyword that it does not have.",
            bad="""
def model(x):
    try:
        raise ValueError(a=3)  # BAD
    except TypeError: pass
    return x * 2
""",
            good="""
def model(x):
    try:
        raise ValueError("a")
    except ValueError:
        pass
    return x * 2
""",
        ),
        Break(
            "GB0297",
            "`random.Random` got more than a seed.",
            cure="Give a seed alone.",
            bad="""
import random
def model(x):
    r = random.Random(1, 2)  # BAD
    return x * 2
""",
            good="""
import random


def model(x):
    r = random.Random(1)
    return x * r.random()
""",
        ),
        Break(
            "GB0354",
            "A name is read that nothing defines.",
            bad="""
def model(x):
    return x * no_such  # BAD
""",
            good="""
BY = 3


def model(x):
    return x * BY
""",
        ),
        Break(
            "GB5173",
            "Tensors of two devices meet in one operation.",
            cure="Make both on the same device.",
            bad="""
def model(x):
    return x + torch.ones(8, device="meta")
""",
            good="""
def model(x):
    return x + torch.ones(8, device=x.device)
""",
        ),
        Break(
            "GB0000",
            "Every `__torch_function__` that could answer for an operation refuses it.",
            bad="""
class Sub(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented
def model(x):
    return x.as_subclass(Sub) + 1  # BAD
""",
            good="""
def model(x):
    return x + 1
""",
        ),
        Break(
            "GB0234",
            "A mode of torch functions is taken from a stack that has none.",
            cure="Use the mode in a `with` block.",
            bad="""
def model(x):
    torch._C._pop_torch_function_stack()  # BAD
    return x * 2
""",
            good="""
class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def model(x):
    with Mode():
        return x * 2
""",
        ),
        Break(
            "GB4315",
            "Shapes or types of an operation do not fit: trying it on tensors without data raises an error.",
            cure=(
                "The operation that it names is to be mended; one of your own may lack its fake "
                "implementation."
            ),
            bad="""
def model(x):
    return x @ x
""",
            good="""
def model(x):
    return x @ x.t()
""",
        ),
        Break(
            "GB0359",
            "An attribute of the parameters of attention is read that they do not have.",
            bad="""
def model(x):
    q = x[None, None]
    p = torch.backends.cuda.SDPAParams(q, q, q, None, 0.0, False, False)
    return x * 2 if p.no_such else x  # BAD
""",
            good="""
def model(x):
    q = x[None, None]
    return F.scaled_dot_product_attention(q, q, q)
""",
        ),
    ),
    unshown=(
        Unshown(
            "Wrong programs of that kind that were tried are reported by another type, or by Python's own "
            "exception; no example has been found so far.",
            (
                "GB0010",
                "GB0012",
                "GB0022",
                "GB0028",
                "GB0051",
                "GB0076",
                "GB0081",
                "GB0111",
                "GB0167",
                "GB0168",
                "GB0174",
                "GB0182",
                "GB0196",
                "GB0252",
            ),
        ),
        Unshown(
            UNRAISED,
            (
                "GB0057",
                "GB0077",
                "GB0154",
                "GB0259",
                "GB0270",
                "GB7230",
                "GB8887",
            ),
        ),
        Unshown(
            NEWER,
            ("GB9192",),
        ),
    ),
)
