"""The progress of work."""

from __future__ import annotations

from collections.abc import Callable

from tcready.schema.value_class import dataclass


@dataclass(frozen=True)
class Progress:
    """The current work, and how much of it is done, if known."""

    stage: str
    """`reading`, a stage of a run, `proof` or `bench`."""
    doing: str
    """In a few words, which begin with the stage: `plan, encoder alone`."""
    done: int | None = None
    """Finished ones of `of`: files, cases, changes, blocks of calls."""
    of: int | None = None
    left: float | None = None
    """Seconds of the budget that are left; None if the work has none."""
    news: str = ""
    """A first result, which is shown once and stays."""

    def __str__(self) -> str:
        if self.news:
            return self.news
        return self.doing if self.done is None or self.of is None else f"{self.doing}: {self.done} of {self.of}"


Progressing = Callable[[Progress], None]
"""Called with the progress of the work whenever it changes, and repeatedly in between. An exception from it ends the
work, including the processes of a run."""
