"""Format numbers with their units, as in every report."""

from __future__ import annotations

import math
from collections.abc import Sequence

DIGITS = 3
_TIMES = ((3600.0, 2.0, "h"), (60.0, 10.0, "min"), (1.0, 1.0, "s"), (1e-3, 1.0, "ms"), (1e-6, 1.0, "\u00b5s"))
"""For each unit: its seconds, its minimum count, its name."""
_LEAST_TIME = 1e-9
_SIZES = ((1e12, 1.0, "TB"), (1e9, 1.0, "GB"), (1e6, 1.0, "MB"), (1e3, 1.0, "kB"))
UNKNOWN = "\u2013"
"""A dash."""


def decimals(value: float) -> int:
    """Return the number of decimal places for `value`, for three significant digits."""
    if not math.isfinite(value) or value == 0:
        return 0
    return max(DIGITS - 1 - math.floor(math.log10(abs(value))), 0)


def plain_number(value: float, places: int | None = None) -> str:
    """Format `1,230`, `0.0412`; three digits unless `places` after the point are given."""
    if math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "\u221e" if value > 0 else "-\u221e"
    rounded = float(f"{value:.{DIGITS}g}")
    return f"{rounded:,.{decimals(rounded)}f}" if places is None else f"{value:,.{places}f}"


def _unit(value: float, units: Sequence[tuple[float, float, str]], least: str) -> tuple[float, str]:
    """Return the divisor for a readable `value`, and the name of the unit; `least` if it is below all units."""
    rounded = abs(float(f"{value:.{DIGITS}g}"))
    for size, count, name in units:
        if rounded >= size * count * (1 - 1e-9):
            return size, name
    return (1.0, least) if least else (units[-1][0], units[-1][2])


def unit_of_time(seconds: float) -> tuple[float, str]:
    """Return the seconds of the unit, and its name."""
    return _unit(seconds, _TIMES, "")


def time_text(seconds: float) -> str:
    """Format `812 \u00b5s`, `1.92 ms`, `12.3 s`, `25.0 min`."""
    if abs(seconds) < _LEAST_TIME:
        return "0 s"
    size, name = unit_of_time(seconds)
    return f"{plain_number(seconds / size)} {name}"


def size_text(count: float) -> str:
    """Format bytes as `812 MB`, `1.20 GB`: powers of 1000."""
    size, name = _unit(count, _SIZES, "B")
    return f"{plain_number(count / size)} {name}"


def guards_text(number: int, in_python: int | None) -> str:
    """Format `118, 3 of them in Python`."""
    return f"{number}, {in_python} of them in Python" if in_python else f"{number}"
