"""Which way each branch test goes: the tests are wrapped in the source, which stays line for line what it was."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tcready.schema import SidesTaken, Span

PROBE = "__tcready_side__"
"""The name, among the built-in ones, by which a wrapped test tells its value."""


def probed(text: str, tests: Iterable[tuple[int, Span]]) -> str:
    """The text of one file with each test, by number, inside a call of the probe."""
    starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]
    put: list[tuple[int, int, str]] = []
    for number, span in tests:
        begin = starts[span.line - 1] + span.column - 1
        end = starts[span.end_line - 1] + span.end_column - 1
        # Of what begins at one place the longest is outermost, of what ends there the shortest is innermost.
        put.append((begin, -end, f" {PROBE}({number}, ("))
        put.append((end, begin, "))"))
    for index, _, piece in sorted(put, key=lambda item: (item[0], item[2] != "))", item[1]), reverse=True):
        text = text[:index] + piece + text[index:]
    return text


@dataclass
class Sides:
    """Counts how often each test was true and false."""

    tests: tuple[Span, ...]
    alone: bool = False
    """Whether functions are called by themselves now."""
    counts: dict[tuple[int, bool, bool], int] = field(default_factory=dict)
    pending: list[tuple[int, bool, bool]] = field(default_factory=list)
    """Seen in the call under way."""

    def __enter__(self) -> Sides:
        setattr(builtins, PROBE, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        delattr(builtins, PROBE)

    def _note(self, number: int, value: Any) -> Any:
        try:
            taken = bool(value)
        except Exception:
            return value  # the test itself raises it
        self.pending.append((number, taken, self.alone))
        return value

    def settle(self, *, counts: bool, raised: bool) -> None:
        """A call ended; what it saw is counted only if the call would have told one side from the other.

        Of a call that raised that is the last test alone: what the earlier ones led to was never given back.
        """
        seen = self.pending[-1:] if raised else self.pending
        for key in seen if counts else ():
            self.counts[key] = self.counts.get(key, 0) + 1
        self.pending.clear()

    def taken(self) -> tuple[SidesTaken, ...]:
        def count(number: int, way: bool, alone: bool) -> int:
            return self.counts.get((number, way, alone), 0)

        return tuple(
            SidesTaken(test, *(count(number, way, alone) for alone in (False, True) for way in (True, False)))
            for number, test in enumerate(self.tests)
        )

    def ways(self) -> frozenset[tuple[int, bool]]:
        """Every test and way that was seen so far."""
        return frozenset((number, way) for number, way, _ in self.counts)


def with_probes(texts: Mapping[str, str], tests: tuple[Span, ...]) -> dict[str, str]:
    """The files that hold tests, by path, with their tests wrapped."""
    by_path: dict[str, list[tuple[int, Span]]] = {}
    for number, span in enumerate(tests):
        by_path.setdefault(span.path, []).append((number, span))
    return {path: probed(texts[path], found) for path, found in by_path.items()}
