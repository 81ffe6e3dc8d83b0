"""The module hierarchy as a picture: a row a level, a box a module, as wide as its share of the whole call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tcready.reports import view
from tcready.schema import ModuleShare

WIDTH = 1000.0
"""Units of the drawing; a character of a label takes `LETTER` of them."""
ROW = 26.0
ROWS = 7
LETTER = 7.0
SMALLEST = 3.0
"""Boxes narrower than this are drawn as one with their neighbours."""


@dataclass(frozen=True)
class Box:
    """One module, or several neighbours too narrow to be told apart; lengths in units of the drawing."""

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
    """`operations` or `time`."""
    caption: str
    """What the picture shows, in one sentence."""
    height: float
    boxes: tuple[Box, ...]
    deeper: bool
    """Whether modules with a share lie below the rows drawn."""


def pictures(modules: Sequence[ModuleShare], clock: str | None) -> tuple[Picture, ...]:
    """By operations, and by their time if that was measured; nothing if nothing was."""
    drawn = (
        _picture(
            modules,
            "operations",
            lambda module: (float(module.ops or 0), float(module.ops_captured or 0)),
            lambda some, whole: f"{some:.0f} of {view.number(int(whole), 'operation')}",
        ),
        _picture(
            modules,
            f"time on the {'device' if clock == 'cuda' else 'host'}",
            lambda module: (module.seconds or 0.0, module.seconds_captured or 0.0),
            lambda some, whole: f"{view.duration(some)} of {view.duration(whole)}",
        ),
    )
    return tuple(picture for picture in drawn if picture is not None)


def _picture(
    modules: Sequence[ModuleShare],
    measure: str,
    shares: Callable[[ModuleShare], tuple[float, float]],
    spelled: Callable[[float, float], str],
) -> Picture | None:
    root = next((module for module in modules if not module.name), None)
    total, inside = shares(root) if root is not None else (0.0, 0.0)
    if root is None or total <= 0:
        return None
    children: dict[str, list[ModuleShare]] = {}
    names = {module.name for module in modules}
    for module in modules:
        if module.name:
            children.setdefault(_above(module.name, names), []).append(module)
    scale = WIDTH / total
    boxes: list[Box] = []
    deeper = False

    def draw(module: ModuleShare, x: float, room: float, level: int) -> None:
        nonlocal deeper
        share, captured = shares(module)
        width = max(min(share * scale, room), 0.0)
        label = module.name.rpartition(".")[2] or module.type
        boxes.append(_box(x, level, width, captured / share, label, _title(module, share, captured, spelled)))
        at, narrow = x, list[ModuleShare]()
        for child in children.get(module.name, ()):
            own = shares(child)[0]
            if own <= 0:
                continue
            if level + 1 >= ROWS:
                deeper = True
                continue
            left = x + width - at
            if own * scale < SMALLEST:
                narrow.append(child)
                continue
            at += together(narrow, at, left, level + 1)
            draw(child, at, x + width - at, level + 1)
            at += min(own * scale, x + width - at)
            narrow = []
        together(narrow, at, x + width - at, level + 1)

    def together(narrow: Sequence[ModuleShare], x: float, room: float, level: int) -> float:
        if not narrow:
            return 0.0
        share = sum(shares(module)[0] for module in narrow)
        captured = sum(shares(module)[1] for module in narrow)
        width = max(min(share * scale, room), 0.0)
        title = f"{view.number(len(narrow), 'small module')}: {spelled(captured, share)} in graphs"
        boxes.append(_box(x, level, width, captured / share, "", title))
        return width

    draw(root, 0.0, WIDTH, 0)
    caption = (
        f"By {measure}: {view.percent(inside / total)} inside graphs, "
        f"{spelled(max(total - inside, 0), total)} outside."
    )
    rows = round(max(box.y for box in boxes) / ROW) + 1
    return Picture(measure, caption, rows * ROW, tuple(boxes), deeper)


def _box(x: float, level: int, width: float, captured: float, label: str, title: str) -> Box:
    room = int((width - LETTER) / LETTER)
    shown = label if len(label) <= room else (label[: room - 1] + "…" if room >= 4 else "")
    return Box(x, level * ROW, width, width * min(max(captured, 0.0), 1.0), shown, title)


def _title(module: ModuleShare, share: float, captured: float, spelled: Callable[[float, float], str]) -> str:
    name = f"{module.name} ({module.type})" if module.name else module.type
    return f"{name}: {spelled(captured, share)} in graphs"


def _above(name: str, names: set[str]) -> str:
    """The nearest enclosing module that is known."""
    while name:
        name = name.rpartition(".")[0]
        if name in names:
            return name
    return ""
