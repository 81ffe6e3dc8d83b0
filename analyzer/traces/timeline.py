"""Make a timeline of a job's compilations, in the format of Chrome's trace viewer and of Perfetto.

Torch records the begin and the end of each step as events of that format (`torch/_dynamo/utils.py`:
ChromiumEventLogger). A trace without these events has one row of metrics for each compilation, with its begin and its
duration.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from tcready.schema.enums import TcreadyError
from tcready.traces import trace_files
from tcready.traces.process_trace import METRICS
from tcready.traces.trace_files import TraceCondition, TraceEvent

STEP = "chromium_event"
TEXT = 1 << 20
"""Maximum bytes of one event."""
PHASES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("kernels", re.compile(r"async_compile|compile_file|triton|autotun|benchmark", re.IGNORECASE)),
    ("inductor", re.compile(r"inductor|compile_fx|fx_codegen|GraphLowering|_recursive_")),
    ("aot_autograd", re.compile(r"backend_compile|backward_compile|create_aot_dispatcher|^aot_")),
    ("dynamo", re.compile(r"^dynamo$|^entire_frame_compile$|^compile_attempt")),
)
"""What the names of steps show of the phase that they begin. Another step is in the phase of the step around it."""
COLORS = {
    "dynamo": "thread_state_running",
    "aot_autograd": "thread_state_iowait",
    "inductor": "thread_state_runnable",
    "kernels": "rail_load",
}
"""Colors of Chrome's trace viewer, by phase."""
NO_ID = "None"
"""What a step has in place of the ID of a compilation, if its thread makes none."""
LONGEST = 300
"""Maximum length of an argument. Longer ones are settings and keys of caches."""


@dataclass
class _Step:
    name: str
    began: float
    phase: str
    arguments: dict[str, Any]
    outermost: bool


@dataclass
class _Steps:
    """The steps of one process, as they are read."""

    rank: int | None = None
    done: list[dict[str, Any]] = field(default_factory=list)
    open: dict[str, list[_Step]] = field(default_factory=dict)
    """The steps without an end so far, by compilation. Threads that compile kernels name none."""
    rows: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    outermost: list[dict[str, Any]] = field(default_factory=list)
    """Those of `done` that are in no other step: whole compilations."""
    last: float = 0.0

    def take(self, event: TraceEvent) -> None:
        rank = event.data.get("rank")
        if self.rank is None and type(rank) is int and rank >= 0:
            self.rank = rank
        if event.kind in METRICS:
            row = event.data[event.kind]
            self.rows.append((str(row.get("compile_id") or _id(event.data)), row))
        elif event.payload is not None:
            self._step(json.loads(event.payload))

    def _step(self, given: Mapping[str, Any]) -> None:
        began, name = given.get("ts"), given.get("name")
        if not _is_time(began) or not isinstance(name, str):
            return
        self.last = max(self.last, began)
        arguments = _short(given.get("args"))
        open_ = self.open.setdefault(str(arguments.get("compile_id")), [])
        if given["ph"] == "B":
            around = open_[-1].phase if open_ else "dynamo"
            phase = next((phase for phase, pattern in PHASES if pattern.search(name)), around)
            open_.append(_Step(name, began, phase, arguments, not open_))
        elif given["ph"] == "E":
            index = next((at for at in range(len(open_) - 1, -1, -1) if open_[at].name == name), None)
            if index is not None:
                step = open_.pop(index)
                step.arguments |= arguments
                self._close(step, began)
        elif given["ph"] in ("i", "I"):
            self.done.append({"name": name, "ph": "i", "ts": began, "s": "p", "cat": "event", "args": arguments})

    def _close(self, step: _Step, end: float) -> None:
        event = {
            "name": step.name,
            "cat": step.phase,
            "ph": "X",
            "ts": step.began,
            "dur": round(max(0.0, end - step.began), 3),
            "cname": COLORS[step.phase],
            "args": step.arguments,
        }
        self.done.append(event)
        if step.outermost:
            self.outermost.append(event)

    def all(self) -> list[dict[str, Any]]:
        """Return the events of the process, after its last line was read; an unfinished step ends with the file."""
        for step in (each for steps in self.open.values() for each in steps):
            step.arguments["unfinished"] = True
            self._close(step, self.last)
        self.open = {}
        functions = {id_: _function(row) for id_, row in self.rows}
        for each in self.outermost:
            id_ = each["args"].get("compile_id")
            if isinstance(id_, str) and id_ != NO_ID:
                each["args"]["step"] = each["name"]
                each["name"] = f"{id_} {functions.get(id_, '')}".strip()
        return self.done or [each for id_, row in self.rows for each in _of_row(id_, row)]


def make(named: Sequence[str], root: Path) -> dict[str, Any]:
    """Return the timeline of the processes of one job, ready to be written as JSON.

    Args:
        named: Files of a trace, or folders of them, all of one job.
        root: The working folder.

    Raises:
        TcreadyError: A file or folder does not exist, or contains no trace, or no compilation with a time is in it.
    """
    paths = files_of(named, root)
    processes = [(trace_files.name_of(path), _read(path)) for path in paths]
    ranks = [steps.rank for _, steps in processes]
    by_rank = None not in ranks and len(set(ranks)) == len(ranks)
    found: list[dict[str, Any]] = []
    for index, (name, steps) in enumerate(processes):
        number = steps.rank if by_rank and steps.rank is not None else index
        title = name if steps.rank is None else f"rank {steps.rank} ({name})"
        about = {"ph": "M", "pid": number, "tid": 0}
        found += [
            {**about, "name": "process_name", "args": {"name": title}},
            {**about, "name": "process_sort_index", "args": {"sort_index": number}},
        ]
        lanes = _lanes(steps.all())
        for lane, some in enumerate(lanes):
            title = "compilations" if lane == 0 else "other threads"
            found.append({**about, "tid": lane, "name": "thread_name", "args": {"name": title}})
            found += [{**each, "pid": number, "tid": lane} for each in some]
    times = [each["ts"] for each in found if "ts" in each]
    if not times:
        raise TcreadyError(f"there is no compilation with a time in {', '.join(named)}, so there is no timeline")
    began = min(times)
    for each in found:
        if "ts" in each:
            each["ts"] = round(each["ts"] - began, 3)
    found.sort(key=lambda each: (each["pid"], each["tid"], *_order(each)))
    return {"traceEvents": found, "displayTimeUnit": "ms", "otherData": {"began_us": began}}


def _order(event: Mapping[str, Any]) -> tuple[float, float]:
    """Return the key to sort events with: of two that begin together, the longer one is outside."""
    return event.get("ts", -1), -event.get("dur", 0)


def _lanes(events: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Divide events into lanes in which one lies within the other or beside it, as viewers need them.

    The compilations come first, so the steps of threads beside them, which may overlap these, get other lanes.
    """
    lanes: list[list[dict[str, Any]]] = [[]]
    for of_compilations in (True, False):
        first = 0 if of_compilations else len(lanes)
        ends: list[list[float]] = [[] for _ in lanes]
        some = [each for each in events if (each["args"].get("compile_id") != NO_ID) is of_compilations]
        for each in sorted(some, key=_order):
            if each["ph"] != "X":
                lanes[0].append(each)
                continue
            lane = first
            while lane < len(ends) and not _fits(each, ends[lane]):
                lane += 1
            if lane >= len(ends):
                lanes += [[] for _ in range(lane + 1 - len(lanes))]
                ends += [[] for _ in range(lane + 1 - len(ends))]
            ends[lane].append(each["ts"] + each["dur"])
            lanes[lane].append(each)
    return lanes


def _fits(event: Mapping[str, Any], ends: list[float]) -> bool:
    """Return True if an event lies within those of a lane that have not ended; `ends` loses those that have."""
    while ends and event["ts"] >= ends[-1]:
        ends.pop()
    return not ends or event["ts"] + event["dur"] <= ends[-1]


def files_of(named: Sequence[str], root: Path) -> list[Path]:
    """Return the files of a trace. Raises TcreadyError as `make` does."""
    return list(dict.fromkeys(path for each in named for path in trace_files.find_files(each, root)))


def _read(path: Path) -> _Steps:
    condition = TraceCondition()
    steps = _Steps()
    match = re.search(r"_rank_(\d+)_", path.name)
    if match:
        steps.rank = int(match[1])
    for event in trace_files.events(path, _wanted, condition):
        try:
            steps.take(event)
        except (AttributeError, KeyError, TypeError, ValueError):  # of another shape than torch gives it
            condition.unreadable += 1
    return steps


def _wanted(kind: str, _: Mapping[str, Any]) -> int | None:
    if kind == STEP:
        return TEXT
    return 0 if kind in METRICS else None


def _short(arguments: object) -> dict[str, Any]:
    """Return the arguments of a step without long ones and those that are None."""
    given = arguments if isinstance(arguments, dict) else {}
    return {str(name): value for name, value in given.items() if value is not None and len(str(value)) <= LONGEST}


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and math.isfinite(value) and 0 <= value < 1e18


def _id(data: Mapping[str, Any]) -> str:
    return f"{data.get('frame_id')}/{data.get('frame_compile_id')}"


def _function(row: Mapping[str, Any]) -> str:
    """Format `forward (/job/app/net.py:10)`; empty if the row names no code."""
    if not row.get("co_filename"):
        return ""
    return f"{row.get('co_name') or '?'} ({row['co_filename']}:{row.get('co_firstlineno')})"


def _of_row(id_: str, row: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Return the compilation of a row as one event; none if the row has no times."""
    began, lasted = row.get("start_time_us"), row.get("duration_us")
    if not _is_time(began) or not _is_time(lasted):
        return
    phases = {name: row[name] for name in row if name.endswith("_cumulative_compile_time_us") and row[name]}
    yield {
        "name": f"{id_} {_function(row)}".strip(),
        "cat": "dynamo",
        "ph": "X",
        "ts": began,
        "dur": lasted,
        "cname": COLORS["dynamo"],
        "args": {"compile_id": id_, "function": _function(row), **phases},
    }
