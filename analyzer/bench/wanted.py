"""What a bench is made from: what was asked for, and the processes that ran."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tcready.bench.verdicts import Limits
from tcready.schema import BenchAnswer, BenchRequest, InputsSource, Mode

Purpose = Literal["steady", "cold", "cold_warm_cache", "cold_carried", "profile", "parity", "soak", "loader"]
"""What a process was for: its kind, and of a cold start what it found: nothing, the files of the process before, or the
artifacts of `torch.compiler.save_cache_artifacts` alone."""


@dataclass(frozen=True)
class Process:
    """One process of a bench, in the order in which they ran."""

    request: BenchRequest
    answer: BenchAnswer
    purpose: Purpose


@dataclass(frozen=True)
class BenchWanted:
    """What was asked for, as far as verdicts and the checklist depend on it."""

    target: str
    """As it is written in commands."""
    command: str = ""
    """What repeats the bench."""
    limits: Limits = field(default_factory=Limits)
    inputs_from: InputsSource | None = None
    mode: Mode = "infer"
    dtype: str | None = None
    """Of the model; None: as it is built."""
    autocast: str | None = None
    rollbacks: tuple[tuple[str, str], ...] = ()
    """Name of an arm and its way back to eager, of arms that have one of their own."""
