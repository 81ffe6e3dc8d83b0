"""Dynamo stopped at a limit of its own.

## Why it hurts torch.compile
It compiles one code object a limited number of times, and follows loops and generators only so far. Behind the
limit the code runs eagerly.

## Use instead
Find what changes from call to call: the reasons for recompilation in the report name it. Let sizes be dynamic, keep
counters out of modules, end generators.
"""

from __future__ import annotations

from tcready.breaks.page import UNRAISED, Page, Unshown

PAGE = Page(
    name="limit-reached",
    page=__doc__,
    unshown=(
        Unshown(
            "It takes more calls than an example makes; the rules TCR501 to TCR504 show what leads to "
            "recompilation.",
            ("GB0039",),
        ),
        Unshown(
            "It takes a hundred starts of one analysis, or an iterator or generator that gives very "
            "many values: no example is run for it.",
            (
                "GB0052",
                "GB2549",
            ),
        ),
        Unshown(
            UNRAISED,
            ("GB0192",),
        ),
    ),
)
