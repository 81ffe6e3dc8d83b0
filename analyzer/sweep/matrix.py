"""The settings in which each model of a sweep is run: every combination of interpreters, devices and modes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tcready.config.resolution import Settings
from tcready.portable.options import MATRIX_AXES
from tcready.schema.enums import TcreadyError

MODES = ("infer", "train")


@dataclass(frozen=True)
class MatrixCell:
    """One combination. None: as in the settings, or in the table of a target."""

    python: str | None = None
    device: str | None = None

    def settings(self, settings: Settings) -> Settings:
        """Return the settings of a run in this cell."""
        given = {name: value for name, value in (("python", self.python), ("device", self.device)) if value is not None}
        return settings.with_keywords(given)


def axes(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Parse `--matrix AXIS=VALUE,VALUE`, given once or several times. Raises TcreadyError if it is invalid."""
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        axis, equals, values = text.partition("=")
        listed = tuple(dict.fromkeys(value.strip() for value in values.split(",") if value.strip()))
        if axis not in MATRIX_AXES or not equals or not listed:
            raise TcreadyError(f"--matrix {text}: write AXIS=VALUE,VALUE with one of {', '.join(MATRIX_AXES)}")
        if axis in found:
            raise TcreadyError(f"--matrix {text}: {axis} was given before; write all its values at once")
        if axis == "mode" and not set(listed) <= set(MODES):
            raise TcreadyError(f"--matrix {text}: a mode is one of {', '.join(MODES)}")
        found[axis] = listed
    if "torch" in found and "python" in found:
        raise TcreadyError("--matrix: torch and python both name interpreters: give one of them")
    return found


def cells(
    given: dict[str, tuple[str, ...]], settings: Settings, torch_of: Callable[[str | None], str]
) -> tuple[MatrixCell, ...]:
    """Return every combination of interpreters and devices.

    Args:
        given: The result of `axes`.
        settings: `interpreters` are searched for a version of torch.
        torch_of: The version of torch in an interpreter (None: the current one), empty if it has none.

    Raises:
        TcreadyError: No known interpreter has such a torch.
    """
    pythons: tuple[str | None, ...] = given.get("python", (None,))
    if "torch" in given:
        known: tuple[str | None, ...] = (settings.run.python, *settings.work.interpreters)
        pythons = tuple(_with_torch(wanted, known, torch_of) for wanted in given["torch"])
    devices: tuple[str | None, ...] = given.get("device", (None,))
    return tuple(itertools.starmap(MatrixCell, itertools.product(pythons, devices)))


def _with_torch(wanted: str, known: Sequence[str | None], torch_of: Callable[[str | None], str]) -> str | None:
    for python in known:
        version = torch_of(python)
        if version == wanted or version.startswith((f"{wanted}.", f"{wanted}+")):
            return python
    have = ", ".join(filter(None, dict.fromkeys(torch_of(python) for python in known))) or "none"
    raise TcreadyError(
        f"--matrix torch={wanted}: no interpreter with that torch is known (there is {have}): name it in "
        '[tool.tcready] as interpreters = ["path/to/python"]'
    )


def with_modes(settings: Settings, given: dict[str, tuple[str, ...]]) -> Settings:
    """Return the settings with the modes of the matrix, if it has some."""
    if "mode" not in given:
        return settings
    modes = given["mode"]
    chosen: dict[str, Any] = {"mode": "both" if len(modes) > 1 else modes[0]}
    return settings.with_keywords(chosen)
