"""Read what one process compiled from its file of the trace.

The events are those of torch 2.13 and 2.14 (`torch/_dynamo/convert_frame.py`, `symbolic_convert.py`, `guards.py`,
`output_graph.py`, `utils.py`). A compilation is identified by its ID (`frame_id/frame_compile_id`). IDs restart after
`torch._dynamo.reset()`, so a finished compilation is not the same as a later one with its ID.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tcready.portable.events import compile_times, to_schema
from tcready.portable.events.ownership import slashed
from tcready.portable.events.record import (
    RECOMPILE_LIMIT,
    SKIP_REST,
    BreakEvent,
    CompiledFrame,
    Failure,
    Place,
    RecompileEvent,
    Record,
    reasons_of,
    skip_of,
)
from tcready.portable.events.to_schema import RawFrame
from tcready.schema.enums import counted
from tcready.traces.trace_files import TraceCondition, TraceEvent, events, name_of

TEXT = 256 << 10
"""Maximum stored bytes of the text of a break, an error, a list of guards."""
LARGEST = 10**9
"""Upper bound of any number of lines, operations, guards or ranks in a trace."""
GRAPH = 16 << 20
"""Maximum bytes that are read of the code of a graph, for the lines of its operations."""
METRICS = ("compilation_metrics", "bwd_compilation_metrics")
"""The rows of metrics that follow the end of a compilation; more follow at run time under `..._runtime`."""
CACHES = re.compile(r"(fx_graph|aotautograd)_cache_(hit|miss|bypass)")
"""Names of artifacts without text that is used: the result of a search in a cache."""
SCHEDULE = "inductor_collective_schedule"
STACKS = "inductor_provenance_tracking_kernel_stack_traces"
"""By kernel, the tracebacks of the operations in it. Written with `INDUCTOR_PROVENANCE`, also for graphs of a cache."""
NODES = "inductor_provenance_tracking_node_mappings"
"""Which nodes of the graph each kernel computes: older versions write only this, without tracebacks."""
KERNEL_NODES = "inductor_triton_kernel_to_post_grad_nodes"
"""The part of it about kernels, as written by still older versions."""
PROVENANCE = (STACKS, NODES, KERNEL_NODES)
ARTIFACTS = ("dynamo_graph_break_reason", "recompile_reasons", "dynamo_error", "torch_version")
GUARDS = "dynamo_cpp_guards_str"
"""The event of code that is used: `has_guarded_code` is also true of some frames that Dynamo gave up."""
BACKWARD = ("aot_joint_graph", "aot_backward_graph", "bwd_compilation_metrics")
"""Events that only training leaves."""
NEEDED = "symbolic_shape_specialization"
"""The event of a number that could have stayed symbolic, had the code not required its value."""
SETTINGS = "dynamo_config"
"""The column of a row of metrics with the settings of `torch._dynamo.config`, as JSON."""
INFERENCE = "aot_inference_graph"
"""The event of a graph for which AOTAutograd made no backward."""
SOFT = ("Unsupported", "UserError")
"""Errors after which Dynamo runs the frame eagerly; any other is raised, unless `suppress_errors` is set."""
GRAPH_LINE = re.compile(
    r"# File: (.+?):([1-9]\d{0,8}) in ([^\s,]+)"
    r'|^[ \t]+(\w+)(?:: "([^"\n]*)")? = (?:torch\.ops\._c10d_functional(?:_autograd)?\.(\w+)([^\n]*))?',
    re.MULTILINE,
)
"""The comment above an operation in the code of a graph, or the operation: its node, the type of its result and, if it
is a collective, its name and arguments."""
WAIT = "wait_tensor"
"""An operation of collectives that does not communicate."""
REDUCTION = re.compile(r"'(sum|avg|product|min|max|band|bor|bxor|premul_sum)'")
TYPE = re.compile(r"\w+\[[^\]]*\]")
HANDLE = re.compile(r":\d+$")
"""The number that Inductor adds to the name of a kernel."""
DEVICE = re.compile(r'"[a-z]+\d*\[[^\]\n]*\](?:\[[^\]\n]*\])?([a-z]+)(?::\d+)?"')
"""The annotation of a value in a graph's code: `"f32[4, 8][8, 1]cuda:0"`."""
FROM_USER_CODE = "from user code:"
ROW = (
    "co_name",
    "co_filename",
    "co_firstlineno",
    "guard_count",
    "graph_op_count",
    "fail_type",
    "fail_reason",
    "fail_user_frame_filename",
    "fail_user_frame_lineno",
    "has_guarded_code",
    "config_suppress_errors",
    *compile_times.FIELDS,
)
"""The columns of a row of metrics that are used."""
EVAL_FRAME = "/torch/_dynamo/eval_frame.py"
CONVERT_FRAME = "/torch/_dynamo/convert_frame.py"

Id = tuple[int | None, int | None, int | None]
"""ID of compiled autograd, of the frame, and its compilation count."""


@dataclass
class Compilation:
    """One compilation of a frame."""

    id: Id
    place: Place | None = None
    stack: tuple[RawFrame, ...] = ()
    """The callers, outermost first, the frame itself last."""
    breaks: list[str] = field(default_factory=list)
    guards: list[tuple[str, ...]] = field(default_factory=list)
    """The failed guards, if it was compiled before."""
    error: str = ""
    """The traceback of the error that ended it."""
    row: Mapping[str, Any] | None = None
    later: list[Mapping[str, Any]] = field(default_factory=list)
    """Rows of its backward, and of work at run time."""
    guarded: bool = False
    """Guards were made for its code."""
    backward: bool = False
    """An event of training was seen."""
    inference: bool = False
    """A graph of it was compiled without a backward."""
    needed: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Numbers with values that the code requires, as guards name them, and the line; no file if no line is named."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """The `torch._dynamo.config` settings; empty if the trace has none."""
    lines: set[tuple[str, int]] = field(default_factory=set)
    """Lines of operations in its graphs."""
    nodes: dict[str, RawFrame] = field(default_factory=dict)
    """The innermost line of each node of its graphs."""
    caches: list[tuple[str, str]] = field(default_factory=list)
    """Searches in a cache and their results: `("fx_graph", "hit")`."""
    collectives: list[str] = field(default_factory=list)
    """Collectives in the graphs that Dynamo made: `all_reduce f32[4, 8] sum`."""
    schedule: list[str] = field(default_factory=list)
    """Collectives in the order in which Inductor runs them. None are recorded for a graph from a cache."""
    kernels: dict[str, list[tuple[RawFrame, ...]]] = field(default_factory=dict)
    """By kernel, the tracebacks of the operations that it computes."""
    kernel_nodes: dict[str, list[str]] = field(default_factory=dict)
    """By kernel, the nodes of the graph that it computes, after the passes of Inductor."""

    @property
    def name(self) -> str:
        """Return its name in torch's logs: `0/1`, `!0/2/0` under compiled autograd."""
        autograd, frame, compiled = self.id
        return f"{frame}/{compiled}" if autograd is None else f"!{autograd}/{frame}/{compiled}"

    @property
    def has_code(self) -> bool:
        """Return True if it produced code that is run."""
        row = self.row or {}
        return bool(row.get("has_guarded_code")) and (self.guarded or bool(row.get("graph_op_count")))

    @property
    def rows(self) -> tuple[Mapping[str, Any], ...]:
        return (*([self.row] if self.row else []), *self.later)

    @property
    def raised(self) -> str | None:
        """Return the error that reached the job, in one line; None if the frame was run eagerly instead."""
        row = self.row or {}
        kind = row.get("fail_type")
        if not isinstance(kind, str) or "Skip" in kind or kind in SOFT or row.get("config_suppress_errors"):
            return None
        reason = str(row.get("fail_reason") or "").strip().split("\n")[0]
        return f"{kind}: {reason}" if reason else kind


@dataclass
class Process:
    """The compilations of one process, according to its file."""

    file: str
    rank: int | None = None
    compilations: list[Compilation] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)
    torch_folder: str | None = None
    """Torch's folder, with a trailing slash."""
    nameless: int = 0
    """Compilations without an event that names their code."""
    unknown_strings: int = 0
    """Stacks that refer to file names missing in the file because its beginning is missing."""
    condition: TraceCondition = field(default_factory=TraceCondition)

    def lacks(self) -> str:
        """Return the problems of the file; empty if there are none."""
        found = [self.condition.words()]
        open_ = [each for each in self.compilations if each.row is None and each.id[1] is not None]
        if open_:
            names = ", ".join(each.name for each in open_[:3]) + (", ..." if len(open_) > 3 else "")
            found.append(f"no end of {counted(len(open_), 'compilation')} ({names})")
        if self.nameless:
            found.append(f"{counted(self.nameless, 'compilation')} of code that it does not name")
        if self.unknown_strings:
            found.append(f"names of files are missing in {counted(self.unknown_strings, 'stack')}")
        return "; ".join(filter(None, found))


def read(path: Path) -> Process:
    """Read one file of a trace. Raises TcreadyError if it cannot be opened; problems inside are reported."""
    process = Process(name_of(path))
    match = re.search(r"_rank_(\d+)_", path.name)
    if match:
        process.rank = int(match[1])
    reader = _Reader(process)
    for event in events(path, _wanted, process.condition):
        try:
            reader.take(event)
        except (AttributeError, KeyError, TypeError, ValueError):  # of another shape than torch gives it
            process.condition.unreadable += 1
    return process


def _wanted(kind: str, data: Mapping[str, Any]) -> int | None:
    """Return how many bytes of an event's payload to read; None for an unused event."""
    if kind == "artifact":
        if not data:
            return 0
        about = data.get("artifact")
        name = about.get("name") if isinstance(about, dict) else None
        if name in PROVENANCE:
            return GRAPH
        if isinstance(name, str) and CACHES.fullmatch(name):
            return 0
        return TEXT if name in ARTIFACTS or name == SCHEDULE else None
    if kind == "dynamo_output_graph":
        return GRAPH
    known = (
        kind in ("str", "dynamo_start", GUARDS, INFERENCE, NEEDED, *BACKWARD)
        or kind.removesuffix("_runtime") in METRICS
    )
    return 0 if known else None


class _Reader:
    """Combines the events of one file."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.strings: dict[int, str] = {}
        self.latest: dict[Id, Compilation] = {}
        self.places: dict[tuple[int | None, int | None], Place] = {}
        """The code of each frame, for a compilation that ends before it names its own."""

    def take(self, event: TraceEvent) -> None:
        data = event.data
        rank = data.get("rank")
        if self.process.rank is None:
            self.process.rank = _count(rank)
        if event.kind == "str":
            text, number = data["str"]
            self.strings[number] = str(text)
            if self.process.torch_folder is None and slashed(str(text)).endswith(CONVERT_FRAME):
                self.process.torch_folder = slashed(str(text)).removesuffix(CONVERT_FRAME) + "/torch/"
        elif event.kind == "artifact":
            self._artifact(data["artifact"]["name"], event)
        elif event.kind == "dynamo_start":
            self._start(data)
        elif event.kind.removesuffix("_runtime") in METRICS:
            self._row(event.kind, data)
        elif event.kind == "dynamo_output_graph":
            self._graph(event)
        elif event.kind == GUARDS and (compilation := self._of(data)) is not None:
            compilation.guarded = True
        elif event.kind == NEEDED and (compilation := self._of(data)) is not None:
            self._needed(compilation, data[NEEDED])
        if event.kind in BACKWARD and (of := self._of(data)) is not None:
            of.backward = True
        elif event.kind == INFERENCE and (of := self._of(data)) is not None:
            of.inference = True

    def _artifact(self, name: str, event: TraceEvent) -> None:
        text = event.payload
        if (cache := CACHES.fullmatch(name)) is not None:
            if (of := self._of(event.data)) is not None:
                of.caches.append((cache[1], cache[2]))
            return
        if text is None:
            return
        if name == "torch_version":
            match = re.search(r'"pytorch_version": "([^"]+)"', text)
            if match:
                self.process.environment.setdefault("torch", match[1])
            return
        begins = name == "recompile_reasons"
        compilation = self._of(event.data, begins=begins)
        if compilation is None:
            return
        if name in PROVENANCE:
            _add_kernels(compilation, name, json.loads(text))
        elif name == SCHEDULE:
            names = [str(each).rpartition("_c10d_functional.")[2].partition(".")[0] for each in json.loads(text)]
            compilation.schedule += [each.rstrip("_") for each in names if each and each != WAIT]
        elif begins:
            compilation.guards.append(reasons_of(text))
        elif name == "dynamo_error":
            compilation.error = text
        else:
            compilation.breaks.append(text)

    def _start(self, data: Mapping[str, Any]) -> None:
        compilation = self._of(data, begins=True)
        if compilation is None:
            return
        stack = []
        missing = False
        for frame in data["dynamo_start"]["stack"]:
            file = self.strings.get(frame["filename"])
            missing |= file is None
            stack.append((file or "", _line(frame["line"]), str(frame["name"] or "")))
        self.process.unknown_strings += missing
        compilation.stack = tuple(stack)
        if stack and stack[-1][0]:
            self._at(compilation, Place(*stack[-1], generator=False))

    def _needed(self, compilation: Compilation, about: Mapping[str, Any]) -> None:
        stack = about.get("user_stack") or []
        inner = stack[-1] if stack else {}
        place = self.strings.get(inner.get("filename", -1), ""), _line(inner.get("line"))
        for name in about["sources"]:
            compilation.needed.setdefault(str(name), place)

    def _row(self, kind: str, data: Mapping[str, Any]) -> None:
        given = data[kind]
        row = {name: given[name] for name in ROW if given.get(name) is not None}
        self._environment(given)
        forward = kind == METRICS[0]
        compilation = self._of(data, begins=forward)
        if compilation is None:
            return
        if not forward:
            compilation.later.append(row)
            return
        if "co_filename" in row:
            line = _line(row.get("co_firstlineno"))
            place = Place(str(row["co_filename"]), line, str(row.get("co_name", "")), False)
            self._at(compilation, place)
        compilation.row = row
        if compilation.kernels or not compilation.kernel_nodes:
            compilation.nodes = {}  # nothing will ask for them, and a large graph has many
        if isinstance(given.get(SETTINGS), str):
            settings = json.loads(given[SETTINGS])
            compilation.settings = settings if isinstance(settings, dict) else {}

    def _environment(self, row: Mapping[str, Any]) -> None:
        about = self.process.environment
        if isinstance(row.get("pytorch_version"), str):
            about.setdefault("torch", row["pytorch_version"])
        if isinstance(row.get("python_version"), str):
            about.setdefault("python", row["python_version"].split(" ")[0])

    def _graph(self, event: TraceEvent) -> None:
        compilation = self._of(event.data)
        if compilation is None or event.payload is None:
            return
        at: RawFrame | None = None
        compilation.collectives = []  # an earlier graph is of an attempt that was given up
        for path, line, symbol, node, type_, collective, arguments in GRAPH_LINE.findall(event.payload):
            if path:
                at = (path, int(line), symbol)
                compilation.lines.add(at[:2])
            elif at is not None:
                compilation.nodes[node] = at
            if collective and collective != WAIT:
                shape, reduction = TYPE.match(type_), REDUCTION.search(arguments)
                words = (collective, shape[0] if shape else "", reduction[1] if reduction else "")
                compilation.collectives.append(" ".join(filter(None, words)))
        devices = {device for device in DEVICE.findall(event.payload) if device != "cpu"}
        about = self.process.environment
        about["device"] = min(devices) if devices else about.get("device", "cpu")

    def _at(self, compilation: Compilation, place: Place) -> None:
        compilation.place = place
        self.places[compilation.id[:2]] = place

    def _of(self, data: Mapping[str, Any], begins: bool = False) -> Compilation | None:
        """Return the compilation of an event; None if it names none.

        `begins`: the event comes before a compilation's row of metrics: after that row it is another compilation, with
        restarted IDs.
        """
        numbers = (data.get(name) for name in ("compiled_autograd_id", "frame_id", "frame_compile_id"))
        autograd, frame, compiled = map(_count, numbers)
        if frame is None and autograd is None:
            return None
        key = (autograd, frame, compiled)
        known = self.latest.get(key)
        if known is None or (begins and known.row is not None):
            known = self.latest[key] = Compilation(key, self.places.get(key[:2]))
            self.process.compilations.append(known)
        return known


def _add_kernels(compilation: Compilation, name: str, found: Mapping[str, Any]) -> None:
    """Add the kernels of a graph, with the tracebacks or the nodes that an artifact has for them."""
    if name == STACKS:
        for kernel, stacks in found.items():
            frames = [tuple(to_schema.parse_stack(stack)) for stack in stacks]
            compilation.kernels.setdefault(HANDLE.sub("", kernel), []).extend(filter(None, frames))
        return
    before = found.get("postToPre", {}) if name == NODES else {}
    for kernel, nodes in (found.get("cppCodeToPost", {}) if name == NODES else found).items():
        known = compilation.kernel_nodes.setdefault(HANDLE.sub("", kernel), [])
        known += [str(each) for node in nodes for each in before.get(node, [node])]


def _count(number: object) -> int | None:
    """Return a count; None if it cannot be one."""
    return number if type(number) is int and 0 <= number < LARGEST else None


def _line(number: object) -> int:
    """Return a line number from 1, as in reports; 1 if it is not a line number."""
    return _count(number) or 1


def record_of(compilations: list[Compilation]) -> Record:
    """Return what Dynamo did in these compilations, in the form of a run's record; nothing for code that no event
    names."""
    record = Record()
    for each in compilations:
        place = each.place
        texts = each.breaks or _unlogged_break(each)
        skipped = not each.has_code
        record.breaks += [BreakEvent(text, place, skipped, SKIP_REST in text) for text in texts]
        record.traced |= each.lines
        if place is None:
            continue
        record.recompiles += [RecompileEvent(place, reasons, each.has_code) for reasons in each.guards]
        row = each.row
        if row is None:
            continue
        if each.has_code:
            seconds = round(compile_times.seconds(row, compile_times.ENTIRE), 6) or None
            ops, guards = row.get("graph_op_count"), row.get("guard_count")
            record.compiled.append(CompiledFrame(each.name, place, _count(ops) or 0, _count(guards), seconds))
        elif each.raised is None:
            kind, reason = row.get("fail_type"), row.get("fail_reason")
            failure = Failure(*(None if each is None else str(each) for each in (kind, reason)))
            record.skips.append(skip_of(place, None, failure, bool(texts)))
    return record


def _unlogged_break(each: Compilation) -> list[str]:
    """Return the break on which a frame was given up, if only its error has it: torch logs some only with
    `TORCH_LOGS=graph_breaks`, which a run sets. It has the wording of that log."""
    kind = (each.row or {}).get("fail_type")
    reason = str((each.row or {}).get("fail_reason") or "")
    if each.has_code or kind not in SOFT or reason.startswith(RECOMPILE_LIMIT):
        return []
    _, shown, below = each.error.rpartition(FROM_USER_CODE)
    if not shown:
        return []
    stack = below.partition("\n\n")[0]
    return [f"The graph break occurred in the following user code:{stack}\n\n{each.error}"]
