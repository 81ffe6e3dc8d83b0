"""Compute the width of text in terminal columns. rich is loaded only for letters that may be two columns wide."""

from __future__ import annotations


def cell_len(text: str) -> int:
    """The columns that text takes; of control characters, as many as rich gives them."""
    if text.isascii() and text.isprintable():
        return len(text)
    from rich.cells import cell_len as measured

    return measured(text)


def chop_cells(text: str, width: int) -> list[str]:
    """Text in pieces of at most so many columns."""
    from rich.cells import chop_cells as chopped

    return chopped(text, width)
