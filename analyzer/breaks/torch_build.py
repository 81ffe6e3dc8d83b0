"""Something is missing in this build or environment of torch.

## Why it hurts torch.compile
NumPy is not installed, or torch was built without distributed.

## Use instead
Install NumPy, or a torch with `torch.distributed`.
"""

from __future__ import annotations

from tcready.breaks.page import Page, Unshown

PAGE = Page(
    name="torch-build",
    page=__doc__,
    unshown=(
        Unshown(
            "It depends on how torch was built or what is installed beside it, so no example can run "
            "where torch is whole.",
            (
                "GB0106",
                "GB0210",
                "GB0232",
            ),
        ),
    ),
)
