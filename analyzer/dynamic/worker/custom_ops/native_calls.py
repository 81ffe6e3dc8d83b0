"""Find functions of extension modules and of ctypes on the lines that broke, and watch them for one call."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import functools
import linecache
import os
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import torch
from tcready.dynamic.worker.core.calling import call
from tcready.dynamic.worker.core.calling_line import autograd_function
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import one_line
from tcready.dynamic.worker.custom_ops.observed_calls import Seen, SeenCalls
from tcready.dynamic.worker.custom_ops.operator_calls import observed
from tcready.dynamic.worker.torch_internals.recording import break_id
from tcready.portable.events.ownership import NOT_USER

CTYPES_FUNCTION = type(ctypes.pythonapi.Py_GetVersion).__mro__[1]
"""The base class of every function of a `ctypes.CDLL`, which has no public name."""
OPAQUE_BREAKS = (
    "Attempted to call function marked as skipped",
    "Failed to trace builtin operator",
    "Unsupported function call",
    "Unsupported method call",
    "call to a callable object with no traceable __call__",  # torch 2.14, of a function of ctypes
    "unimplemented builtin op on tensor arguments",
)
"""Kinds of break, by their names in torch's registry, for calls that Dynamo cannot look into."""
KNOWN_ROOTS = NOT_USER | {"triton", "builtins"} | sys.stdlib_module_names
"""Packages with functions that are not reported: torch knows them, or they are not kernels."""


def find_native_calls(context: Context) -> None:
    """Find such functions on the lines that broke and in frames that Dynamo did not compile.

    This takes one more eager call of each case that has such lines.
    """
    for case in context.cases:
        lines = _suspect_lines(context, case)
        if not lines:
            continue
        try:
            model = context.build()
            with torch.compiler.set_stance("force_eager"):
                call(context, model, case, _watched_lines(lines, context.custom_ops, case))
        except Exception as error:
            context.journal.warn(f"foreign functions were not looked for: {one_line(error, context.work.root)}")


def _suspect_lines(context: Context, case: Case) -> set[tuple[str, int]]:
    """Return lines that may call code that Dynamo cannot look into: a break reports it, or Dynamo did not see the rest
    of the frame."""
    seen, files = context.journal.observation, context.names.sources
    ids = {break_id(kind) for kind in OPAQUE_BREAKS} - {None}
    lines = {
        (files.get(site.path, site.path), site.line)
        for site in seen.break_sites
        if site.case == case.name and not ids.isdisjoint((*site.gb_ids, site.gb_id))
    }
    for frame in seen.skipped_frames:
        if frame.case == case.name and not frame.benign and frame.end_line is not None:
            path = files.get(frame.path, frame.path)
            lines |= {(path, line) for line in range(frame.line, frame.end_line + 1) if calls_by_line(path).get(line)}
    return lines


@contextlib.contextmanager
def _watched_lines(lines: set[tuple[str, int]], found: SeenCalls, case: Case) -> Iterator[None]:
    """Before one of `lines` runs, make the foreign compiled functions that it calls record their first call.

    They are replaced in the place in which they are looked up (a module, an object, the globals) and restored at the
    end. A function in a local variable is reported without its arguments.
    """
    undo = contextlib.ExitStack()
    files = {path for path, _ in lines}
    done: set[tuple[str, int]] = set()

    def on_line(frame: types.FrameType, event: str, _: Any) -> Any:
        at = (_real(frame.f_code.co_filename), frame.f_lineno)
        if event == "line" and at in lines and at not in done:
            done.add(at)
            for node in calls_by_line(at[0]).get(at[1], ()):
                _watch_call(node, frame, found, case, undo)
        return on_line

    def on_call(frame: types.FrameType, _event: str, _: Any) -> Any:
        return on_line if _real(frame.f_code.co_filename) in files else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        yield
    finally:
        sys.settrace(before)
        undo.close()


@functools.cache
def _real(path: str) -> str:
    return os.path.realpath(path)


@functools.cache
def calls_by_line(path: str) -> Mapping[int, tuple[ast.Call, ...]]:
    """Return the calls on each line of a file, including those that span it; none if the file cannot be parsed."""
    found: dict[int, list[ast.Call]] = {}
    with contextlib.suppress(SyntaxError, ValueError):
        for node in ast.walk(ast.parse("".join(linecache.getlines(path)))):
            if isinstance(node, ast.Call):
                for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    found.setdefault(line, []).append(node)
    return {line: tuple(nodes) for line, nodes in found.items()}


def _watch_call(
    node: ast.Call, frame: types.FrameType, found: SeenCalls, case: Case, undo: contextlib.ExitStack
) -> None:
    """Record a foreign compiled function, and replace it by a wrapper that records its next call as well."""
    chain = _chain(node.func)
    if not chain:
        return
    first, *rest = chain
    names = {**frame.f_globals, **frame.f_locals}
    if first not in names:
        return
    owner, value = None, names[first]
    for step in rest:
        try:
            owner, value = value, getattr(value, step)
        except Exception:  # a property of the user's
            return
    kind = native_kind(value)
    if kind is None:
        return
    spelled = ".".join(chain)
    own = getattr(value, "__name__", chain[-1])
    module = getattr(value, "__module__", None) or type(value).__module__
    name = f"{module}.{own}" if kind == "extension" else spelled
    place = (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    key = (name, place[0], place[1])
    if key in found.seen:
        return
    labels = tuple(_label(argument) for argument in node.args)
    found.seen[key] = Seen(
        name, kind, place, None, None, spelled, labels, around=autograd_function(frame), case=case.name
    )

    def watching(*args: Any, **kwargs: Any) -> Any:
        if found.seen[key].call is not None:
            return value(*args, **kwargs)
        result, call = observed(lambda: value(*args, **kwargs), args, kwargs)
        found.seen[key] = replace(found.seen[key], call=call)
        return result

    if owner is None:
        if first in frame.f_globals and first not in frame.f_locals:
            frame.f_globals[first] = watching
            undo.callback(frame.f_globals.__setitem__, first, value)
        return
    with contextlib.suppress(AttributeError, TypeError):
        setattr(owner, rest[-1], watching)
        undo.callback(setattr, owner, rest[-1], value)


def _chain(node: ast.expr) -> list[str]:
    """Return the names in `a.b.c`; empty for any other expression."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else []


def _label(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def native_kind(value: Any) -> Literal["extension", "ctypes"] | None:
    """The kind of a callable that is foreign compiled code: not Python, not torch's, not the standard library's."""
    if isinstance(value, CTYPES_FUNCTION):
        return "ctypes"
    inner = value.__func__ if isinstance(value, types.MethodType) else value
    if isinstance(inner, (types.FunctionType, type)) or not callable(inner):
        return None
    if isinstance(type(inner).__call__, types.FunctionType):  # a class written in Python
        return None
    owner = getattr(inner, "__self__", None)
    module = getattr(inner, "__module__", None)
    if module is None and owner is not None:
        module = owner.__name__ if isinstance(owner, types.ModuleType) else type(owner).__module__
    root = str(module or type(inner).__module__).split(".")[0]
    return None if root in KNOWN_ROOTS else "extension"
