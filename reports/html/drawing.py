"""Elements of a chart with axes: the template draws it, and lists its numbers below.

Lengths are in units of the drawing. Texts are escaped by the template.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WIDTH = 1000.0
LEFT, RIGHT = 190.0, 970.0
"""Begin and end of the axis; names are left of it."""
LETTER = 7.0
ROW = 20.0
PLOT = 220.0
"""Height of a plot of curves."""
_TICKS = 6
_MANY_NAMES = 24


@dataclass(frozen=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str
    label: str = ""


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    kind: str
    big: bool = False


@dataclass(frozen=True)
class Curve:
    points: tuple[tuple[float, float], ...]
    kind: str
    title: str = ""


@dataclass(frozen=True)
class Label:
    x: float
    y: float
    text: str
    anchor: str = "start"


@dataclass(frozen=True)
class Chart:
    """One drawing, with the numbers that it shows as a table."""

    title: str
    caption: str
    height: float
    bars: tuple[Bar, ...] = ()
    dots: tuple[Dot, ...] = ()
    curves: tuple[Curve, ...] = ()
    labels: tuple[Label, ...] = ()
    headings: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Scale:
    """Maps values to positions on one axis."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.start + share * (self.end - self.start)

    def ticks(self) -> tuple[float, ...]:
        """Return a few round values between the ends."""
        rough = (self.high - self.low) / _TICKS
        if rough <= 0 or not math.isfinite(rough):
            return (self.low,)
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return tuple(step * at for at in range(first, last + 1))


@dataclass(frozen=True)
class ChartAxis:
    """A line through the drawing at each round value, and its label."""

    curves: tuple[Curve, ...]
    labels: tuple[Label, ...]


def across(scale: Scale, top: float, bottom: float, words: Callable[[float], str]) -> ChartAxis:
    """Return the horizontal axis, with labels below."""
    ticks = scale.ticks()
    return ChartAxis(
        tuple(Curve(((scale.at(tick), top), (scale.at(tick), bottom)), "grid") for tick in ticks),
        tuple(Label(scale.at(tick), bottom + 16, words(tick), "middle") for tick in ticks),
    )


def up(scale: Scale, words: Callable[[float], str]) -> ChartAxis:
    """Return the vertical axis, with labels on the left."""
    ticks = scale.ticks()
    return ChartAxis(
        tuple(Curve(((LEFT, scale.at(tick)), (RIGHT, scale.at(tick))), "grid") for tick in ticks),
        tuple(Label(LEFT - 8, scale.at(tick) + 4, words(tick), "end") for tick in ticks),
    )


def key(entries: Sequence[tuple[str, str]]) -> ChartAxis:
    """Return a sample of each kind of line with its name, one row each, above a plot."""
    rows = tuple(enumerate(entries))
    return ChartAxis(
        tuple(Curve(((LEFT, at * ROW + 12), (LEFT + 36, at * ROW + 12)), kind) for at, (kind, _) in rows),
        tuple(Label(LEFT + 44, at * ROW + 16, text) for at, (_, text) in rows),
    )


def named_row(name: str, y: float) -> Label:
    """Return the name at the left of a row, cut to the available room."""
    return Label(0, y, name if len(name) <= _MANY_NAMES else f"{name[: _MANY_NAMES - 1]}…")
