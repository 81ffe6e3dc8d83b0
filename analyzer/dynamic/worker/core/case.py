"""One set of inputs, and the errors that state in one line why a stage failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tcready.schema.bench import Items


class RunError(Exception):
    """A stage failed for a reason that fits in one line."""


class NoInputsError(RunError):
    """Inputs or constructor arguments of the model are missing and could not be generated."""


class NotBuiltError(RunError):
    """The model's constructor raises."""


class NoValuesError(RunError):
    """An operation needs values, which tensors on the device `meta` do not have."""


@dataclass(frozen=True)
class Case:
    """One set of inputs. `name` is None if the inputs do not name cases."""

    name: str | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    weight: float = 1.0
    """The relative frequency of calls of this case, in any unit."""
    items: Items | None = None
    """The items that one call processes, according to the inputs; None if they do not define any."""

    @property
    def label(self) -> str:
        """Return ` (case NAME)`, to append to messages; empty without a name."""
        return f" (case {self.name})" if self.name else ""
