"""A call in the user's code that compiles something."""

from __future__ import annotations

import ast
from typing import Any

from tcready.schema.value_class import dataclass


@dataclass(frozen=True)
class CompileCall:
    """A call that compiles something: `torch.compile(self._encode, dynamic=True)`, `layer.compile()`."""

    path: str
    line: int
    symbol: str
    """The function around it, or that is decorated with it: `Server.__init__`; empty at module level."""
    options: tuple[tuple[str, str], ...] = ()
    """The name and the value of each option, the value as Python source."""
    subject: str = ""
    """What it compiles, as written in the source: `self._encode`."""

    def value(self, name: str) -> Any:
        """Return the value of an option; None if the call does not have it, or if the source does not show it."""
        try:
            return ast.literal_eval(dict(self.options).get(name, "None"))
        except ValueError:
            return None

    @property
    def is_fullgraph(self) -> bool:
        """Return True if a graph break raises an error there."""
        return self.value("fullgraph") is True

    @property
    def words(self) -> str:
        """Return `serve.py:12 with dynamic=True`, as the report shows it."""
        shown = ", ".join(f"{name}={value}" for name, value in self.options)
        return f"{self.path}:{self.line}" + (f" with {shown}" if shown else "")
