"""The seconds that the stages after capture share, if the caller gave them a budget."""

from __future__ import annotations

import time

from tcready.dynamic.worker.core import distributed
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import BUDGET_SPENT
from tcready.schema.enums import StageName


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


def begins(context: Context, stage: StageName, doing: str) -> bool:
    """Begin a stage. If the budget is spent, end it, and return False."""
    context.journal.begin(stage, doing)
    if spent(context):
        context.journal.end("not_run", f"{BUDGET_SPENT} before it began", "budget")
        return False
    return True


def spent(context: Context) -> bool:
    """Return whether the budget is spent."""
    seconds = left(context)
    return seconds is not None and seconds <= 0
