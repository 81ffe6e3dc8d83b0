"""What was asked for of a bench, as far as its verdicts depend on it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tcready.bench.verdicts import Limits
from tcready.schema import InputsSource, Mode


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
