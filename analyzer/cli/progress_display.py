"""Progress on stderr: a live line on a terminal, a few lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tcready.cli.output import say
from tcready.schema.enums import visible
from tcready.schema.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

LONG = 10.0
"""Seconds of reading after which a log says so, and between repetitions."""
OFTEN = 5.0
"""Minimum number of seconds between two lines of one stage in a log."""
CANNOT_REDRAW = ("dumb", "unknown")
"""Values of TERM of terminals that cannot overwrite a line."""
SOON = 0.5
"""Seconds of reading after which a terminal shows progress: small files take less, and importing rich takes time."""


@contextlib.contextmanager
def show_progress(quiet: bool) -> Iterator[tuple[Callable[[str], None], Callable[[Progress], None]]]:
    """Yield two functions that write to stderr: one announces a line, one takes the progress of the work.

    On a terminal, one line shows the current work, how much of it is done, the time since the start and what remains.
    Elsewhere, each stage gets a line with the same content, and a long stage gets several.
    """
    if quiet:
        yield _nothing, _nothing
    elif sys.stderr.isatty() and os.environ.get("TERM") not in CANNOT_REDRAW:
        with _Live() as live:
            yield live.announce, live.progress
    else:
        with _Lines() as lines:
            yield lines.announce, lines.progress


def _nothing(_: object) -> None: ...


class ProgressClock:
    """Progress of the work: how far it is, when it began, and an estimate of the time left."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._start = now()
        self._since = self._start
        """When counting of the current item began."""
        self._first = 0
        self._at = self._start
        """When `latest` was received."""
        self.latest = Progress("", "")

    def put(self, progress: Progress) -> None:
        """Take the current progress. If nothing but the time left differs, nothing changes."""
        if without_time(progress) == without_time(self.latest):
            return
        self._at = self._now()
        if (progress.stage, progress.of) != (self.latest.stage, self.latest.of):
            self._since, self._first = self._at, progress.done or 0
        self.latest = progress

    @property
    def elapsed(self) -> float:
        return self._now() - self._start

    @property
    def remaining(self) -> str:
        """Return the remaining budget; without a budget, extrapolate from the speed so far."""
        latest, idle = self.latest, self._now() - self._at
        if latest.left is not None:
            return f"{max(latest.left - idle, 0.0):.0f} s of the budget left"
        if latest.done is None or latest.of is None or latest.done <= self._first:
            return ""
        pace = (self._at - self._since) / (latest.done - self._first)
        return f"about {max(pace * (latest.of - latest.done) - idle, 0.0):.0f} s left"

    def line(self) -> str:
        """`[12 s] plan, encoder alone: 3 of 7, about 20 s left`."""
        return ", ".join(filter(None, [f"[{self.elapsed:.0f} s] {self.latest}", self.remaining]))


def without_time(progress: Progress) -> Progress:
    """Return the progress without the time left."""
    return replace(progress, left=None)


class _Lines:
    """Lines on stderr: one for each stage of each run, and one every few seconds within a long stage."""

    def __init__(self) -> None:
        self._clock = ProgressClock()
        self._stage = ""
        self._written: Progress | None = None
        """The progress in the last line."""
        self._last = 0.0
        """When the last line was written, in seconds."""
        self._reading = threading.Timer(LONG, self._say_reading)
        self._reading.daemon = True
        self._lock = threading.Lock()

    def __enter__(self) -> _Lines:
        self._reading.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._reading.cancel()

    def announce(self, text: str) -> None:
        self._reading.cancel()
        self._stage = ""  # of the run before
        say(text)

    def progress(self, now: Progress) -> None:
        if now.news:
            self.announce(f"[{self._clock.elapsed:.0f} s] {now.news}")
            return
        with self._lock:
            self._clock.put(now)
            if without_time(now) == self._written:
                return
            # A line that came too soon after the last one is written once it is repeated.
            waited = self._clock.elapsed - self._last
            if now.stage == "reading":
                if waited >= LONG:
                    self._write()
                return
            self._reading.cancel()
            if now.stage != self._stage or waited >= OFTEN:
                self._stage = now.stage
                self._write()

    def _say_reading(self) -> None:
        """Announce reading if one file takes long and nothing else is shown."""
        with self._lock:
            if not self._clock.latest.stage:
                self._clock.put(Progress("reading", "reading the sources"))
            if not self._last:
                self._write()

    def _write(self) -> None:
        self._last = self._clock.elapsed
        self._written = without_time(self._clock.latest)
        say(self._clock.line())


class _Live:
    """One line on a terminal that shows the progress and disappears at the end."""

    def __init__(self) -> None:
        self._clock = ProgressClock()
        self._shown = contextlib.ExitStack()
        self._console: Console | None = None
        """The console that shows the line, once it exists."""

    def __enter__(self) -> _Live:
        return self

    def __exit__(self, *_error: object) -> None:
        self._shown.close()

    def announce(self, text: str) -> None:
        if self._console is None:
            say(text)
            return
        from rich.text import Text

        self._console.print(Text(visible(text)), soft_wrap=True)  # above the line, which is drawn again

    def progress(self, now: Progress) -> None:
        if now.news:
            self.announce(f"[{self._clock.elapsed:.0f} s] {now.news}")
            return
        self._clock.put(now)
        if self._console is not None or (now.stage == "reading" and self._clock.elapsed < SOON):
            return
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)
        # rich asks for the text again with each picture of the spinner: the seconds continue while there is no other news
        self._shown.enter_context(self._console.status(self))

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text(
            visible(self._clock.line()), no_wrap=True, overflow="ellipsis"
        )  # never markup: it holds names of files
