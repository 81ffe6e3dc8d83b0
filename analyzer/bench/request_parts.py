"""The parts of a bench request that its verdicts depend on."""

from __future__ import annotations

from dataclasses import dataclass, field

from tcready.bench.verdicts import Limits
from tcready.schema.enums import InputsSource, Mode


@dataclass(frozen=True)
class BenchWanted:
    """The parts of a bench request that verdicts and the checklist depend on."""

    target: str
    """The target as written in commands."""
    command: str = ""
    """The command that repeats the bench."""
    limits: Limits = field(default_factory=Limits)
    inputs_from: InputsSource | None = None
    mode: Mode = "infer"
    dtype: str | None = None
    """The dtype of the model; None: as built."""
    autocast: str | None = None
    in_process: bool = False
    """The target is an object of a process, which a command cannot name."""
    arms: tuple[str, ...] = ()
    """The arms that were requested for an object."""
    rollbacks: tuple[tuple[str, str], ...] = ()
    """Pairs of an arm and its own rollback to eager, for arms that have one."""

    differing: tuple[tuple[str, str], ...] = ()
    """Name of an arm and how it differs from eager code, of arms of which the check found that: they are not compared."""

    def again(self, **options: object) -> str:
        """Return the command that runs the bench with these options; for an object, the call."""
        if not self.in_process:
            return " ".join(["tcready bench", self.target, *(f"--{name} {value}" for name, value in options.items())])
        if self.arms:
            options = {"arm": list(self.arms), **options}
        given = ", ".join(f'"{name}": {value!r}' for name, value in options.items())
        return (
            f"tcready.check(model, inputs, bench={{{given}}})" if given else "tcready.check(model, inputs, bench=True)"
        )
