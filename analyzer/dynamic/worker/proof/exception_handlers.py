"""Find which exceptions the callers of a function would catch."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator
from types import FrameType
from typing import Any

from tcready.dynamic.worker.core.frames import is_user_file

Caught = tuple[type[BaseException], ...]


def caught_around(frame: FrameType | None, until: str) -> Caught:
    """Return the types of exceptions that the calls under way catch, in a `try` or under `contextlib.suppress`: from
    `frame` outwards to the function `until` of the worker."""
    found: dict[type[BaseException], None] = {}
    while frame is not None and not (frame.f_code.co_name == until and frame.f_globals.get("__name__") == _HERE):
        for expression in _handlers(frame.f_code.co_filename, frame.f_lineno):
            found |= dict.fromkeys(_types(expression, frame))
        frame = frame.f_back
    return tuple(found)


_HERE = "tcready.dynamic.worker.proof.effects_of_call"


def _handlers(path: str, line: int) -> Iterator[ast.expr | None]:
    """Return the types that are caught around a line of a file; None if all are caught."""
    if not is_user_file(path):
        return  # torch's own calls of modules let every exception through
    for first, last, expressions in _guarded_blocks("".join(linecache.getlines(path))):
        if first <= line <= last:
            yield from expressions


@functools.lru_cache(maxsize=256)
def _guarded_blocks(text: str) -> tuple[tuple[int, int, tuple[ast.expr | None, ...]], ...]:
    """Return blocks with caught exceptions: first line, last line and the named types."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    found: list[tuple[int, int, tuple[ast.expr | None, ...]]] = []
    for node in ast.walk(tree):
        expressions: tuple[ast.expr | None, ...] = ()
        if isinstance(node, ast.Try):
            expressions = tuple(handler.type for handler in node.handlers if not _raises_again(handler))
        elif isinstance(node, ast.With):
            calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
            expressions = tuple(arg for call in calls if _last_name(call.func) == "suppress" for arg in call.args)
        if expressions and isinstance(node, (ast.Try, ast.With)):
            last = node.body[-1]
            found.append((node.body[0].lineno, last.end_lineno or last.lineno, expressions))
    return tuple(found)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def _last_name(node: ast.expr) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def _types(expression: ast.expr | None, frame: FrameType) -> Iterator[type[BaseException]]:
    if expression is None:
        yield BaseException
        return
    if isinstance(expression, (ast.Tuple, ast.List)):
        for each in expression.elts:
            yield from _types(each, frame)
        return
    value = _value(expression, frame)
    for each in value if isinstance(value, tuple) else (value,):
        if isinstance(each, type) and issubclass(each, BaseException):
            yield each


def _value(expression: ast.expr, frame: FrameType) -> Any:
    """Return the value of a name, or of an attribute of one, in that frame."""
    if isinstance(expression, ast.Attribute):
        return getattr(_value(expression.value, frame), expression.attr, None)
    if not isinstance(expression, ast.Name):
        return None
    names = (frame.f_locals, frame.f_globals, frame.f_builtins)
    return next((each[expression.id] for each in names if expression.id in each), None)
