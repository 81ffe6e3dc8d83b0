"""An operator or backend that is not made for compilation, most often a custom one.

## Why it hurts torch.compile
Dynamo runs every operator on tensors without data to learn shapes. An operator without a fake implementation, or
with a wrong one, cannot be run so.

## Use instead
Register a fake implementation with `torch.library.register_fake`; give results that depend on values a size by
`torch.library.get_ctx().new_dynamic_size()`.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, Page, Unshown

PAGE = Page(
    name="custom-operator",
    page=__doc__,
    unshown=(
        Unshown(
            "The programs that were tried raise GB4315 or break at GB0090 first; no example has been "
            "found so far.",
            (
                "GB0037",
                "GB0043",
                "GB0064",
                "GB0087",
            ),
        ),
        Unshown(
            "The backend failed, which tcready reports as a failed stage of its own.",
            ("GB0219",),
        ),
        Unshown(
            NEWER,
            ("GB3069",),
        ),
    ),
)
