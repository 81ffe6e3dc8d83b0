"""NumPy where torch's own model of NumPy ends.

## Why it hurts torch.compile
Dynamo replaces arrays by tensors and NumPy's functions by those of `torch._numpy`. What that does not have, such as
memory layouts, objects as elements, bytes, cannot be traced.

## Use instead
Compute with tensors; convert before and after the compiled code. Constants of NumPy can be read once, beside the
class.
"""

from __future__ import annotations

from tcready.breaks.page import Break, Page

PAGE = Page(
    name="numpy-in-compiled-code",
    page=__doc__,
    breaks=(
        Break(
            "GB0157",
            "An attribute of an array is read that has no counterpart.",
            cure="Read it outside.",
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
            "A method of an array is called that has no counterpart.",
            cure="Use one of the tensor.",
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
            "`__version__` of an array is read, which arrays do not have.",
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
            "An array of texts or objects meets compiled code.",
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
            "A method of arrays is called as a function.",
            cure="Call the function of NumPy, or of torch.",
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
            "A type of NumPy is asked for by something that is no constant.",
            cure="Ask torch.",
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
            "An array is made one of objects.",
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
