"""This build or environment of torch lacks an optional part.

## Why it hurts torch.compile
NumPy is not installed, or torch was built without distributed support.

## Use instead
Install NumPy, or a build of torch with `torch.distributed`.
"""

from __future__ import annotations

from tcready.breaks.page import Page, Unshown

PAGE = Page(
    name="torch-build",
    page=__doc__,
    unshown=(
        Unshown(
            "It depends on how torch was built or what else is installed, so no example can run with a "
            "complete torch.",
            (
                "GB0106",
                "GB0210",
                "GB0232",
            ),
        ),
    ),
)
