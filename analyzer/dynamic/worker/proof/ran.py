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
        self._wanted = {os.path.realpath(each.path) for each in statements}
        self._real: dict[str, str] = {}
        """The real path of each file that was met: to look it up takes a while."""

    def __enter__(self) -> Ran:
        super().__enter__()
        if self.missing:
            self.enter_context(executed_lines(self._lines, self._is_wanted))
        return self

    def _is_wanted(self, path: str) -> bool:
        if path not in self._real:
            self._real[path] = os.path.realpath(path)
        return self._real[path] in self._wanted

    def look(self) -> None:
        """Takes note of what was run since."""
        if not self.missing:
            return
        found = {(self._real[path], line) for path, line in self._lines}
        self.missing = tuple(
            each
            for each in self.missing
            if not any(
                (os.path.realpath(each.path), line) in found for line in range(each.line, each.end_line + 1)
            )
        )
        if not self.missing:
            self.close()
