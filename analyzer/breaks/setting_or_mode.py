"""A break that occurs only with a setting of `torch._dynamo.config`, or in a mode that is off by default.

## Why it hurts torch.compile
The setting tells Dynamo not to trace this code, or the mode does not support it.

## Use instead
Keep the default of the setting, or move the code out of what is compiled with it.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="setting-or-mode",
    page=__doc__,
    breaks=(
        Break(
            "GB0105",
            "`trace_numpy` is off, and the code converts a tensor to an array.",
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
            "`trace_numpy` is off, and the code creates a tensor from an array.",
            cure="Create it outside of the compiled code.",
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
            "`trace_numpy` is off, and the code calls a function of NumPy.",
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
            "`graph_break_on_nn_param_ctor` is off, and the constructor of a class creates an "
            "`nn.Parameter`.",
            cure="Create the parameter outside of the constructor, and pass it.",
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
            "`compiled_autograd` and `trace_autograd_ops` are on, and the code calls `torch.autograd.grad`.",
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
            "`use_numpy_random_stream` is on, and the code draws random numbers with NumPy.",
            cure="Draw them with torch.",
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
            "`enable_trace_contextlib` is off, and the code enters a context manager made by "
            "`contextlib.contextmanager`.",
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
            "A function listed in `reorderable_logging_functions` gets something other than tensors, "
            "constants and strings.",
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
            "Only during export, which tcready does not run.",
            (
                "GB0173",
                "GB0244",
            ),
        ),
        Unshown(
            "Torch 2.13 raises it only if `__getitem__` is on the list of what a `backward` may not use, a "
            "setting of `torch._dynamo.config`. By default, it is not.",
            ("GB1380",),
        ),
        Unshown(
            NEWER,
            ("GB7020",),
        ),
    ),
)
