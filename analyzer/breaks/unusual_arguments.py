"""A call that Dynamo traces otherwise, with arguments of a kind that it does not support.

## Why it hurts torch.compile
For many functions of Python and torch, Dynamo has its own rule, which covers the usual arguments. With other arguments
it does not know the result of the call. The graph ends there, and the call runs eagerly.

## Use instead
Write the call in its plain form. Or make it once, outside of the compiled code, and keep its result: in the constructor
or at module level. Dynamo treats types, names and tables of the program as constants.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="unusual-arguments",
    page=__doc__,
    breaks=(
        Break(
            "GB0134",
            "`groupby` gets more arguments than it takes.",
            bad="""
import itertools
def model(x):
    out = x
    for key, group in itertools.groupby([1, 1, 2], int, 3):  # BAD
        out = out + key
    return out
""",
            good="""
import itertools


def model(x):
    out = x
    for key, group in itertools.groupby([1, 1, 2], key=int):
        out = out + key
    return out
""",
        ),
        Break(
            "GB0152",
            "The keys of `groupby` are tensors.",
            cure="Group by what is known during tracing: sizes, types, names.",
            bad="""
import itertools
def model(x):
    out = x
    for key, group in itertools.groupby([x, x + 1], key=lambda t: t.sum()):  # BAD
        out = out + len(list(group))
    return out
""",
            good="""
import itertools


def model(x):
    out = x
    for key, group in itertools.groupby([x, x + 1], key=lambda t: t.size(0)):
        out = out + len(list(group))
    return out
""",
        ),
        Break(
            "GB4393",
            "`issubclass` gets something that is not a class.",
            bad="""
def model(x):
    return x * 2 if issubclass(type(x), (torch.Tensor, x)) else x  # BAD
""",
            good="""
def model(x):
    return x * 2 if issubclass(type(x), torch.Tensor) else x
""",
        ),
        Break(
            "GB0203",
            "The keys of a dict are passed as an argument, and are neither strings nor numbers.",
            cure="Pass the dict itself, or use names as keys.",
            bad="""
def model(x, names):
    return x * len(names)  # BAD
""",
            good="""
def model(x, names):
    return x * len(names)
""",
            inputs="(torch.randn(4, 8), {nn.ReLU: 3, torch.float32: 2}.keys())",
            good_inputs='(torch.randn(4, 8), {"a": 3, "b": 2}.keys())',
        ),
        Break(
            "GB0226",
            "`torch.nn.Parameter` is created from a number.",
            cure="Create it from a tensor, in the constructor.",
            bad="""
def model(x):
    return x * nn.Parameter(3.0)  # BAD
""",
            good="""
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(torch.tensor(3.0))

    def forward(self, x):
        return x * self.by
""",
        ),
        Break(
            "GB0242",
            "The `out` tensor is not contiguous.",
            cure="Use the returned result.",
            bad="""
def model(x):
    out = torch.empty(8, 4).t()
    torch.add(x, 1, out=out)  # BAD
    return out
""",
            good="""
def model(x):
    return torch.add(x, 1)
""",
        ),
        Break(
            "GB0360",
            "The code calls a function of torch's symbolic shapes on a tensor.",
            cure="Compute with the tensor.",
            bad="""
from torch.fx.experimental.symbolic_shapes import guard_scalar
def model(x):
    return x * guard_scalar(x.sum())  # BAD
""",
            good="""
def model(x):
    return x * x.sum()
""",
        ),
        Break(
            "GB5976",
            "The code compares the addresses of two tensors. Dynamo can do this only for the same tensor.",
            cure="Compare the objects.",
            bad="""
def model(x):
    y = x + 1
    return x * 2 if x.data_ptr() == y.data_ptr() else y  # BAD
""",
            good="""
def model(x):
    y = x + 1
    return x * 2 if x is y else y
""",
        ),
        Break(
            "GB9137",
            "The code creates a type from values that are not constants.",
            bad="""
import typing
def model(x):
    return x * 2 if typing.List[x] else x  # BAD
""",
            good="""
import typing

ROWS = typing.List[int]


def model(x):
    return x * 2 if ROWS else x
""",
        ),
        Break(
            "GB9158",
            "The message of `torch._check` is made from a tensor.",
            cure="Make it from constants.",
            bad="""
def model(x):
    n = x.sum().int().item()
    torch._check(n > -1000, lambda: f"n is {x}")  # BAD
    return x * n
""",
            good="""
def model(x):
    n = x.sum().int().item()
    torch._check(n > -1000, lambda: "n is too small")
    return x * n
""",
            config="capture_scalar_outputs=True",
        ),
        Break(
            "GB9840",
            "The message of `torch._check` is an object, not a function defined in the code.",
            cure="Write a lambda.",
            bad="""
def text():
    return "too small"
def model(x):
    torch._check(x.size(0) > 1, str)  # BAD
    return x * 2
""",
            good="""
def model(x):
    torch._check(x.size(0) > 1, lambda: "too few rows")
    return x * 2
""",
        ),
        Break(
            "GB5195",
            "`elementwise_dtypes` gets something that is neither a tensor nor a number.",
            bad="""
from torch._prims_common import elementwise_dtypes, ELEMENTWISE_TYPE_PROMOTION_KIND
def model(x):
    return x.to(elementwise_dtypes([x], type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)[0])  # BAD
""",
            good="""
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes


def model(x):
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    return x.to(elementwise_dtypes(x, type_promotion_kind=kind)[0])
""",
        ),
        Break(
            "GB0150",
            "The code calls `hasattr` on an object that Dynamo knows only by its use, such as an iterator.",
            cure="Call it once, outside of the compiled code.",
            bad="""
import itertools
def model(x):
    return x * 2 if hasattr(itertools.count(), "send") else x + 1  # BAD
""",
            good="""
import itertools

SENDS = hasattr(itertools.count(), "send")


def model(x):
    return x * 2 if SENDS else x + 1
""",
        ),
    ),
    unshown=(
        Unshown(
            "Under torch 2.13, the programs tried so far break with another type, or not at all.",
            (
                "GB0035",
                "GB0118",
                "GB0175",
                "GB0177",
                "GB0183",
                "GB0186",
                "GB0187",
                "GB0194",
                "GB0201",
                "GB0214",
                "GB0215",
                "GB0217",
                "GB0224",
                "GB0241",
                "GB0243",
                "GB0278",
                "GB0289",
                "GB0292",
                "GB6270",
                "GB7489",
                "GB7596",
                "GB9522",
            ),
        ),
        Unshown(
            UNRAISED,
            (
                "GB0038",
                "GB0054",
                "GB0070",
                "GB0132",
                "GB0133",
                "GB0143",
                "GB0151",
                "GB0160",
                "GB0191",
                "GB0195",
                "GB0218",
                "GB0288",
                "GB6025",
            ),
        ),
        Unshown(
            NEWER,
            (
                "GB0507",
                "GB1157",
                "GB1350",
                "GB1354",
                "GB1472",
                "GB1583",
                "GB1618",
                "GB2736",
                "GB3837",
                "GB5460",
                "GB5687",
                "GB6066",
                "GB6815",
                "GB9890",
            ),
        ),
    ),
)
