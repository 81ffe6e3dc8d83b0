"""A line of code, as all results of a run name it."""

from __future__ import annotations

from tcready.schema.value_class import dataclass


@dataclass(frozen=True)
class Frame:
    """A line of a function, as tracebacks name it."""

    path: str
    line: int
    symbol: str
