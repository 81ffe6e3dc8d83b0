"""A change of source text."""

from __future__ import annotations

from tcready.schema.value_class import dataclass


@dataclass(frozen=True)
class Edit:
    """Replaces the text between two places of a file; an empty range inserts text.

    Lines end as in Python: at a line feed, a carriage return or both.
    """

    path: str
    start_line: int
    start_column: int
    end_line: int
    end_column: int
    """One past the last character."""
    new_text: str
    """With the line ends of the file."""
