"""The progress of running work."""

from __future__ import annotations

from collections.abc import Callable

from tcready.schema.frozen import dataclass


@dataclass(frozen=True)
class Progress:
    """What goes on now, and how much of it is done, as far as that is known."""

    stage: str
    """`reading`, a stage of a run, `proof` or `bench`."""
    doing: str
    """In a few words, which begin with the stage's: `plan, encoder alone`."""
    done: int | None = None
    """So many of `of` are done: files, cases, changes, blocks of calls."""
    of: int | None = None
    left: float | None = None
    """Seconds of the budget that are left; None if the work has none."""
    news: str = ""
    """A first answer, which is shown once and stays."""

    def __str__(self) -> str:
        if self.news:
            return self.news
        return (
            self.doing if self.done is None or self.of is None else f"{self.doing}: {self.done} of {self.of}"
        )


Progressing = Callable[[Progress], None]
"""Called with how far the work under way is, whenever that changes, and again while it does not. What it raises ends the
work: the processes of a run are ended too."""
