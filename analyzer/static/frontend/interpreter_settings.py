"""Settings of Python that reading needs, which all threads of a process share, and memory for its frames.

The settings belong to the process, so concurrent readings are counted for the whole process: the first one changes them,
and the last one restores them.
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

STACK = 6000
"""Python frames that may be nested in reading: long chains of `elif` and of operators recurse."""
SLOTS = 300_000
"""Values that the frame of a deep call asks room for: CPython gives it 4 MiB, of which it leaves 1.7 to the frames behind
it, some 6,000. None of it is touched before it is used."""
P = ParamSpec("P")
T = TypeVar("T")


def deep(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that may be called deeply nested, and up and down often.

    CPython keeps the frames of calls in chunks of 16 KB, and gives a chunk back to the system as soon as its first frame
    ends. Calls that go up and down around the end of a chunk allocate and free memory each time: 50,000 times while 35
    modeling files were read, a tenth of the time (3.11). A frame that needs more gets a larger chunk, and later frames
    use the rest.
    """

    def call(*args: P.args, **keywords: P.kwargs) -> T:
        return function(*args, **keywords)

    call.__code__ = call.__code__.replace(co_stacksize=SLOTS)
    return functools.update_wrapper(call, function)


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
        """Ignore warnings in this context: those of Python about a user's source are not ours to report."""
        with self._warnings, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield


SHARED = _Shared()
