"""Read the guards of a compiled frame: all that fail, while Dynamo's own check stops at the first; and the cost of
each."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from tcready.dynamic.worker.torch_internals import version_differences

RELATIONAL = frozenset({"NO_TENSOR_ALIASING", "OBJECT_ALIASING", "STORAGE_OVERLAPPING", "SYMBOLIC_SHAPE_GUARD"})
"""Guards over several values: each counts between its calls, so it cannot be checked alone."""
LOCAL = re.compile(r"L\[\s*['\"](.*?)['\"]\s*\]")
"""A local of the guarded frame; Dynamo's own reasons name it without this."""
IN_PYTHON = frozenset({"LAMBDA_GUARD"})
"""Kinds that call a Python function; the others are checked in C++."""
TIMED = 200
"""The number of calls of a guard that are timed together."""
LONGEST = 80
"""The maximum length of the text of a guard."""
MOST_NAMED = 3
"""The number of guards that are named as the most expensive ones."""


@dataclass(frozen=True)
class GuardCosts:
    """The guards of one entry of Dynamo's cache."""

    number: int
    in_python: int
    """The number of guards that call a Python function."""
    expensive: tuple[tuple[str, float], ...]
    """The most expensive ones, each with its text and the seconds that it takes beyond the cheapest."""
    changing_floats: int
    """Python floats that a graph of any entry takes as inputs, because their values changed between calls."""


def guard_costs(code: CodeType, values: Mapping[str, Any]) -> GuardCosts | None:
    """Count and time the guards of the first cache entry of `code` that holds for the locals `values`; None if there is
    none, or this torch does not show them. It has to be called in the modes (such as no_grad) of a compiled call."""
    if not version_differences.has("cache_entries"):
        return None
    with contextlib.suppress(Exception):  # private names may change: a bench does not fail because of them
        entries = torch._C._dynamo.eval_frame._debug_get_cache_entry_list(code)
        managers = [entry.guard_manager for entry in entries]
        managers = [each for each in managers if getattr(each, "root", None) and each.global_scope]
        floats = {name for each in managers for name in _changing_floats(each, dict(values))}
        for manager in managers:
            if manager.root.check(dict(values)):
                return _costs(manager, dict(values), len(floats))
    return None


def _scopes(manager: Any, values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The globals and the locals in which sources of guards are evaluated, for the locals `values` of the frame."""
    scope = {"L": values, "G": manager.global_scope["G"], **(manager.closure_vars or {})}
    return dict(manager.global_scope), scope


def _value_of(node: Any, root: Any, known: dict[str, Any], scope: dict[str, Any]) -> Any:
    """Return the value that the guards of a node check. Raises what evaluating its source raises."""
    return scope["L"] if node is root else eval(node.get_source(), known, scope)  # noqa: S307


def _costs(manager: Any, values: dict[str, Any], changing_floats: int) -> GuardCosts:
    root = manager.root
    known, scope = _scopes(manager, values)
    number = in_python = 0
    found: list[tuple[str, float]] = []
    every = [(node, guard) for node, _ in _iter_guarded(root, ()) for guard in node.get_leaf_guards()]
    for node, guard in [*every, *((root, guard) for guard in root.get_epilogue_lambda_guards())]:
        kind = type(guard).__name__
        number += 1
        in_python += kind in IN_PYTHON
        if kind in RELATIONAL:
            continue
        with contextlib.suppress(Exception):  # its value cannot be had: it counts, and is not timed
            value = _value_of(node, root, known, scope)
            found.append((_text_of(guard), _seconds_of(guard, value)))
    least = min((seconds for _, seconds in found), default=0.0)
    found.sort(key=lambda each: -each[1])
    expensive = tuple((text, seconds - least) for text, seconds in found[:MOST_NAMED] if seconds > 2 * least)
    return GuardCosts(number, in_python, expensive, changing_floats)


def _changing_floats(manager: Any, values: dict[str, Any]) -> Iterator[str]:
    """Yield the sources of floats with only a guard of their type."""
    known, scope = _scopes(manager, values)
    for node, _ in _iter_guarded(manager.root, ()):
        kinds = {type(guard).__name__ for guard in node.get_leaf_guards()}
        if "TYPE_MATCH" in kinds and "EQUALS_MATCH" not in kinds:
            with contextlib.suppress(Exception):  # the value does not exist outside the check
                if isinstance(_value_of(node, manager.root, known, scope), float):
                    yield node.get_source()


def _seconds_of(guard: Any, value: Any) -> float:
    times = []
    for _ in range(3):
        began = time.perf_counter()
        for _ in range(TIMED):
            guard(value)
        times.append((time.perf_counter() - began) / TIMED)
    return min(times)


def _text_of(guard: Any) -> str:
    """Return the text of the check, with its source line after a `#`."""
    parts = [str(part) for part in guard.verbose_code_parts()]
    text, hash_sign, line = (parts[0] if parts else type(guard).__name__).partition("  # ")
    text = LOCAL.sub(r"\1", " ".join(text.split()))
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    line = re.sub(r"\s+\(HINT: .*$", "", " ".join(line.split()))
    return f"{text}  # {line}" if hash_sign else text


def every_guard_of(frame: Any, reasons: tuple[str, ...]) -> tuple[str, ...]:
    """Return the reasons that Dynamo logged, each followed by those of all other guards of its entry that fail as well.

    The entries' guards are checked once more, after the conversion: it runs nothing of the frame, so the locals are those
    of the check. The reason of one guard has the format of Dynamo, with the source line that it guards after a `#`.
    """
    if not version_differences.has("cache_entries"):
        return reasons
    # Nothing here may end the user's run: if private names changed, Dynamo's own reasons are used.
    with contextlib.suppress(Exception):
        entries = torch._C._dynamo.eval_frame._debug_get_cache_entry_list(frame.f_code)
        managers = {str(entry.compile_id): entry.guard_manager for entry in entries}
        by_text: dict[str, str] = {}
        for reason in reasons:
            name, _, first = reason.partition(": ")
            by_text.setdefault(_without_source_line(reason), reason)
            for text in _failing_guards(managers[name], frame.f_locals) if name in managers else ():
                other = f"{name}: {text}"
                # Of two that say the same, the one that names its source line.
                named = "\n" not in first and _without_source_line(other) == _without_source_line(reason)
                if named or _without_source_line(other) not in by_text:
                    by_text[_without_source_line(other)] = other
        return tuple(by_text.values())
    return reasons


def _without_source_line(reason: str) -> str:
    """Return a reason without the source line after it."""
    return re.split(r"\s{2,}#", reason.split("\n")[0])[0].strip()


def _failing_guards(manager: Any, values: dict[str, Any]) -> Iterator[str]:
    """Return every guard of one entry that fails for the locals `values`, in one line each."""
    root = getattr(manager, "root", None)
    if root is None or manager.global_scope is None:  # an entry that was invalidated
        return
    known, scope = _scopes(manager, values)
    for node, path in _iter_guarded(root, ()):
        for guard in node.get_leaf_guards():
            kind = type(guard).__name__
            if kind in RELATIONAL:
                continue
            try:
                holds = guard(_value_of(node, root, known, scope))
            except Exception:  # noqa: S112  the value is gone, which an earlier guard says
                continue
            if not holds:
                yield from _words(guard, kind, root, path, known, scope)
    for guard in root.get_epilogue_lambda_guards():
        with contextlib.suppress(Exception):
            if not guard(values):
                yield from _words(guard, "", root, (), known, scope)


def _iter_guarded(node: Any, above: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield every node of a tree of guards, with the sources of the nodes down to it."""
    path = (*above, node.get_source())
    yield node, path
    if hasattr(node, "get_key_value_managers"):
        for pair in node.get_key_value_managers().values():
            for child in pair:
                if child is not None:
                    yield from _iter_guarded(child, path)
    for child in node.get_child_managers():
        yield from _iter_guarded(child, path)


def _words(
    guard: Any, kind: str, root: Any, path: tuple[str, ...], known: dict[str, Any], scope: dict[str, Any]
) -> Iterator[str]:
    """Yield the text of a failed guard, a line for each part of it that fails."""
    parts = [str(part) for part in guard.verbose_code_parts()]
    if kind == "TENSOR_MATCH" and parts:
        # Its own text is the whole check; only a check of this branch shows which property differs.
        branch = root.clone_manager(lambda node: node.get_source() in path)
        found = branch.check_verbose(scope["L"])
        comment = re.search(r"\s{2}# .*$", parts[0], re.DOTALL)
        if not found.result and len(found.verbose_code_parts) == 1:
            parts = [found.verbose_code_parts[0] + (comment[0] if comment else "")]
    if len(parts) > 1:
        parts = [part for part in parts if not _holds(part, known, scope)]
    for part in parts:
        yield LOCAL.sub(r"\1", " ".join(part.split("\n")))


def _holds(part: str, known: dict[str, Any], scope: dict[str, Any]) -> bool:
    """Return whether one part of a guard holds, evaluated as Dynamo does it for its own log."""
    try:
        return eval(part, known, scope) is not False  # noqa: S307
    except Exception:
        return True
