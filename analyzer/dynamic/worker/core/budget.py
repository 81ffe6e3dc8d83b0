"""The seconds that the stages after capture share, if the caller gave them a budget."""

from __future__ import annotations

import time

from tcready.dynamic.worker.core import distributed
from tcready.dynamic.worker.core.context import Context


def left(context: Context) -> float | None:
    """Return the seconds that are left; None for no limit. The first call starts the clock."""
    if context.extras_since is None:
        context.extras_since = time.monotonic()
        if context.work.options.budget is not None:
            context.journal.ends = context.extras_since + context.work.options.budget
    budget = context.work.options.budget
    if budget is None:
        return None
    return distributed.agree_on_seconds(budget - (time.monotonic() - context.extras_since), context.work)


def spent(context: Context) -> bool:
    """Return whether the budget is spent."""
    seconds = left(context)
    return seconds is not None and seconds <= 0
