"""Terminal width of text, as rich computes it. Rich is imported only if a character may be two columns wide."""

from __future__ import annotations


def cell_len(text: str) -> int:
    """Return the number of columns of text; for control characters, as rich counts them."""
    if text.isascii() and text.isprintable():
        return len(text)
    from rich.cells import cell_len as measured

    return measured(text)


def chop_cells(text: str, width: int) -> list[str]:
    """Split text into pieces of at most this many columns."""
    from rich.cells import chop_cells as chopped

    return chopped(text, width)
