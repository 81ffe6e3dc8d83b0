"""NumPy code that torch's implementation of NumPy does not support.

## Why it hurts torch.compile
Dynamo replaces arrays by tensors, and functions of NumPy by those of `torch._numpy`. It cannot trace what
`torch._numpy` does not have, such as memory layouts, arrays of objects and bytes.

## Use instead
Compute with tensors, and convert before and after the compiled code. Read constants of NumPy once, at module level.
"""

from __future__ import annotations

from tcready.breaks.page import Break, Page

PAGE = Page(
    name="numpy-in-compiled-code",
    page=__doc__,
    breaks=(
        Break(
            "GB0157",
            "The code reads an attribute of an array that has no counterpart in torch.",
            cure="Read it outside of the compiled code.",
            bad="""
import numpy as np
def model(x):
    a = x.numpy()
    return x * a.flags.c_contiguous  # BAD
""",
            good="""
def model(x):
    return x * x.is_contiguous()
""",
        ),
        Break(
            "GB0158",
            "The code calls a method of an array that has no counterpart in torch.",
            cure="Use a method or an attribute of the tensor.",
            bad="""
def model(x):
    return x * len(x.numpy().tobytes())  # BAD
""",
            good="""
def model(x):
    return x * x.nbytes
""",
        ),
        Break(
            "GB0159",
            "The code reads `__version__` of an array, which arrays do not have.",
            bad="""
def model(x):
    return x * len(x.numpy().__version__)  # BAD
""",
            good="""
import numpy as np

VERSION = np.__version__


def model(x):
    return x * len(VERSION)
""",
        ),
        Break(
            "GB0185",
            "Compiled code uses an array of strings or objects.",
            cure="Use a list.",
            bad="""
import numpy as np
a = np.array(["a", "b"])
def model(x):
    return x * len(a)  # BAD
""",
            good="""
NAMES = ["a", "b"]


def model(x):
    return x * len(NAMES)
""",
        ),
        Break(
            "GB0290",
            "The code calls a method of arrays as a function.",
            cure="Call the function of NumPy or of torch.",
            bad="""
import numpy as np
class Model(nn.Module):
    f = staticmethod(np.sum)
    def forward(self, x):
        return torch.from_numpy(np.ndarray.sum(x.numpy(), axis=0))  # BAD
""",
            good="""
def model(x):
    return x.sum(0)
""",
        ),
        Break(
            "GB0300",
            "A NumPy function that describes a type, such as `np.finfo`, gets something that is not a "
            "constant.",
            cure="Use the function of torch.",
            bad="""
import numpy as np
def model(x):
    return x * float(np.finfo(x.numpy()).eps)  # BAD
""",
            good="""
def model(x):
    return x * torch.finfo(x.dtype).eps
""",
        ),
        Break(
            "GB0250",
            "The code converts an array to an array of objects.",
            cure="Use a list.",
            bad="""
def model(x):
    return x * len(x.numpy().astype(object))  # BAD
""",
            good="""
def model(x):
    return x * len(x)
""",
        ),
    ),
)
