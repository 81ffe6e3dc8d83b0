"""Every guard of a compiled frame that fails, where Dynamo's own check stops at the first."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import torch
from tcready.dynamic.worker.torch_internals import differences

RELATIONAL = frozenset(
    {"NO_TENSOR_ALIASING", "OBJECT_ALIASING", "STORAGE_OVERLAPPING", "SYMBOLIC_SHAPE_GUARD"}
)
"""Guards over several values: each keeps count between its calls, so it cannot be asked alone."""
LOCAL = re.compile(r"L\[\s*['\"](.*?)['\"]\s*\]")
"""A local of the guarded frame; Dynamo's own reasons name it without this."""


def every_guard_of(frame: Any, reasons: tuple[str, ...]) -> tuple[str, ...]:
    """The reasons that Dynamo logged, and behind each those of all other guards of its entry that fail as well.

    The entries' guards are asked once more, after the conversion: it runs nothing of the frame, so the locals
    are those of the check. A reason of one guard is spelled as Dynamo spells it, with the source line it guards
    behind a `#`.
    """
    if not differences.has("cache_entries"):
        return reasons
    # Nothing here may end the user's run: where what is private is otherwise, Dynamo's own reasons stand.
    with contextlib.suppress(Exception):
        entries = torch._C._dynamo.eval_frame._debug_get_cache_entry_list(frame.f_code)
        managers = {str(entry.compile_id): entry.guard_manager for entry in entries}
        by_text: dict[str, str] = {}
        for reason in reasons:
            name, _, first = reason.partition(": ")
            by_text.setdefault(_spelled(reason), reason)
            for text in _failing(managers[name], frame.f_locals) if name in managers else ():
                other = f"{name}: {text}"
                # Of two that say the same, the one that names its source line.
                named = "\n" not in first and _spelled(other) == _spelled(reason)
                if named or _spelled(other) not in by_text:
                    by_text[_spelled(other)] = other
        return tuple(by_text.values())
    return reasons


def _spelled(reason: str) -> str:
    """A reason without the source line behind it."""
    return re.split(r"\s{2,}#", reason.split("\n")[0])[0].strip()


def _failing(manager: Any, values: dict[str, Any]) -> Iterator[str]:
    """Every guard of one entry that fails for the locals `values`, in one line each."""
    root = getattr(manager, "root", None)
    if root is None or manager.global_scope is None:  # an entry that was invalidated
        return
    scope = {"L": values, "G": manager.global_scope["G"], **(manager.closure_vars or {})}
    known = dict(manager.global_scope)
    for node, path in _guarded(root, ()):
        for guard in node.get_leaf_guards():
            kind = type(guard).__name__
            if kind in RELATIONAL:
                continue
            try:
                value = values if node is root else eval(node.get_source(), known, scope)  # noqa: S307
                holds = guard(value)
            except Exception:  # noqa: S112  the value is gone, which an earlier guard says
                continue
            if not holds:
                yield from _words(guard, kind, root, path, known, scope)
    for guard in root.get_epilogue_lambda_guards():
        with contextlib.suppress(Exception):
            if not guard(values):
                yield from _words(guard, "", root, (), known, scope)


def _guarded(node: Any, above: tuple[str, ...]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Every node of a tree of guards, with the sources of the nodes down to it."""
    path = (*above, node.get_source())
    yield node, path
    if hasattr(node, "get_key_value_managers"):
        for pair in node.get_key_value_managers().values():
            for child in pair:
                if child is not None:
                    yield from _guarded(child, path)
    for child in node.get_child_managers():
        yield from _guarded(child, path)


def _words(
    guard: Any, kind: str, root: Any, path: tuple[str, ...], known: dict[str, Any], scope: dict[str, Any]
) -> Iterator[str]:
    """What one failed guard says, a line for each part of it that fails."""
    parts = [str(part) for part in guard.verbose_code_parts()]
    if kind == "TENSOR_MATCH" and parts:
        # Its own text is the whole check; which property differs, a check of this branch alone tells.
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
    """Whether one part of a guard holds, evaluated as Dynamo does it for its own log."""
    try:
        return eval(part, known, scope) is not False  # noqa: S307
    except Exception:
        return True
