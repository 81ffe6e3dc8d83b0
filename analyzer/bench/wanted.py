"""What was asked for of a bench, as far as its verdicts depend on it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tcready.bench.verdicts import Limits
from tcready.schema.words import InputsSource, Mode


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
    in_process: bool = False
    """Whether it is an object of a process, which no command can name."""
    arms: tuple[str, ...] = ()
    """Those that an object was benched with by name."""
    rollbacks: tuple[tuple[str, str], ...] = ()
    """Name of an arm and its way back to eager, of arms that have one of their own."""

    differing: tuple[tuple[str, str], ...] = ()
    """Name of an arm and how it differs from eager code, of arms of which the check found that: they are not compared."""

    def again(self, **options: object) -> str:
        """What measures it with these options of a bench: a command, or of an object the call."""
        if not self.in_process:
            return " ".join(
                ["tcready bench", self.target, *(f"--{name} {value}" for name, value in options.items())]
            )
        if self.arms:
            options = {"arm": list(self.arms), **options}
        given = ", ".join(f'"{name}": {value!r}' for name, value in options.items())
        return (
            f"tcready.check(model, inputs, bench={{{given}}})"
            if given
            else "tcready.check(model, inputs, bench=True)"
        )
