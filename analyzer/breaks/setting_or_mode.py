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
    return x + torch.zeros(1)
""",
            config="use_numpy_random_stream=True",
        ),
        Break(
            "GB0263",
            "`enable_trace_contextlib` is off, and a context made by `contextlib.contextmanager` is entered.",
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
def model(x):
    with torch.no_grad():
        return x * 2
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
            "Only while exporting, in strict mode or with compiled autograd, which tcready does not run.",
            (
                "GB0068",
                "GB0102",
                "GB0108",
                "GB0173",
                "GB0228",
                "GB0244",
                "GB0373",
                "GB1380",
            ),
        ),
        Unshown(
            NEWER,
            ("GB7020",),
        ),
    ),
)
