"""Eager against compiled by the clock: not measured by any run yet."""

from __future__ import annotations

from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.step import Step


def run(_context: Context) -> None:
    raise NotImplementedError


STEP = Step("speed", run, requires=("capture", "in_turn"), asked=lambda _context: False)
