"""Forks: the two branches of a test, the path on each, and how likely a usual call takes it.

Every construct that branches asks its test here, and enters each branch here: `if`, `and`, `or`, conditional expressions,
the filters of comprehensions, the cases of `match`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TypeVar, get_args

from tcready.schema.display_paths import is_installed
from tcready.schema.enums import Confidence
from tcready.static.domain.facts import Asker, Condition, DecidedBy
from tcready.static.domain.path_state import Fork, PathState
from tcready.static.domain.scope import Frame, last_name
from tcready.static.domain.values import External, FloatType, Value, is_open, options
from tcready.static.frontend.index import ModuleInfo
from tcready.static.frontend.source import nodes_in
from tcready.static.interp.interfaces import Component, Engine
from tcready.static.interp.match_lowering import test_text

ABOUT: tuple[DecidedBy, ...] = get_args(DecidedBy)
SETTINGS: tuple[DecidedBy, ...] = ("configuration", "unknown")
T = TypeVar("T")
OF_DEVICES = frozenset("device is_cuda is_cpu".split())
"""Attributes of a tensor with its device."""
OF_PROCESS = re.compile(r"is_\w+|device_count")
"""The last names of torch functions that read the machine or the state of the process."""
OF_LAYOUT = MappingProxyType(
    {"is_contiguous": True, "is_complex": False, "is_conj": False, "is_neg": False, "is_pinned": False}
)
"""Methods of a tensor with a result that only a caller decides, and that for a usual argument."""
MAX_TEST = 70
"""Characters of a test that a report shows."""


class Forks(Component):
    """Asks tests, and continues on their branches."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._texts: dict[ast.expr, str] = {}
        """The texts of tests in a report."""
        self._installed: dict[ModuleInfo, bool] = {}

    def ask(self, test: ast.expr, kind: str, frame: Frame, asker: Asker | None = None) -> Fork:
        """Evaluate a test, that of the statement `asker` or part of the current one; return its branches."""
        answer, about = self._ask(partial(self.engine.truth.test, test, kind, frame), frame, asker)
        return Fork.of(test, answer, about)

    def ask_value(self, operand: ast.expr, kind: str, frame: Frame) -> tuple[Value, Fork]:
        """Evaluate an operand that is tested; return its value and its branches."""
        value, about = self._ask(partial(self.engine.truth.truthy, operand, kind, frame), frame, None)
        return value, Fork.of(operand, self.engine.truth.answer(value), about)

    def _ask(self, evaluate: Callable[[], T], frame: Frame, asker: Asker | None) -> tuple[T, DecidedBy | None]:
        """Evaluate a test; return the result, and what decides this test alone."""
        around, before = frame.asker, frame.decided_by
        frame.asker, frame.decided_by = asker or around, None
        result = evaluate()
        about = frame.decided_by
        frame.asker, frame.decided_by = around, foremost((before, about))
        return result, about

    def enter(self, fork: Fork, taken: bool, frame: Frame) -> bool:
        """Continue `frame` on one branch: with its path, and narrowed to it. Return False, and change nothing, if the
        branch is not followed."""
        path = self._path(fork, taken, frame)
        if path is None:
            return False
        frame.path = path
        frame.env = self.engine.truth.narrow(fork.test, taken, frame)
        return True

    def _path(self, fork: Fork, taken: bool, frame: Frame) -> PathState | None:
        if fork.decided is not None:
            return frame.path if fork.decided == taken else None
        path = frame.path if fork.default in (None, taken) else self.pass_by(frame, fork.types)
        if path is None:
            return None
        sure: Confidence = "high"
        if fork.rare or taken in fork.raises:
            sure = "low"  # a usual call raises nothing
        elif fork.about == "size" or self.is_unforeseen(fork, frame):
            sure = "medium"  # who knows what sizes it is given, and what is switched on
        conditional = fork.is_open and taken not in (fork.usual, fork.first)
        several = fork.of_if and (fork.default is None or self.pass_by(frame, fork.types) is not None)
        return replace(
            path.at_most(sure),
            conditional=path.conditional or conditional,
            multi_path=path.multi_path or several,
            conditions=(*path.conditions, *self.conditions(fork, taken)),
        )

    def is_unforeseen(self, fork: Fork, frame: Frame) -> bool:
        """Return whether nothing in the source says what a test usually gives: it reads a setting, or the machine."""
        if fork.unforeseen is not None:
            return fork.unforeseen
        open_one = fork.decided is None and fork.usual is None
        return open_one and (fork.about in SETTINGS or self.reads_unknown_attribute(fork.test, frame))

    def pass_by(self, frame: Frame, types: tuple[FloatType, ...] = ()) -> PathState | None:
        """Return the path to code that the defaults skip; None to ignore it.

        A project's own options are meant to be used, so code that they enable is read, and shown on request. Most options
        of an installed package are never used, so code that they enable says nothing about the model at hand. Code that
        runs if the model computes in one of `types` is always followed: any model may be cast.
        """
        module = frame.module
        if module not in self._installed:
            self._installed[module] = is_installed(str(module.path))
        followed = types or self.engine.low or not self._installed[module]
        return frame.path.at_most("low") if followed else None

    def conditions(self, fork: Fork, taken: bool) -> tuple[Condition, ...]:
        """Return the conditions that hold on a branch; none if the source decides the test."""
        if fork.decided is not None or fork.about is None:
            return ()
        test, holds = fork.test, taken
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, holds = test.operand, not holds
        usual = None if fork.usual is None else fork.usual == taken
        if test not in self._texts:
            self._texts[test] = _on_one_line(test)
        return (Condition(self._texts[test], holds, fork.about, usual, fork.types if usual is False else ()),)

    def reads_unknown_attribute(self, test: ast.expr, frame: Frame) -> bool:
        """Return whether a test reads an attribute of a torch module that may have any value, where most switches are off
        by default; the device or the state of the process, which the machine decides; or the memory layout of a
        tensor."""
        if self.engine.untraced:
            return False
        nodes = nodes_in(test)
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        called = [node.func for node in calls]
        attributes = [node for node in nodes if isinstance(node, ast.Attribute) and node not in called]
        if any(node.attr in OF_DEVICES for node in attributes):
            return True
        bare = [node.func for node in calls if not (node.args or node.keywords)]
        names = {each: each.attr if isinstance(each, ast.Attribute) else last_name(each) for each in bare}
        asking = [each for each, last in names.items() if OF_PROCESS.fullmatch(last)]
        if any(isinstance(node, ast.Attribute) and node.attr in OF_LAYOUT for node in asking):
            return True
        with self.engine.outside_trace():
            functions = [self.engine.expressions.eval(node, frame) for node in asking]
            values = [self.engine.expressions.eval(node, frame) for node in attributes]
        if any(isinstance(each, External) and each.name.startswith("torch.") for each in functions):
            return True
        return any(is_open(option) for value in values for option in options(value))


def foremost(abouts: Iterable[DecidedBy | None]) -> DecidedBy | None:
    """Return the strongest of several origins of a decision; None if there is none."""
    known = [each for each in abouts if each is not None]
    return max(known, key=ABOUT.index) if known else None


def _on_one_line(node: ast.expr) -> str:
    text = " ".join(test_text(node).split())
    return text if len(text) <= MAX_TEST else text[: MAX_TEST - 3] + "..."
