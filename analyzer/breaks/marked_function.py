"""A function marked for Dynamo gets or returns what its marker does not allow.

## Why it hurts torch.compile
`nonstrict_trace`, `leaf_function` and `assume_constant_result` tell Dynamo not to trace into a function. Arguments and
results must then be of types that a graph can hold: tensors, numbers, and registered containers of them.

## Use instead
Pass and return tensors, numbers, lists, tuples and dicts. Register your own classes with `torch.utils._pytree`.
"""

from __future__ import annotations

from tcready.breaks.page import UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="marked-function",
    page=__doc__,
    breaks=(
        Break(
            "GB0236",
            "A `nonstrict_trace` function gets an object of a plain class.",
            cure="Pass its parts.",
            bad="""
class P: pass
@torch._dynamo.nonstrict_trace
def f(x, p): return x * 2
def model(x):
    return f(x, P())  # BAD
""",
            good="""
@torch._dynamo.nonstrict_trace
def f(x, by):
    return x * by


def model(x):
    return f(x, 2)
""",
        ),
        Break(
            "GB0251",
            "A `nonstrict_trace` function returns an object of a plain class.",
            cure="Return its parts.",
            bad="""
class P: pass
@torch._dynamo.nonstrict_trace
def f(x): return P()
def model(x):
    f(x)  # BAD
    return x * 2
""",
            good="""
@torch._dynamo.nonstrict_trace
def f(x):
    return x * 2


def model(x):
    return f(x)
""",
        ),
    ),
    unshown=(
        Unshown(
            "The marked functions tried so far are traced by torch 2.13, or break with another type.",
            (
                "GB0078",
                "GB0238",
                "GB0239",
                "GB2520",
                "GB6210",
            ),
        ),
        Unshown(
            UNRAISED,
            ("GB3840",),
        ),
    ),
)
