"""A break that comes only with a setting of `torch._dynamo.config`, or in a mode that is off by default.

## Why it hurts torch.compile
The setting says that Dynamo is not to trace this, or the mode does not know it.

## Use instead
Leave the setting at its default, or take the code out of what is compiled under it.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="setting-or-mode",
    page=__doc__,
    breaks=(
        Break(
            "GB0105",
            "`trace_numpy` is off, and a tensor is made an array.",
            cure="Use functions of torch.",
            bad="""
def model(x):
    return x * float(x.numpy().shape[0])  # BAD
""",
            good="""
def model(x):
    return x * float(x.shape[0])
""",
            config="trace_numpy=False",
        ),
        Break(
            "GB0231",
            "`trace_numpy` is off, and a tensor is made of an array.",
            cure="Make it outside.",
            bad="""
import numpy as np
a = np.ones(8, dtype=np.float32)
def model(x):
    return x * torch.from_numpy(a)  # BAD
""",
            good="""
import numpy as np

BY = torch.from_numpy(np.ones(8, dtype=np.float32))


def model(x):
    return x * BY
""",
            config="trace_numpy=False",
        ),
        Break(
            "GB0293",
            "`trace_numpy` is off, and a function of NumPy is called.",
            cure="Use functions of torch or `math`.",
            bad="""
import numpy as np
def model(x):
    return x * float(np.sqrt(4.0))  # BAD
""",
            good="""
import math


def model(x):
    return x * math.sqrt(4.0)
""",
            config="trace_numpy=False",
        ),
        Break(
            "GB0228",
            "`graph_break_on_nn_param_ctor` is off, and the constructor of a class makes an `nn.Parameter`.",
            cure="Make the parameter outside of the constructor, and pass it.",
            bad="""
class Scale:
    def __init__(self):
        self.by = nn.Parameter(torch.ones(8))  # BAD


def model(x):
    return x * Scale().by
""",
            good="""
class Scale:
    def __init__(self, by):
        self.by = by


def model(x):
    return x * Scale(nn.Parameter(torch.ones(8))).by
""",
            config="graph_break_on_nn_param_ctor=False",
        ),
        Break(
            "GB0373",
            "`compiled_autograd` and `trace_autograd_ops` are on, and `torch.autograd.grad` is called.",
            cure="Use `torch.func.grad`.",
            bad="""
def model(x):
    return torch.autograd.grad((x * 2).sum(), x)[0]  # BAD
""",
            good="""
def model(x):
    return torch.func.grad(lambda x: (x * 2).sum())(x)
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
            config="compiled_autograd=True, trace_autograd_ops=True",
        ),
        Break(
            "GB0298",
            "`use_numpy_random_stream` is on, and NumPy's random numbers are drawn.",
            cure="Draw with torch.",
            bad="""
import numpy as np
def model(x):
    return x * float(np.random.rand(1)[0])  # BAD
""",
            good="""
def model(x):
    return x * torch.rand(1)
""",
            config="use_numpy_random_stream=True",
        ),
        Break(
            "GB0263",
            "`enable_trace_contextlib` is off, and a context made by `contextlib.contextmanager` is entered.",
            cure="Enter it around the call of the compiled model.",
            bad="""
import contextlib
@contextlib.contextmanager
def f():
    yield
def model(x):
    with f():  # BAD
        return x * 2
""",
            good="""
import contextlib


@contextlib.contextmanager
def f():
    yield


def model(x):
    return x * 2


def within(compiled, x):
    with f():
        return compiled(x)
""",
            config="enable_trace_contextlib=False",
        ),
        Break(
            "GB0296",
            "A function listed in `reorderable_logging_functions` got something else than tensors, "
            "constants and texts.",
            bad="""
class Part:
    pass


PART = Part()


def model(x):
    print(x, PART)  # BAD
    return x * 2
""",
            good="""
def model(x):
    print(x, "part")
    return x * 2
""",
            config="reorderable_logging_functions={print}",
        ),
    ),
    unshown=(
        Unshown(
            UNRAISED,
            (
                "GB0029",
                "GB0230",
            ),
        ),
        Unshown(
            "Only while exporting, which tcready does not run.",
            (
                "GB0173",
                "GB0244",
            ),
        ),
        Unshown(
            "Torch 2.13 raises it only if `__getitem__` is put on the list of `torch._dynamo.config` of what a "
            "`backward` may not use, where it is not by default.",
            ("GB1380",),
        ),
        Unshown(
            NEWER,
            ("GB7020",),
        ),
    ),
)
