"""How many columns of a terminal text takes: rich's answer, which is only loaded where a letter may be two wide."""

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
