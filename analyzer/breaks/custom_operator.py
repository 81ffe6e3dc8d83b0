"""An operator or backend that does not support compilation, most often a custom one.

## Why it hurts torch.compile
To learn shapes, Dynamo runs every operator on fake tensors, which have no data. This fails if the fake implementation
of an operator is missing or wrong.

## Use instead
Register a fake implementation with `torch.library.register_fake`. If the size of a result depends on values, create
the size with `torch.library.get_ctx().new_dynamic_size()`.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, Page, Unshown

PAGE = Page(
    name="custom-operator",
    page=__doc__,
    unshown=(
        Unshown(
            "The programs tried so far raise GB4315, or break at GB0090 first.",
            (
                "GB0037",
                "GB0043",
                "GB0064",
                "GB0087",
            ),
        ),
        Unshown(
            "The backend failed, which tcready reports as a separate failed stage.",
            ("GB0219",),
        ),
        Unshown(
            NEWER,
            ("GB3069",),
        ),
    ),
)
