"""What the figures of a bench hold for: versions, device, clocks, settings."""

from __future__ import annotations

from tcready.dynamic.worker.context import Context
from tcready.schema import BenchRequest


def stack_of(context: Context, request: BenchRequest) -> tuple[tuple[str, str], ...]:
    """By name, each as a text."""
    return ()
