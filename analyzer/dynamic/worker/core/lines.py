"""Record which user lines run: with `sys.monitoring` (3.12 and later) or `sys.settrace`."""

from __future__ import annotations

import contextlib
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

from tcready.dynamic.worker.core.frames import is_user_file


def can_watch() -> bool:
    """Return whether no other tool watches lines, such as coverage or a debugger."""
    if sys.version_info >= (3, 12):
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        return monitoring.get_tool(monitoring.COVERAGE_ID) is None
    return sys.gettrace() is None


@contextlib.contextmanager
def executed_lines(lines: set[tuple[str, int]]) -> Iterator[None]:
    """Add (file, line) of every user line that runs in this thread within the context."""
    with _monitor_lines(lines) if sys.version_info >= (3, 12) else _trace_lines(lines):
        yield


@contextlib.contextmanager
def _monitor_lines(lines: set[tuple[str, int]]) -> Iterator[None]:
    """Report each location once, then switch it off, so that repeated code costs nothing."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    tool, line_event = monitoring.COVERAGE_ID, monitoring.events.LINE

    def line(code: types.CodeType, number: int) -> Any:
        if is_user_file(code.co_filename):
            lines.add((code.co_filename, number))
        return monitoring.DISABLE

    monitoring.use_tool_id(tool, "tcready")
    monitoring.register_callback(tool, line_event, line)
    monitoring.restart_events()
    monitoring.set_events(tool, line_event)
    try:
        yield
    finally:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, line_event, None)
        monitoring.free_tool_id(tool)


@contextlib.contextmanager
def _trace_lines(lines: set[tuple[str, int]]) -> Iterator[None]:
    def local(frame: types.FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def call(frame: types.FrameType, _event: str, _: Any) -> Callable[..., Any] | None:
        return local if is_user_file(frame.f_code.co_filename) else None

    before = sys.gettrace()
    threading.settrace(call)
    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(None)
