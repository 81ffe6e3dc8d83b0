"""The roles of optional arguments, according to the code that runs only with or without them.

An argument is a target if a loss is computed only with it: a model is called without it to predict. It is an override if
a value is made only without it: it is usually left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from tcready.static.domain.scope import Frame, positional
from tcready.static.domain.values import External, ExternalInstance, Function, Instance, Value, options
from tcready.static.frontend.index import FunctionInfo
from tcready.static.frontend.source import nodes_in
from tcready.static.interp.interfaces import Engine

Purpose: TypeAlias = Literal["target", "override"]

MAX_DEPTH = 4
"""The depth of calls to which a function is read."""
READ = "_purposes"
"""The attribute of a function that stores the result."""
WORDS = ("loss", "criterion")
"""Parts of the names of functions that compute a loss; the tables list torch's own losses without them."""


class ArgumentRoles:
    """The roles of the arguments of functions."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def parameters_for(self, purpose: Purpose, info: FunctionInfo, owner: Instance | None) -> frozenset[str]:
        """Return the parameters of a function with the default None and that role."""
        with self._engine.outside_trace():
            return _Body(info, owner, self._engine, MAX_DEPTH).parameters_for(purpose)


@dataclass(frozen=True)
class _Gate:
    """A test of what is given: the names, what runs if they are given, and what runs if they are not."""

    names: frozenset[str]
    given: list[ast.AST]
    absent: list[ast.AST]

    @cached_property
    def calls_if_given(self) -> tuple[ast.Call, ...]:
        return _calls(self.given)

    @cached_property
    def calls_if_absent(self) -> tuple[ast.Call, ...]:
        return _calls(self.absent)

    @cached_property
    def assigned_if_absent(self) -> frozenset[str]:
        return frozenset(_assigned(self.absent))


@dataclass(frozen=True)
class _Read:
    """The roles according to a function's own source."""

    body: tuple[ast.AST, ...]
    optional: frozenset[str]
    gates: tuple[_Gate, ...]
    needed_in_training: frozenset[str]
    calls: tuple[ast.Call, ...]

    @cached_property
    def calls_in_body(self) -> tuple[ast.Call, ...]:
        """Without those of decorators and defaults."""
        return _calls(self.body)

    @classmethod
    def of(cls, info: FunctionInfo) -> _Read:
        """Return the roles in a function, read once for each tree."""
        known = vars(info).get(READ)
        if isinstance(known, cls):
            return known
        read = vars(info)[READ] = cls._read(info)
        return read

    @classmethod
    def _read(cls, info: FunctionInfo) -> _Read:
        body = (info.node.body,) if isinstance(info.node, ast.Lambda) else (*info.node.body,)
        optional = frozenset(_optional(info))
        if not optional:
            return cls(body, optional, (), frozenset(), ())
        calls = tuple(node for node in info.nodes if isinstance(node, ast.Call))
        gates = tuple(gate for gate in _gates(info.nodes) if gate.names & optional)
        return cls(body, optional, gates, frozenset(_needed_in_training(info.nodes)), calls)


class _Body:
    """One function, as it is read for what its arguments are there for."""

    def __init__(self, info: FunctionInfo, owner: Value | None, engine: Engine, depth: int) -> None:
        self._info, self._engine, self._depth = info, engine, depth
        self._parameters = [arg.arg for arg, _ in positional(info.node.args)]
        env: dict[str, Value] = {}
        if owner is not None and self._parameters:
            env[self._parameters.pop(0)] = owner
        self._frame = Frame(info.module, info, -1, env)

    def parameters_for(self, purpose: Purpose) -> frozenset[str]:
        """Return the optional parameters with that role, including those passed on to it."""
        if not self._depth:
            return frozenset()
        read = _Read.of(self._info)
        optional = read.optional
        found: set[str] = set()
        if purpose == "target":
            found.update(read.needed_in_training)
        for gate in read.gates:
            wanted = (optional & gate.names) - found
            if wanted and purpose == "override":
                found |= wanted & gate.assigned_if_absent
            elif wanted and self._have_loss(gate.calls_if_given) and not self._have_loss(gate.calls_if_absent):
                found |= wanted
        for call in read.calls:
            found.update(self._handed_on(call, optional - found, purpose))
        return optional & found

    def computes_loss(self) -> bool:
        """Return whether a loss is computed anywhere in it."""
        return self._depth > 0 and self._have_loss(_Read.of(self._info).calls_in_body)

    def _have_loss(self, calls: Iterable[ast.Call]) -> bool:
        return any(self._is_loss(call.func) for call in calls)

    def _is_loss(self, called: ast.expr) -> bool:
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        return _names_loss(name) or any(map(self._gives_loss, self._meant(called)))

    def _gives_loss(self, value: Value) -> bool:
        if isinstance(value, (External, ExternalInstance)):
            return _names_loss(value.name) or self._engine.operations.is_loss(value.name)
        body = self._callee(value)
        return body is not None and body.computes_loss()

    def _handed_on(self, call: ast.Call, names: frozenset[str], purpose: Purpose) -> Iterator[str]:
        """Return those of these parameters that a call passes unchanged to a parameter of that role."""
        given: list[tuple[int | str | None, ast.expr]] = [*enumerate(call.args)]
        given += [(keyword.arg, keyword.value) for keyword in call.keywords]
        own = [(place, n.id) for place, n in given if isinstance(n, ast.Name) and n.id in names]
        for body in map(self._callee, self._meant(call.func)) if own else ():
            if body is not None:
                places: dict[int | str | None, str] = dict(enumerate(body._parameters))
                found = body.parameters_for(purpose)
                yield from (name for place, name in own if places.get(place, place) in found)

    def _meant(self, called: ast.expr) -> Iterator[Value]:
        """Return the callee if it is a name or an attribute of one; a method by its definition, whatever decorates it."""
        root = called
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name):
            return
        if isinstance(called, ast.Attribute):
            for owner in options(self._engine.expressions.eval(called.value, self._frame)):
                if isinstance(owner, Instance):
                    yield from (Function(f, owner) for f in self._engine.classes.mro(owner.cls).functions(called.attr))
        yield from options(self._engine.expressions.eval(called, self._frame))

    def _callee(self, value: Value) -> _Body | None:
        if isinstance(value, Function):
            return _Body(value.info, value.bound, self._engine, self._depth - 1)
        if isinstance(value, Instance):
            forward = self._engine.classes.mro(value.cls).functions("forward")
            if forward:
                return _Body(forward[0], value, self._engine, self._depth - 1)
        return None


def _names_loss(name: str) -> bool:
    return any(word in name.rpartition(".")[2].lower() for word in WORDS)


def _calls(nodes: Iterable[ast.AST]) -> tuple[ast.Call, ...]:
    return tuple(node for each in nodes for node in nodes_in(each) if isinstance(node, ast.Call))


def _optional(info: FunctionInfo) -> Iterator[str]:
    spec = info.node.args
    for arg, default in (*positional(spec), *zip(spec.kwonlyargs, spec.kw_defaults, strict=True)):
        if default is not None and _is_none(default):
            yield arg.arg


def _assigned(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names that are assigned somewhere in them."""
    for each in nodes:
        for node in nodes_in(each):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _gates(nodes: Iterable[ast.AST]) -> Iterator[_Gate]:
    """Yield the tests of arguments in them."""
    for node in nodes:
        if isinstance(node, ast.IfExp):
            yield _Gate(frozenset(_given(node.test, True)), [node.body], [node.orelse])
            yield _Gate(frozenset(_given(node.test, False)), [node.orelse], [node.body])
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.IfExp):
            for holds, absent in ((True, node.value.orelse), (False, node.value.body)):
                if not _is_none(absent):
                    yield _Gate(frozenset(_given(node.value.test, holds)), [], [*node.targets])
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.BoolOp):
            first = node.value.values[0]
            if isinstance(node.value.op, ast.Or) and isinstance(first, ast.Name):
                yield _Gate(frozenset({first.id}), [], [*node.targets])
        blocks: list[object] = [getattr(node, "body", None), getattr(node, "orelse", None)]
        for block in (each for each in blocks if isinstance(each, list)):
            for index, each in enumerate(block):
                if isinstance(each, ast.If):
                    after = block[index + 1 :] if isinstance(each.body[-1], (ast.Return, ast.Raise)) else []
                    yield _Gate(frozenset(_given(each.test, True)), [*each.body], [*each.orelse, *after])
                    yield _Gate(frozenset(_given(each.test, False)), [*each.orelse, *after], [*each.body])


def _given(test: ast.expr, holds: bool) -> Iterator[str]:
    """Yield the names that are not None if a test holds, or if it does not."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _given(test.operand, not holds)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if holds else ast.Or):
        for each in test.values:
            yield from _given(each, holds)
    elif isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and len(test.ops) == 1:
        if _is_none(test.comparators[0]) and isinstance(test.ops[0], ast.IsNot if holds else ast.Is):
            yield test.left.id


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _needed_in_training(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """`if self.training: if targets is None: raise`: what only training cannot do without."""
    for node in nodes:
        if isinstance(node, ast.If) and any(map(_reads_training, nodes_in(node.test))):
            for gate in _gates(nodes_in(ast.Module([node], []))):
                if any(map(_refuses, gate.absent)):
                    yield from gate.names


def _refuses(statement: ast.AST) -> bool:
    """`raise`, `assert False`, `torch._assert(False, "...")`."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        args = statement.value.args[:1]
        return bool(args) and isinstance(args[0], ast.Constant) and args[0].value is False
    if isinstance(statement, ast.Assert):
        return isinstance(statement.test, ast.Constant) and not statement.test.value
    return isinstance(statement, ast.Raise)


def _reads_training(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "training"
