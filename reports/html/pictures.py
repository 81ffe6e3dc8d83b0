"""Charts of a call's operations or time: a row for each level, a box for each part, as wide as its share of the call.

One is by module, one by file and line. Lengths are in units of the drawing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tcready.reports.shared import phrases
from tcready.schema.observation import ModuleShare
from tcready.schema.run import BreakSite

WIDTH = 1000.0
"""Units of the drawing; a character of a label takes `LETTER` of them."""
ROW = 26.0
ROWS = 7
LETTER = 7.0
SMALLEST = 3.0
"""Boxes narrower than this are merged with their neighbours."""
MANY_PLACES = 40
"""Number of lines of a table of places."""


@dataclass(frozen=True)
class Box:
    """One part, or several neighbours too narrow to be drawn separately."""

    x: float
    y: float
    width: float
    captured: float
    """Width of the part that ran inside graphs, from the left."""
    label: str
    title: str


@dataclass(frozen=True)
class Picture:
    measure: str
    """`operations` or `time on the host`."""
    caption: str
    """Description of the picture, in one sentence."""
    height: float
    boxes: tuple[Box, ...]
    deeper: bool
    """Modules with a share exist below the drawn rows."""


@dataclass(frozen=True)
class BoxPlace:
    """A line of source: the code of a module's forward with operations that ran in graphs, or a line that broke and
    caused operations outside of them."""

    path: str
    """Empty if no line is responsible."""
    line: int
    what: str
    """The module's class, or the function that broke."""
    inside: tuple[int, float]
    """Operations and seconds in graphs."""
    outside: tuple[int, float]
    """Operations and seconds outside of graphs."""

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line}" if self.path else self.what


@dataclass(frozen=True)
class SourcePicture:
    picture: Picture
    places: tuple[BoxPlace, ...]
    """The largest losses first, then what was captured, the largest first."""
    left: int
    """Number of places that are not listed."""


@dataclass(frozen=True)
class _Part:
    label: str
    title: str
    share: float
    captured: float
    children: tuple[_Part, ...] = ()


@dataclass(frozen=True)
class _Measure:
    name: str
    of: Callable[[int, float], float]
    """Return the amount for operations and their seconds."""
    spelled: Callable[[float, float], str]
    """Return a part of a whole, in words."""


def _measures(clock: str | None) -> tuple[_Measure, _Measure]:
    return (
        _Measure(
            "operations",
            lambda ops, _: float(ops),
            lambda some, whole: f"{some:.0f} of {phrases.number(int(whole), 'operation')}",
        ),
        _Measure(
            f"time on the {'device' if clock == 'cuda' else 'host'}",
            lambda _, seconds: seconds,
            lambda some, whole: f"{phrases.duration(some)} of {phrases.duration(whole)}",
        ),
    )


# By module


def pictures(modules: Sequence[ModuleShare], clock: str | None) -> tuple[Picture, ...]:
    """Return pictures by operations, and by their time if that was measured; nothing if nothing was."""
    operations, time = _measures(clock)
    drawn = (_by_module(modules, measure) for measure in ((operations, time) if _timed(modules) else (operations,)))
    return tuple(picture for picture in drawn if picture is not None)


def _timed(modules: Sequence[ModuleShare]) -> bool:
    """Return True if the time spent in graphs is known."""
    root = _root(modules)
    return root is not None and root.seconds_captured is not None


def _by_module(modules: Sequence[ModuleShare], measure: _Measure) -> Picture | None:
    root = _root(modules)
    if root is None:
        return None
    children = _children(modules)

    def part(module: ModuleShare) -> _Part:
        share = measure.of(module.ops or 0, module.seconds or 0.0)
        captured = measure.of(module.ops_captured or 0, module.seconds_captured or 0.0)
        name = f"{module.name} ({module.type})" if module.name else module.type
        return _Part(
            module.name.rpartition(".")[2] or module.type,
            f"{name}: {measure.spelled(captured, share)} in graphs",
            share,
            captured,
            tuple(map(part, children.get(module.name, ()))),
        )

    return _drawn(part(root), measure, "small module")


def _root(modules: Sequence[ModuleShare]) -> ModuleShare | None:
    return next((module for module in modules if not module.name), None)


def _children(modules: Sequence[ModuleShare]) -> dict[str, list[ModuleShare]]:
    """Return the children by the name of the nearest enclosing known module."""
    children: dict[str, list[ModuleShare]] = {}
    names = {module.name for module in modules}
    for module in modules:
        if module.name:
            children.setdefault(_above(module.name, names), []).append(module)
    return children


def _above(name: str, names: set[str]) -> str:
    while name:
        name = name.rpartition(".")[0]
        if name in names:
            return name
    return ""


# By line of source


def source_picture(
    modules: Sequence[ModuleShare], sites: Iterable[BreakSite], clock: str | None
) -> SourcePicture | None:
    """Return a picture of what ran in graphs by the forward of its module, and what did not by the line that broke.

    By time if that was measured, else by operations; None if nothing was counted. The times of a module's calls and of
    a line's are separate medians: the sum of lines is limited to the loss of the whole.
    """
    root = _root(modules)
    operations, time = _measures(clock)
    measure = time if _timed(modules) else operations
    total = measure.of(root.ops or 0, root.seconds or 0.0) if root is not None else 0
    if root is None or not total:
        return None
    places = _places(modules, sites)
    missed = max(total - measure.of(root.ops_captured or 0, root.seconds_captured or 0.0), 0)
    listed_missed = sum(measure.of(*place.outside) for place in places)
    shrunk = min(missed / listed_missed, 1.0) if listed_missed else 1.0

    def inside(place: BoxPlace) -> float:
        return measure.of(*place.inside)

    def outside(place: BoxPlace) -> float:
        return measure.of(*place.outside) * shrunk

    def side(label: str, of: Callable[[BoxPlace], float], captured: bool) -> _Part:
        files: dict[str, list[BoxPlace]] = {}
        for place in sorted(places, key=lambda place: (-of(place), place.name, place.what)):
            if of(place) > 0:
                files.setdefault(place.path or place.what, []).append(place)

        def part(name: str, share: float, title: str, children: tuple[_Part, ...] = ()) -> _Part:
            return _Part(name, title, share, share if captured else 0.0, children)

        def leaf(place: BoxPlace) -> _Part:
            return part(f"{place.line} {place.what}", of(place), listed(f"{place.name} {place.what}", of(place)))

        def listed(name: str, share: float) -> str:
            return f"{name}: {phrases.percent(share / total)} of the call, {'in' if captured else 'outside of'} graphs"

        def file(name: str, found: Sequence[BoxPlace]) -> _Part:
            share = sum(map(of, found))
            return part(name, share, listed(name, share), tuple(leaf(place) for place in found if place.path))

        share = sum(map(of, places))
        return part(
            label,
            share,
            f"{label}: {phrases.percent(share / total)} of the call",
            tuple(file(path, found) for path, found in files.items()),
        )

    within, without = side("inside graphs", inside, True), side("outside of graphs", outside, False)
    whole = _Part(
        "the whole call",
        f"the whole call: {phrases.percent(min(within.share / total, 1.0))} in graphs",
        total,
        min(within.share, total),
        (within, without),
    )
    picture = _drawn(whole, measure, "small place")
    if picture is None:
        return None
    heaviest = sorted(places, key=lambda place: (-outside(place), -inside(place), place.name, place.what))
    return SourcePicture(picture, tuple(heaviest[:MANY_PLACES]), max(len(heaviest) - MANY_PLACES, 0))


def _places(modules: Sequence[ModuleShare], sites: Iterable[BreakSite]) -> list[BoxPlace]:
    root = _root(modules)
    if root is None or not root.ops:
        return []
    inside: dict[tuple[str, int, str], list[float]] = {}
    children = _children(modules)
    known = {module.name: module for module in modules}
    names = set(known)
    for module in modules:
        owner = module
        while owner.name and (owner.path is None or owner.line is None):
            owner = known[_above(owner.name, names)]
        key = (owner.path, owner.line, owner.type) if owner.path and owner.line else ("", 0, owner.type)
        below = children.get(module.name, ())
        own = inside.setdefault(key, [0, 0.0])
        own[0] += max((module.ops_captured or 0) - sum(child.ops_captured or 0 for child in below), 0)
        own[1] += max((module.seconds_captured or 0.0) - sum(child.seconds_captured or 0.0 for child in below), 0.0)
    outside: dict[tuple[str, int, str], list[float]] = {}
    for site in sites:
        if site.cost is not None:
            lost = outside.setdefault((site.path, site.line, site.symbol), [0, 0.0])
            lost[0] += site.cost.ops
            lost[1] += site.cost.seconds or 0.0
    rest = [
        max((root.ops or 0) - (root.ops_captured or 0) - sum(lost[0] for lost in outside.values()), 0),
        _seconds_left(root, outside),
    ]
    if rest[0]:
        outside["", 0, "no single line"] = rest
    return [
        *(BoxPlace(*key, (int(ops), seconds), (0, 0.0)) for key, (ops, seconds) in inside.items() if ops),
        *(BoxPlace(*key, (0, 0.0), (int(ops), seconds)) for key, (ops, seconds) in outside.items() if ops),
    ]


def _seconds_left(root: ModuleShare, outside: Mapping[tuple[str, int, str], Sequence[float]]) -> float:
    """Return the time outside of graphs that no line causes; nothing below a millionth of the whole, which is
    rounding."""
    spent = root.seconds or 0.0
    left = spent - (root.seconds_captured or 0.0) - sum(lost[1] for lost in outside.values())
    return left if left > spent * 1e-6 else 0.0


# Any of them, drawn


def _drawn(root: _Part, measure: _Measure, small: str) -> Picture | None:
    if not 0 < root.share < math.inf:
        return None
    scale = WIDTH / root.share
    boxes: list[Box] = []
    deeper = False

    def draw(part: _Part, x: float, room: float, level: int) -> None:
        nonlocal deeper
        width = max(min(part.share * scale, room), 0.0)
        boxes.append(_box(x, level, width, part.captured / part.share, part.label, part.title))
        at, narrow = x, list[_Part]()
        for child in part.children:
            if not 0 < child.share < math.inf:
                continue
            if level + 1 >= ROWS:
                deeper = True
                continue
            left = x + width - at
            if child.share * scale < SMALLEST:
                narrow.append(child)
                continue
            at += together(narrow, at, left, level + 1)
            draw(child, at, x + width - at, level + 1)
            at += min(child.share * scale, x + width - at)
            narrow = []
        together(narrow, at, x + width - at, level + 1)

    def together(narrow: Sequence[_Part], x: float, room: float, level: int) -> float:
        if not narrow:
            return 0.0
        share, captured = sum(part.share for part in narrow), sum(part.captured for part in narrow)
        width = max(min(share * scale, room), 0.0)
        title = f"{phrases.number(len(narrow), small)}: {measure.spelled(captured, share)} in graphs"
        boxes.append(_box(x, level, width, captured / share, "", title))
        return width

    draw(root, 0.0, WIDTH, 0)
    caption = (
        f"By {measure.name}: {phrases.percent(root.captured / root.share)} inside graphs, "
        f"{measure.spelled(max(root.share - root.captured, 0), root.share)} outside."
    )
    rows = round(max(box.y for box in boxes) / ROW) + 1
    return Picture(measure.name, caption, rows * ROW, tuple(boxes), deeper)


def _box(x: float, level: int, width: float, captured: float, label: str, title: str) -> Box:
    room = int((width - LETTER) / LETTER)
    shown = label if len(label) <= room else (label[: room - 1] + "…" if room >= 4 else "")
    return Box(x, level * ROW, width, width * min(max(captured, 0.0), 1.0), shown, title)
