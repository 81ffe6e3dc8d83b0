"""An assertion that Dynamo cannot turn into a check in the graph.

## Why it hurts torch.compile
An assertion on a tensor becomes an operation of the graph if its message is a constant string. With another message,
or in a frame that must not be split, Dynamo cannot do this.

## Use instead
Use a constant string as the message, or check outside of the compiled code.
"""

from __future__ import annotations

from tcready.breaks.page import Page, Unshown

PAGE = Page(
    name="assertion",
    page=__doc__,
    unshown=(
        Unshown(
            "The assertions tried so far are traced by torch 2.13, or break as an ordinary branch on a "
            "tensor.",
            (
                "GB0002",
                "GB0034",
                "GB0171",
            ),
        ),
    ),
)
