"""The complete record of what Dynamo does with frames: breaks, frames that it gave up, recompilations, traced lines."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import re
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tcready.dynamic.worker.torch_internals import logs, version_differences
from tcready.dynamic.worker.torch_internals.guards import every_guard_of
from tcready.dynamic.worker.torch_internals.logs import listening
from tcready.portable.events import compile_times
from tcready.portable.events.record import (
    SKIP_REST,
    BreakEvent,
    CompiledFrame,
    Failure,
    Place,
    RecompileEvent,
    Record,
    SkipEvent,
    reasons_of,
    skip_of,
)
from torch._dynamo import bytecode_transformation, convert_frame, exc, symbolic_convert
from torch._dynamo import utils as dynamo_utils

UNITS = 8
"""The number of code units that one entry of a table of lines may cover."""
METRICS = 1_000_000
"""The number of rows of metrics that torch stores; by default the last 64."""


def _place(code: types.CodeType) -> Place:
    generator = bool(code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR))
    return Place(code.co_filename, code.co_firstlineno, code.co_name, generator)


def _callers() -> tuple[tuple[str, int, str], ...]:
    """Return the frames of Python that led here, outermost first."""
    found = traceback.walk_stack(sys._getframe(1))
    return tuple((each.f_code.co_filename, line, each.f_code.co_name) for each, line in found)[::-1]


def _inlined_places(tracer: Any) -> tuple[Place, ...]:
    """Return the inlined functions down to the one that a tracer is in, outermost first."""
    found: list[Place] = []
    while tracer.parent is not None:
        found.insert(0, _place(tracer.f_code))
        tracer = tracer.parent
    return tuple(found)


class _Structured(logging.Handler):
    """Collects breaks and recompiles from Dynamo's structured trace, the one complete record of both."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.breaks: list[str] = []
        self.inlined: dict[int, tuple[Place, ...]] = {}
        """By the number of the break: the inlined functions that it splits."""
        self.recompiles: list[tuple[str, ...]] = []

    def emit(self, record: logging.LogRecord) -> None:
        artifact = getattr(record, "metadata", {}).get("artifact")
        payload = getattr(record, "payload", None)
        if not isinstance(artifact, dict) or not isinstance(payload, str):
            return
        if artifact.get("name") == "dynamo_graph_break_reason":
            self.breaks.append(payload)
        elif artifact.get("name") == "recompile_reasons":
            self.recompiles.append(reasons_of(payload))


class _TracedLines(logging.Handler):
    """Collects the source lines Dynamo steps through, from its `trace_source` artifact."""

    LINE = re.compile(r"TRACE starts_line (.+):(\d+) in ")

    def __init__(self, lines: set[tuple[str, int]]) -> None:
        super().__init__(logging.DEBUG)
        self.lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        text = record.args[0] if isinstance(record.args, tuple) and record.args else None
        # The argument is a lazy string over a method of the tracer: asking the tracer itself spares the
        # formatting of each line; the text says the same where that inner shape has changed.
        tracer: Any = getattr(getattr(text, "func", None), "__self__", None)
        if hasattr(tracer, "f_code") and hasattr(tracer, "lineno"):
            self.lines.add((tracer.f_code.co_filename, tracer.lineno))
        elif match := self.LINE.match(str(text)):
            self.lines.add((match[1], int(match[2])))


@contextlib.contextmanager
def recording(record: Record, every_guard: bool = False) -> Iterator[None]:
    """Write into `record` everything that Dynamo does with frames in the context. Files are never written.

    Breaks, recompiles and traced lines come from Dynamo's own logs. No log says which frames were given up, and which
    of them silently: for that `ConvertFrame.__call__`, through which every frame goes, is wrapped in the context. So
    is `log_graph_break`, because its tracer knows the inlined functions that a break splits. `every_guard`: for each
    recompile check every guard of the entries that failed.
    """
    structured = _Structured()
    convert = convert_frame.ConvertFrame.__call__
    log_break = symbolic_convert.InstructionTranslatorBase.log_graph_break

    def logged(tracer: Any, *args: Any, **kwargs: Any) -> None:
        number = len(structured.breaks)
        log_break(tracer, *args, **kwargs)
        structured.inlined[number] = _inlined_places(tracer)

    def watched(self: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        place = _place(frame.f_code)
        breaks, recompiles = len(structured.breaks), len(structured.recompiles)
        rows = len(dynamo_utils.get_compilation_metrics())
        compiled_code = False
        result = None
        try:
            result = convert(self, frame, *args, **kwargs)
            compiled_code = result.guarded_code is not None
            return result
        finally:
            texts = structured.breaks[breaks:]
            record.breaks += [
                BreakEvent(text, place, not compiled_code, SKIP_REST in text, structured.inlined.get(number, ()))
                for number, text in enumerate(texts, breaks)
            ]
            record.recompiles += [
                RecompileEvent(
                    place, every_guard_of(frame, reasons) if every_guard else reasons, compiled_code, _callers()
                )
                for reasons in structured.recompiles[recompiles:]
            ]
            new_rows = dynamo_utils.get_compilation_metrics()[rows:]
            if compiled_code:
                record.compiled += [_compiled(row, place) for row in new_rows]
            elif result is not None:
                record.skips.append(_skip(place, result, new_rows[-1] if new_rows else None, bool(texts)))

    dynamo_utils.set_compilation_metrics_limit(METRICS)
    dynamo_utils.clear_compilation_metrics()
    # Reasons of some skips are traced only while the graph_breaks log is on.
    graph_breaks = logs.artifact("torch._dynamo.convert_frame", "graph_breaks")
    trace_source = logs.artifact("torch._dynamo.symbolic_convert", "trace_source")
    with contextlib.ExitStack() as stack:
        stack.enter_context(listening(logs.structured(), structured, quiet=False))
        stack.enter_context(listening(graph_breaks, logging.NullHandler(), quiet=True))
        stack.enter_context(listening(trace_source, _TracedLines(record.traced), quiet=True))
        if version_differences.has("collapsed_frames"):
            stack.callback(setattr, symbolic_convert, "collapse_resume_frames", symbolic_convert.collapse_resume_frames)
            symbolic_convert.collapse_resume_frames = _without_resumed
        if version_differences.has("line_table"):
            writer = bytecode_transformation.linetable_311_writer
            stack.callback(setattr, bytecode_transformation, "linetable_311_writer", writer)
            bytecode_transformation.linetable_311_writer = functools.partial(_line_table, writer)
        symbolic_convert.InstructionTranslatorBase.log_graph_break = logged
        stack.callback(setattr, symbolic_convert.InstructionTranslatorBase, "log_graph_break", log_break)
        convert_frame.ConvertFrame.__call__ = watched
        stack.callback(setattr, convert_frame.ConvertFrame, "__call__", convert)
        yield


def _line_table(writer: Callable[..., Any], first_line: int) -> tuple[list[int], Callable[[Any, int], None]]:
    """Return a table of lines for code that Dynamo makes.

    Torch's own (2.13) counts the step to another line once for each eight units of an instruction: a call of a method
    on a line of its own is longer, and every later line in a resumed function was wrong. If an instruction is passed
    in pieces, the second and later ones have no step.
    """
    table, update = writer(first_line)

    def whole(positions: Any, size: int) -> None:
        for done in range(0, size, UNITS):
            update(positions, min(UNITS, size - done))

    return table, whole


def _without_resumed(stack: Iterable[traceback.FrameSummary]) -> traceback.StackSummary:
    """Return each function once, where it continued.

    Torch's own (2.13) confuses a caller of the same name with a resumed function, and so loses most callers of a
    `forward`: a break in a module of torch had no line of the user.
    """
    found = traceback.StackSummary()
    for frame in stack:
        name = exc.remove_resume_prefix(frame.name)
        resumed = name != frame.name and found and (found[-1].name, found[-1].filename) == (name, frame.filename)
        frame.name = name
        found[len(found) - bool(resumed) :] = [frame]
    return found


def _compiled(row: Any, place: Place) -> CompiledFrame:
    seconds = round(compile_times.seconds(vars(row), compile_times.ENTIRE), 6) or None
    return CompiledFrame(str(row.compile_id), place, row.graph_op_count or 0, row.guard_count, seconds)


def _skip(place: Place, result: Any, row: Any, logged: bool) -> SkipEvent:
    known = result.skip_reason if version_differences.has("skip_reason") else None
    failure = None
    if row is not None:
        failure = Failure(row.fail_type, row.fail_reason)
    return skip_of(place, known, failure, logged)


def break_id(gb_type: str) -> str | None:
    """Return the id ("GB0170") of a kind of graph break, from the registry that ships with torch."""
    if not version_differences.has("break_ids"):
        return None
    try:
        ids = exc._load_gb_type_to_gb_id_map()
    except OSError:
        return None
    found = ids.get(gb_type)
    return str(found) if found else None
