"""An assertion that cannot become a check within the graph.

## Why it hurts torch.compile
An assertion on a tensor becomes an operation of the graph, with a constant text. With another message, or where a
frame must not be split, there is nothing to put there.

## Use instead
Write the message as a constant text, or check outside of the compiled code.
"""

from __future__ import annotations

from tcready.breaks.page import Page, Unshown

PAGE = Page(
    name="assertion",
    page=__doc__,
    unshown=(
        Unshown(
            "Assertions that were tried are traced under torch 2.13, or break as a plain test of a "
            "tensor; no example has been found so far.",
            (
                "GB0002",
                "GB0034",
                "GB0171",
            ),
        ),
    ),
)
