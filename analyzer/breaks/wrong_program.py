"""Code that fails in eager mode too: a wrong call, an undefined name, mismatched sizes or devices.

## Why it hurts torch.compile
During tracing, Dynamo finds that the code cannot work: the call has the wrong arguments, the name has no value, the
shapes do not match. It leaves the code to Python, which raises the error at run time. If the code catches the error
itself, it works, and the break remains.

## Use instead
Fix the call or the name. If the code uses an error to find out what exists, as with an optional import, find out once,
when the module is imported.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="wrong-program",
    page=__doc__,
    breaks=(
        Break(
            "GB0050",
            "An `except` clause names something that is not an exception class.",
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
            "The code reads a local variable on a path that never sets it.",
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
            "The compiled code imports a module that is not installed.",
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
            "`groupby` gets a keyword argument that it does not have.",
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
            "`product` gets a keyword argument that it does not have.",
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
            "`torch.compile` gets too many positional arguments.",
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
            "The shapes of the `out` tensors do not match the results.",
            cure="Use the returned results.",
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
            "The shape of the `out` tensor does not match the result.",
            cure="Use the returned result.",
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
            "`torch.get_device_module` gets too many arguments.",
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
            "`torch.get_device_module` gets something that is not a device.",
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
            "The code creates a deque with too many arguments.",
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
            "`functools.partial` gets no function.",
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
            "The code creates an exception with a keyword argument that it does not have.",
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
            "`random.Random` gets more than a seed.",
            cure="Pass only a seed.",
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
            "The code reads an undefined name.",
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
            "An operation combines tensors of two devices.",
            cure="Create both on the same device.",
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
            "Every `__torch_function__` that could handle an operation refuses it.",
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
            "The code pops a torch function mode from an empty stack.",
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
            "The shapes or dtypes of an operation do not match. Running it on fake tensors raises an error.",
            cure=(
                "Fix the operation that the error names. A custom operator may lack a fake implementation."
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
            "The code reads an attribute that the parameters of attention do not have.",
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
            "The wrong programs tried so far break with another type, or raise Python's own exception.",
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
