"""Stops a reading that is not needed any more before it is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Stop: TypeAlias = "Callable[[], bool]"
"""Asked often, and from the thread that reads: whether to stop. The `is_set` of a `threading.Event` is one."""


class StoppedError(Exception):
    """The reading was stopped; nothing is known of what it was asked."""


def never() -> bool:
    """Nobody stops it."""
    return False
