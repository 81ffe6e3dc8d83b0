"""An attribute of a numpy array is read that Dynamo does not model.

## What it does
Finds reads of `dtype`, `flags` and `base` of a numpy array, and calls of `tobytes()` and `tostring()`.

## Why it hurts torch.compile
Dynamo translates numpy code to tensor code. It cannot return an attribute that a tensor does not have, or has
with a different meaning (the dtype is one of torch). The graph ends here.

## Use instead
The tensor that the array came from, and its `dtype`; a literal dtype (`np.float32`); or an array that is
created, and whose attribute is read, before the compiled call.

## Limits
`shape`, `ndim`, `size`, `itemsize`, `T`, `real`, `imag` and `flat` are traced and not reported. `nbytes`,
`strides` and `data` break the graph where they are used, which this rule does not find.
"""

from tcready.static.engine.facts import Attribute, Call
from tcready.static.engine.knowledge import ARRAY
from tcready.static.rule import Claim, Rule, Sample

UNMODELLED = frozenset({"base", "dtype", "flags"})
"""Attributes of `numpy.ndarray` that `NumpyNdarrayVariable.var_getattr` of torch 2.13 gives up (each run)."""
BYTES = frozenset({"tobytes", "tostring"})
"""Methods that its `call_method` gives up."""


def check(fact: Attribute | Call) -> Claim | None:
    if isinstance(fact, Call):
        if fact.method in BYTES and fact.receiver == ARRAY:
            return Claim(
                f"`.{fact.method}()` of a numpy array, which is a tensor to Dynamo: the graph ends here"
            )
        return None
    if fact.owner == ARRAY and fact.name in UNMODELLED:
        return Claim(f"`.{fact.name}` of a numpy array, which is a tensor to Dynamo: the graph ends here")
    return None


RULE = Rule(
    code="TCR335",
    name="array-attribute",
    effect="graph_break",
    level="error",
    gb_ids=("GB0157", "GB0158"),
    facts=(Attribute, Call),
    check=check,
    no_rewrite="The code that creates the array and determines its dtype is elsewhere.",
    page=__doc__,
    bad=(
        Sample(
            """
import numpy as np


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        scales = np.asarray([0.5, 0.25])
        rounded = np.zeros(2, dtype=scales.dtype)  # BAD
        return y + torch.from_numpy(rounded).sum()
"""
        ),
        Sample(
            """
import numpy as np


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        scales = np.asarray([0.5, 0.25])
        y = y + len(scales.tobytes())  # BAD
        return y * 2 if scales.flags.c_contiguous else y  # BAD
"""
        ),
    ),
    good=(
        Sample(
            """
import numpy as np


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        scales = np.asarray([0.5, 0.25])
        y = y * scales.ndim + scales.size + scales.shape[0] + scales.itemsize
        return y + torch.from_numpy(scales.T).sum()
"""
        ),
    ),
)
