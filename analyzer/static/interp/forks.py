"""Forks: the two branches of a test, the path on each, and how likely a usual call takes it.

Every construct that branches asks its test here, and enters each branch here: `if`, `and`, `or`, conditional expressions,
the filters of comprehensions, the cases of `match`.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TypeVar, get_args

from tcready.schema.display_paths import is_installed
from tcready.static.domain import priors
from tcready.static.domain.facts import Asker, Condition, DecidedBy
from tcready.static.domain.path_state import Fork, PathState
from tcready.static.domain.priors import Prior
from tcready.static.domain.scope import Frame, last_name, narrowing_key
from tcready.static.domain.values import (
    NONE,
    UNKNOWN,
    Const,
    External,
    FloatType,
    Instance,
    Plain,
    Value,
    is_open,
    likely,
    options,
)
from tcready.static.frontend.index import ModuleInfo
from tcready.static.frontend.source import nodes_in
from tcready.static.interp.interfaces import Component, Engine
from tcready.static.interp.match_lowering import Fits, test_text, values_test

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
        self._filling: dict[ast.If, bool] = {}
        self._last: dict[ast.AST, frozenset[ast.If]] = {}
        """The last tests of a function before it raises."""

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
        conditional = fork.is_open and taken not in (fork.usual, fork.first)
        several = fork.default is None or self.pass_by(frame, fork.types) is not None
        return replace(
            path.against(self._prior(fork, taken, frame)),
            conditional=path.conditional or conditional,
            multi_path=path.multi_path or several,
            conditions=(*path.conditions, *self.conditions(fork, taken)),
        )

    def _prior(self, fork: Fork, taken: bool, frame: Frame) -> Prior | None:
        """Return what makes a branch of an undecided test unlikely; None if nothing does."""
        if taken in fork.raises:
            return priors.RAISES
        if fork.rare:
            return priors.CASE
        if fork.about == "size":
            return priors.SIZE
        if fork.unforeseen is None and fork.usual is None and fork.about in SETTINGS:
            return priors.SETTING
        unforeseen = fork.unforeseen
        if unforeseen is None:
            unforeseen = fork.usual is None and self._reads_unknown_attribute(fork.test, frame)
        return priors.UNFORESEEN if unforeseen else None

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
        return frame.path.against(priors.DEFAULT) if followed else None

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

    def _reads_unknown_attribute(self, test: ast.expr, frame: Frame) -> bool:
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

    def ask_if(self, node: ast.If, frame: Frame) -> Fork:
        """Evaluate the test of an `if`; return its branches."""
        fork = self.ask(node.test, "if", frame, node)
        arms = ((True, node.body), (False, node.orelse))
        raises = tuple(taken for taken, body in arms if gives_up(body))
        if fork.decided is not None:
            return replace(fork, raises=raises)
        # below a setting is no less sure here than beside it
        unforeseen = fork.usual is None and self._reads_unknown_attribute(node.test, frame)
        fork = replace(fork, raises=raises, unforeseen=unforeseen)
        goes_on = self._goes_on(node, frame)
        single = (
            fork.is_open and goes_on is None and _is_single_case(node.test) and not self._is_walked(node.test, frame)
        )
        fills = fork.usual is None and self._fills_what_is_missing(node)
        default = fork.default
        if single and not node.orelse and not self._sets_what_is_missing(node.body, frame):
            default = False
        if default is None and not self.engine.untraced and _is_outgrown(node):
            default = False
        if default in raises:
            default = None  # a default that raises is none
        if default is not None:
            return replace(fork, default=default)
        # a first call finds nothing there, and a usual call raises nothing
        usual = goes_on if goes_on is not None else True if fills else fork.usual
        # of what a constructor chooses from, each is as likely
        rare = single and not self.engine.untraced and _arms_by_literal(node) > 2
        fork = replace(fork, default=None, usual=usual, rare=rare)
        return replace(fork, first=self._in_first_call(node.test, frame)) if fork.is_open else fork

    def _fills_what_is_missing(self, node: ast.If) -> bool:
        """Return whether state is made unless it exists: `if self.cache.get(key) is None: ... self.cache[key] = ...`."""
        if node not in self._filling:
            place = _missing_place(node.test)
            self._filling[node] = place is not None and any(
                isinstance(inner, (ast.Attribute, ast.Subscript))
                and isinstance(inner.ctx, ast.Store)
                and ast.unparse(inner) == place
                for inner in ast.walk(node)
            )
        return self._filling[node]

    def _sets_what_is_missing(self, body: list[ast.stmt], frame: Frame) -> bool:
        """Return whether an object under construction gets an attribute here that it lacks: one of the branches that set
        that attribute runs, however unlikely each is."""
        if not self.engine.untraced:
            return False
        nodes = (inner for statement in body for inner in ast.walk(statement))
        stored = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
        owners = (
            (self.engine.names.resolve_name(place.value.id, frame), place.attr)
            for place in stored
            if isinstance(place.value, ast.Name)
        )
        return any(
            isinstance(owner, Instance) and name not in self.engine.heap[owner].attributes for owner, name in owners
        )

    def is_filled_before(self, node: ast.If, frame: Frame) -> bool:
        """Return whether a test reads state of the whole process that is made unless it exists, below the test or (if the
        function returns when it exists) after it. The first use makes it permanently for all models, mostly while one is
        built or called without being compiled."""
        if self.engine.untraced or node.orelse or frame.function is None:
            return False
        missing = place_if_missing(node.test)
        place = _place_if_present(node.test) if missing is None else missing
        if missing is None and not isinstance(node.body[-1], ast.Return):
            return False
        if missing is not None and not isinstance(node.body[-1], (ast.Assign, ast.AnnAssign)):
            return False
        nodes = frame.function.nodes if missing is None else ast.walk(node)
        return self._is_process_global(place, frame) and any(
            isinstance(inner, (ast.Name, ast.Attribute))
            and isinstance(inner.ctx, ast.Store)
            and place is not None
            and ast.unparse(inner) == ast.unparse(place)
            for inner in nodes
        )

    def _is_process_global(self, place: ast.expr | None, frame: Frame) -> bool:
        """Return whether it is a global of the file, a variable that a function stores for its inner one (`print_once =
        once(print)`), or an attribute of an object made at import."""
        if isinstance(place, ast.Name):
            return frame.outside.get(place.id) in ("global", "nonlocal")
        if not isinstance(place, ast.Attribute) or not isinstance(place.value, ast.Name):
            return False
        owner = self.engine.names.resolve_name(place.value.id, frame)
        return all(isinstance(v, Instance) and self.engine.heap[v].process_global for v in options(owner))

    def _goes_on(self, node: ast.If, frame: Frame) -> bool | None:
        """Return the result of a test if the other branch only raises; None if neither does, or both."""
        raises = gives_up(node.body), gives_up(node.orelse)
        if raises == (False, False) and not node.orelse and _leaves(node.body) and frame.function is not None:
            whole = frame.function.node
            if whole not in self._last:
                body = [] if isinstance(whole, ast.Lambda) else whole.body
                self._last[whole] = frozenset(_last_before_raise(body))
            raises = False, node in self._last[whole]
        return None if raises[0] == raises[1] else raises[1]

    def _is_walked(self, test: ast.expr, frame: Frame) -> bool:
        """Return whether a test compares with one of the constants that a loop of this function goes through: each has
        its turn."""
        left = test.left if isinstance(test, ast.Compare) else None
        if not isinstance(left, ast.Name) or frame.function is None:
            return False
        if not all(isinstance(v, Plain) and v.origin == "constant" for v in options(frame.env.get(left.id, NONE))):
            return False
        return any(
            isinstance(inner, ast.Name) and inner.id == left.id
            for loop in frame.function.nodes
            if isinstance(loop, (ast.For, ast.comprehension))
            for inner in ast.walk(loop.target)
        )

    def _in_first_call(self, test: ast.expr, frame: Frame) -> bool | None:
        """Return the result of a test in the first call, if it reads numbers that the constructor sets and methods
        change; else None."""
        with self.engine.outside_trace():
            first = {
                key: number
                for node in nodes_in(test)
                if isinstance(node, ast.Attribute)
                and (key := narrowing_key(node)) is not None
                and key not in frame.env
                and (number := self._set_by_constructor(node, frame)) is not None
            }
            if not first:
                return None
            env, frame.env = frame.env, {**frame.env, **first}
            answer = self.engine.truth.answer(self.engine.expressions.eval(test, frame))
            frame.env = env
        return answer.likely

    def _set_by_constructor(self, node: ast.Attribute, frame: Frame) -> Const | None:
        """Return the number that a constructor gives an attribute which other methods change."""
        owner = self.engine.expressions.eval(node.value, frame)
        if not isinstance(owner, Instance) or not self.engine.heap[owner].escaping:
            return None
        value = likely(self.engine.heap[owner].attributes.get(node.attr, UNKNOWN))
        changed = node.attr in self.engine.classes.reassigned_attributes(self.engine.classes.mro(owner.cls))
        if not changed or not isinstance(value, Const) or type(value.value) not in (int, float):
            return None
        return value


def foremost(abouts: Iterable[DecidedBy | None]) -> DecidedBy | None:
    """Return the strongest of several origins of a decision; None if there is none."""
    known = [each for each in abouts if each is not None]
    return max(known, key=ABOUT.index) if known else None


def _on_one_line(node: ast.expr) -> str:
    text = " ".join(test_text(node).split())
    return text if len(text) <= MAX_TEST else text[: MAX_TEST - 3] + "..."


def _is_single_case(test: ast.expr) -> bool:
    """Return whether it is `x == "name"`, `"name" in x`, `x.dtype == torch.float16` (or a conjunction with one): one case
    of many."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(map(_is_single_case, test.values))
    if isinstance(test, Fits):
        plain = values_test(test)
        return plain is not None and _is_single_case(plain)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    return isinstance(test.ops[0], (ast.Eq, ast.In)) and any(
        _is_text(side) for side in (test.left, test.comparators[0])
    )


def _is_outgrown(node: ast.If) -> bool:
    """Return whether it is `if length > self.size: self.grow(length)`: a buffer made for the usual case is made anew."""
    test = node.test
    conditions = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return not node.orelse and any(map(_compares_with_self, conditions)) and all(map(_writes_self, node.body))


def _compares_with_self(test: ast.expr) -> bool:
    """Return whether it is `length > self.size` or similar: one side is the object's."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    ordered = isinstance(test.ops[0], (ast.Gt, ast.GtE, ast.Lt, ast.LtE))
    return ordered and _is_of_self(test.left) != _is_of_self(test.comparators[0])


def _is_of_self(node: ast.expr) -> bool:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id == "self"


def _writes_self(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call) and _is_of_self(node.value)
    return isinstance(node, ast.Assign) and all(isinstance(t, ast.Attribute) and _is_of_self(t) for t in node.targets)


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return bool(node.elts) and all(map(_is_text, node.elts))
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def place_if_missing(test: ast.expr) -> ast.expr | None:
    """Return the expression that `not place` or `place is None` tests."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Is):
        other = test.comparators[0]
        return test.left if isinstance(other, ast.Constant) and other.value is None else None
    return None


def _place_if_present(test: ast.expr) -> ast.expr | None:
    """Return the expression that `place` or `place is not None` tests."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.IsNot):
        other = test.comparators[0]
        return test.left if isinstance(other, ast.Constant) and other.value is None else None
    return test if isinstance(test, (ast.Name, ast.Attribute)) else None


def _missing_place(test: ast.expr) -> str | None:
    """Return the attribute or item that a test requires to be missing, as text; None for another test."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.NotIn):
        return f"{ast.unparse(test.comparators[0])}[{ast.unparse(test.left)}]"
    place = place_if_missing(test)
    if isinstance(place, ast.Call) and isinstance(place.func, ast.Attribute) and place.func.attr == "get":
        return f"{ast.unparse(place.func.value)}[{ast.unparse(place.args[0])}]" if place.args else None
    return ast.unparse(place) if isinstance(place, (ast.Attribute, ast.Subscript)) else None


def _arms_by_literal(node: ast.If) -> int:
    """Return the number of branches of an `if`/`elif` chain that compare with literals; 1 if it is no such chain."""
    return 1 + sum(1 for _ in itertools.takewhile(lambda each: _is_single_case(each.test), _chain(node)))


def _chain(node: ast.If) -> Iterator[ast.If]:
    """Yield an `if` and its `elif`s."""
    yield node
    while len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        node = node.orelse[0]
        yield node


def _last_before_raise(body: list[ast.stmt]) -> Iterator[ast.If]:
    """Return the last test of each chain of which every branch leaves the function, and after which it raises."""
    for statement, after in itertools.pairwise(body):
        if isinstance(statement, ast.If) and isinstance(after, ast.Raise):
            tests = [*_chain(statement)]
            if not tests[-1].orelse and all(_leaves(test.body) for test in tests):
                yield tests[-1]


def _leaves(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], (ast.Return, ast.Raise))


def gives_up(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Raise)
