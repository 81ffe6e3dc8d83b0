"""What all threads of a process share while one of them reads: Python's own settings.

They are the process's, not ours, so who changes them has to be counted for the whole process: the first reading sets
them, the last one puts them back, and none takes them away from another.
"""

from __future__ import annotations

import gc
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

STACK = 6000
"""Python frames that may be nested behind reading: long chains of `elif` and of operators recurse."""


class _Shared:
    """The settings, and how many readings are under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._warnings = threading.Lock()
        self._readings = 0
        self._before = (True, 0)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Inside, calls may nest deeply, and garbage is not collected: what is built is kept to the end, and walking
        it again and again took a third of the time."""
        with self._lock:
            if not self._readings:
                self._before = gc.isenabled(), sys.getrecursionlimit()
                gc.disable()
                sys.setrecursionlimit(max(sys.getrecursionlimit(), STACK))
            self._readings += 1
        try:
            yield
        finally:
            with self._lock:
                self._readings -= 1
                if not self._readings:
                    collecting, limit = self._before
                    sys.setrecursionlimit(limit)
                    if collecting:
                        gc.enable()

    @contextmanager
    def without_warnings(self) -> Iterator[None]:
        """Inside, Python warns of nothing: what it finds odd in somebody's source is not ours to tell."""
        with self._warnings, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield


SHARED = _Shared()
