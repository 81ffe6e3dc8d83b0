"""profile."""

from __future__ import annotations

from collections.abc import Callable

from tcready.dynamic.worker.context import Context
from tcready.schema import BenchAnswer, BenchRequest


def run(context: Context, request: BenchRequest, keep: Callable[[BenchAnswer], None]) -> BenchAnswer:
    """Being written."""
    return BenchAnswer(request.kind)
