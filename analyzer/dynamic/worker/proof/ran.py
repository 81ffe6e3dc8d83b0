"""Which statements some call ran."""

from __future__ import annotations

import contextlib
import os

from tcready.dynamic.worker.lines import executed_lines
from tcready.schema import Span


class Ran(contextlib.ExitStack):
    """Watches until each of these statements was run; while none is missing nothing is watched, which takes time."""

    def __init__(self, statements: tuple[Span, ...]) -> None:
        super().__init__()
        self.missing = statements
        self._lines: set[tuple[str, int]] = set()

    def __enter__(self) -> Ran:
        super().__enter__()
        if self.missing:
            self.enter_context(executed_lines(self._lines))
        return self

    def look(self) -> None:
        """Takes note of what was run since."""
        if not self.missing:
            return
        found = {(os.path.realpath(path), line) for path, line in self._lines}
        self.missing = tuple(
            each
            for each in self.missing
            if not any(
                (os.path.realpath(each.path), line) in found for line in range(each.line, each.end_line + 1)
            )
        )
        if not self.missing:
            self.close()
