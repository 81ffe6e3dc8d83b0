"""The seconds that the stages after capture share, if the caller set a budget."""

from __future__ import annotations

import time

from tcready.dynamic.worker import distributed
from tcready.dynamic.worker.context import Context


def left(context: Context) -> float | None:
    """Seconds that are left of it, None for no limit; the first question starts the clock."""
    if context.extras_since is None:
        context.extras_since = time.monotonic()
        if context.work.options.budget is not None:
            context.journal.ends = context.extras_since + context.work.options.budget
    budget = context.work.options.budget
    if budget is None:
        return None
    return distributed.agreed(budget - (time.monotonic() - context.extras_since), context.work)


def spent(context: Context) -> bool:
    """Whether nothing is left of it."""
    seconds = left(context)
    return seconds is not None and seconds <= 0
