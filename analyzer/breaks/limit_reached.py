"""Dynamo reached one of its own limits.

## Why it hurts torch.compile
Dynamo compiles one code object a limited number of times, and follows loops and generators up to a limit. Beyond the
limit, the code runs eagerly.

## Use instead
Find what changes from call to call: the reasons for recompilation in the report name it. Make sizes dynamic, keep
counters out of modules, and make generators end.
"""

from __future__ import annotations

from tcready.breaks.page import UNRAISED, Page, Unshown

PAGE = Page(
    name="limit-reached",
    page=__doc__,
    unshown=(
        Unshown(
            "It takes more calls than an example makes. The rules TCR501 to TCR504 show what causes "
            "recompilation.",
            ("GB0039",),
        ),
        Unshown(
            "It takes a hundred restarts of one analysis, or an iterator or generator with very many "
            "values, so no example is run.",
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
