"""The call graph of one analysis: what is reached from where, what a module runs, what a break does up the chain."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tcready.schema import BreakShape, Fate, FrameFate, display_path
from tcready.static.evaluate import Context
from tcready.static.facts import Enclosing
from tcready.static.index import FunctionInfo, Import
from tcready.static.interp import Interpreter
from tcready.static.scope import scoped
from tcready.static.values import Class, Sequence, Tensor, Unknown, Value, options
from tcready.static.values import Mapping as Dict

UNBROKEN: frozenset[Enclosing] = frozenset({"comprehension", "checkpoint"})
"""What stands around a break and splits the frame all the same: a comprehension is a function of its own."""
PROPERTIES = frozenset({"property", "cached_property", "functools.cached_property"})


def cause_of(enclosing: Iterable[Enclosing]) -> str | None:
    """The innermost statement around a place that makes the whole frame eager; None where a break splits it."""
    return next((word for word in reversed(tuple(enclosing)) if word not in UNBROKEN), None)


class CallGraph:
    """Contexts of the interpreter as nodes, calls as edges."""

    def __init__(self, interpreter: Interpreter, entries: Collection[int]) -> None:
        self._interpreter = interpreter
        self._contexts = interpreter.contexts
        self._entries = entries
        self._calls: dict[int, list[int]] = {}
        self._callers: dict[int, list[int]] = {}
        for caller, callee in interpreter.edges:
            self._calls.setdefault(caller, []).append(callee)
            self._callers.setdefault(callee, []).append(caller)
        self._methods: dict[int, list[int]] = {}
        """The contexts of each module's methods."""
        for context in self._contexts:
            if context.module is not None:
                self._methods.setdefault(context.module, []).append(context.number)
        self._told: dict[FunctionInfo, tuple[bool, bool, bool]] = {}
