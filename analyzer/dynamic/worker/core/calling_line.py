"""Find the user's line behind a dispatched operator, in eager code or inside a graph."""

from __future__ import annotations

import types
from collections.abc import Iterator

import torch
from tcready.dynamic.worker.core.frames import is_user_file, user_stack
from tcready.dynamic.worker.torch_internals import dispatch
from tcready.portable.events import to_schema


def calling_line(frames: Iterator[types.FrameType]) -> tuple[tuple[str, int, str], bool, str | None]:
    """Return the user's line that calls, whether a graph does it, and the autograd.Function around it."""
    for frame in frames:
        code = frame.f_code
        stack = dispatch.graph_node_stack(frame)
        if stack is not None:
            found = user_stack(to_schema.parse_stack(stack))
            return (found[0] if found else (code.co_filename, frame.f_lineno, code.co_name)), True, None
        if is_user_file(code.co_filename):
            return (code.co_filename, frame.f_lineno, code.co_name), False, autograd_function(frame)
    return ("<unknown>", 1, ""), False, None


def autograd_function(frame: types.FrameType) -> str | None:
    """Return the name of the autograd.Function that has this frame as `forward` or `backward`, found by its code."""
    code = frame.f_code
    if code.co_name not in ("forward", "backward"):
        return None
    for value in list(frame.f_globals.values()):
        if isinstance(value, type) and issubclass(value, torch.autograd.Function):
            method = getattr(value, code.co_name, None)
            if getattr(method, "__code__", None) is code:
                return value.__name__
    return None
