"""How the lines of a file ran in the last run: in a graph, eagerly, with a break, recompiled."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tcready.reports.shared.phrases import first_line, number, shorten
from tcready.schema.capture_failures import CaptureFailures
from tcready.schema.observation import Observation
from tcready.schema.report import TargetReport
from tcready.schema.run import BreakSite, LineSet
from tcready.schema.static import StaticTarget

LineState = Literal["graph", "eager", "recompiled", "broke"]
STATES: tuple[LineState, ...] = ("graph", "eager", "recompiled", "broke")
"""The states of a line. If a line has several, in several calls or runs, the last of these is shown."""


@dataclass(frozen=True)
class LineRange:
    """Consecutive lines with the same state and the same text; both lines are 1-based and inclusive."""

    first: int
    last: int
    state: LineState
    text: str


@dataclass(frozen=True)
class ModelPlace:
    """A model of a file, as `tcready check` names it, and the lines of its definition, 1-based and inclusive."""

    target: str
    first: int
    last: int


def states_of(runs: Iterable[TargetReport], path: str) -> tuple[LineRange, ...]:
    """Return how the lines of a file ran, by line, over some runs. Lines that no run executed are left out."""
    found: dict[int, tuple[LineState, str]] = {}
    for run in runs:
        for line, state, text in _states(run.observation, path):
            known = found.get(line)
            if known is None or STATES.index(state) > STATES.index(known[0]):
                found[line] = state, text
    return tuple(_ranges(found))


def _states(seen: Observation, path: str) -> Iterator[tuple[int, LineState, str]]:
    traced = _lines(seen.traced, path)
    ran = traced if seen.trace is not None else _lines(seen.executed, path)  # a job's trace has only traced lines
    frames = [frame for frame in seen.skipped_frames if frame.path == path]
    bare = {n for frame in frames if frame.benign for n in range(frame.line, (frame.end_line or frame.line) + 1)}
    given_up = {
        line: frame.symbol
        for frame in frames
        if not frame.benign
        for line in range(frame.line, (frame.end_line or frame.line) + 1)
    }
    for line in sorted(ran):
        if line in given_up:
            yield line, "eager", f"ran eagerly: Dynamo gave up `{given_up[line]}`"
        elif line not in traced:
            yield line, "eager", "ran eagerly: Dynamo did not trace it"
        elif line not in bare:  # without tensor work, it makes no difference where a line runs
            yield line, "graph", "ran in a graph"
    for event in seen.recompiles:
        lines = [event.line] if event.path == path else []
        lines += [frame.line for frame in event.lines if frame.path == path]
        why = f": {shorten(first_line(event.reasons[0]))}" if event.reasons else ""
        for line in lines:
            yield line, "recompiled", f"`{event.symbol}` was recompiled{why}"
    for item in CaptureFailures.of(seen).breaks:
        broken = _line_of(item.first, path)
        if broken is not None:
            name = f" {item.first.gb_id}" if item.first.gb_id else ""
            times = f" ({number(item.hits, 'event')})" if item.hits > 1 else ""
            yield broken, "broke", f"graph break{name}{times}: {shorten(first_line(item.first.reason))}"


def _line_of(site: BreakSite, path: str) -> int | None:
    """Return the line of a file at which a break occurred. For a break in an installed package, it is the innermost
    line that led there."""
    if site.path == path:
        return site.line
    if site.origin == "own":
        return None
    return next((frame.line for frame in reversed(site.stack) if frame.path == path), None)


def _lines(sets: Iterable[LineSet], path: str) -> set[int]:
    return {
        line for each in sets if each.path == path for first, last in each.ranges for line in range(first, last + 1)
    }


def _ranges(found: Mapping[int, tuple[LineState, str]]) -> Iterator[LineRange]:
    first: int | None = None
    for line in sorted(found):
        first = line if first is None else first
        if found.get(line + 1) != found[line]:
            yield LineRange(first, line, *found[line])
            first = None


def models_in(targets: Iterable[StaticTarget], path: str, text: str) -> tuple[ModelPlace, ...]:
    """Return the models that a file defines, in the order of the file; none if its text cannot be parsed."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return ()
    names = {f"{path}::{node.name}": node for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    found = []
    for target in dict.fromkeys(each.target for each in targets):
        node = names.get(target)
        if node is not None:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found.append(ModelPlace(target, first, node.end_lineno or node.lineno))
    return tuple(sorted(found, key=lambda place: place.first))
