"""Code that communicates with other processes.

## Why it hurts torch.compile
Dynamo traces the collectives that have a functional form. Sends between two processes, and some ways to wrap a model,
have no such form that is on by default.

## Use instead
Keep such calls outside of the compiled function. Under FSDP, use `use_orig_params=True`.
"""

from __future__ import annotations

from tcready.breaks.page import UNRAISED, Page, Unshown

PAGE = Page(
    name="several-processes",
    page=__doc__,
    unshown=(
        Unshown(
            "It takes several processes, or a setting for them, so no example is run.",
            (
                "GB0053",
                "GB1750",
                "GB2696",
                "GB9300",
                "GB9860",
            ),
        ),
        Unshown(
            UNRAISED,
            (
                "GB0282",
                "GB3343",
            ),
        ),
    ),
)
