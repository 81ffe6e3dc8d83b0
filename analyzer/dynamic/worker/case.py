"""One set of inputs, and the error that gives the reason of a failed stage in one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tcready.schema.bench import Items


class RunError(Exception):
    """A stage failed for a reason that one line says."""


class NoInputsError(RunError):
    """Nobody gives what the model is built or called with, and it could not be made up."""


class NotBuiltError(RunError):
    """The model's constructor raises."""


class NoValuesError(RunError):
    """Something needs values, which tensors on the device `meta` do not have."""


@dataclass(frozen=True)
class Case:
    """One set of inputs; `name` is None where the inputs name no cases."""

    name: str | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    weight: float = 1.0
    """How much of the calls this case stands for, in any unit."""
    items: Items | None = None
    """What the inputs say that one call processes; None: they say nothing."""

    @property
    def label(self) -> str:
        """` (case NAME)` behind what is said of it; empty where it has no name."""
        return f" (case {self.name})" if self.name else ""
