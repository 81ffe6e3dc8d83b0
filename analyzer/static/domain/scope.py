"""Scopes while a function is interpreted: its variables, its results, and the blocks around the current place."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import NamedTuple, TypeAlias

from tcready.static.domain.facts import Asker, DecidedBy, Where
from tcready.static.domain.path_state import START, PathState
from tcready.static.domain.priors import Prior
from tcready.static.domain.values import Plain, Tensor, Value, is_captured, join
from tcready.static.frontend.index import FunctionInfo, ModuleInfo
from tcready.static.frontend.source import nodes_in

Env: TypeAlias = "dict[str, Value]"
SAME = "_same_objects"
"""The attribute of a function that holds which of its names are one object."""


class _OnPath:
    """Sets the path of a frame in a context, and restores it on leaving; the variables too, if the context is that of an
    expression: all but those that a `:=` in it binds."""

    __slots__ = ("_after", "_before", "_env", "_frame", "_node")

    def __init__(self, frame: Frame, after: PathState, node: ast.expr | None) -> None:
        self._frame, self._after, self._node = frame, after, node
        self._before, self._env = frame.path, frame.env

    def __enter__(self) -> None:
        self._frame.path = self._after

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._frame.path = self._before
        if self._node is not None:
            self._frame.env = with_walrus(self._env, self._node, self._frame)


class ReturnedValue(NamedTuple):
    """The value of a `return`, and whether a usual call reaches it."""

    value: Value
    usual: bool


@dataclass(eq=False)
class Frame:
    """One interpretation of one function; `env` is replaced as branches split and join."""

    module: ModuleInfo
    function: FunctionInfo | None
    context: int
    env: Env
    path: PathState = START
    parent: Frame | None = None
    """The enclosing function's frame, for a nested function."""
    key: int = 0
    returned: list[ReturnedValue] = field(default_factory=list)
    filled: tuple[str, ...] = ()
    """Parameters that are tables of the caller: the caller sees the items added to them."""
    ends: list[Env] = field(default_factory=list)
    """Their values at each end of the function."""
    yielded: list[Value] = field(default_factory=list)
    left: list[Env] = field(default_factory=list)
    """Environments at each `return` of a function that has defined others, which may capture them."""
    exits: list[Env] = field(default_factory=list)
    """Environments at `break` and `continue` of the innermost loop."""
    caught: bool = False
    """Inside a `try` of this function after which it continues if something is raised."""
    decided_by: DecidedBy | None = None
    """The origin of the current test's result; None as long as the source decides it."""
    asker: Asker | None = None
    """The statement with the current test."""
    outside: dict[str, str] = field(default_factory=dict)
    """Names declared `global` or `nonlocal` here."""
    depth: int = 0
    line: int = 0
    """The line of the current statement."""
    where: tuple[PathState, Where] | None = None
    """The last place returned, and the path to it."""

    @property
    def symbol(self) -> str:
        return self.function.symbol if self.function else "<module>"

    def on(self, path: PathState) -> _OnPath:
        """Continue in this context on another path."""
        return _OnPath(self, path, None)

    def against(self, prior: Prior | None) -> _OnPath:
        """Continue in this context in code that a usual call does not reach if the prior holds."""
        return _OnPath(self, self.path.against(prior), None)

    def scoped(self, node: ast.expr) -> _OnPath:
        """Restore variables and path on leaving the context; inside, the tests in `node` may narrow them."""
        return _OnPath(self, self.path, node)

    def resume(self) -> None:
        """Return a value after a break, where earlier results come in from outside: a single number is known then."""
        self.env = {name: _from_outside(value) for name, value in self.env.items()}

    def end(self) -> None:
        """Record a way out of the function."""
        if self.filled:
            self.ends.append({name: self.env[name] for name in self.filled if name in self.env})

    def lookup(self, name: str) -> Value | None:
        """Return a variable of this frame or of one that encloses it."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.env and frame.outside.get(name) is None:
                return frame.env[name]
            if frame.left and frame.outside.get(name) is None:
                found = [env[name] for env in frame.left if name in env]
                if found:
                    return join(*found)
            frame = frame.parent
        return None


def _from_outside(value: Value) -> Value:
    if isinstance(value, Tensor) and value.rank == 0:
        return replace(value, graph_input=True)
    return replace(value, origin="random") if isinstance(value, Plain) and is_captured(value) else value


def narrowing_key(node: ast.expr) -> str | None:
    """Return the name under which the narrowing of `x` or `x.attr` is stored, or None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return None


def same_objects(info: FunctionInfo) -> dict[str, list[ast.expr]]:
    """Return, by the key of `x` or `x.attr`, the other names and attributes that an assignment of a function binds to the
    same object; none for a name bound twice, or an attribute that is set elsewhere too."""
    known = vars(info).get(SAME)
    if isinstance(known, dict):
        return known
    found: dict[str, list[ast.expr]] = {}
    named = (n for n in info.nodes if isinstance(n, (ast.Name, ast.Attribute)))
    stored = Counter(narrowing_key(n) for n in named if isinstance(n.ctx, ast.Store))
    for node in info.nodes:
        if isinstance(node, ast.Assign):
            source = narrowing_key(node.value)
            if isinstance(node.value, ast.Attribute) and stored[source]:
                continue
            ends = {key: each for each in (*node.targets, node.value) if (key := narrowing_key(each))}
            places = {key: each for key, each in ends.items() if stored[key] < 2}
            for key in places if len(places) > 1 else ():
                found.setdefault(key, []).extend(each for k, each in places.items() if k != key)
    vars(info)[SAME] = found
    return found


def join_envs(*envs: Env | None) -> Env | None:
    """Return the environment after branches that end in `envs`; None for a branch that does not fall through."""
    alive = [env for env in envs if env is not None]
    if not alive:
        return None
    merged = dict(alive[0])
    for env in alive[1:]:
        for name, value in env.items():
            if name not in merged:
                if "." not in name:
                    merged[name] = value
            elif merged[name] is not value and merged[name] != value:
                merged[name] = join(merged[name], value)
        for name in [n for n in merged if "." in n and n not in env]:
            del merged[name]
    return merged


def with_walrus(before: Env, node: ast.expr, frame: Frame) -> Env:
    """Return `before` with the names that `:=` bound while `node` was evaluated, without the narrowing."""
    if not frame.module.source.has_walrus:
        return before
    after = frame.env
    bound = {n.target.id for n in nodes_in(node) if isinstance(n, ast.NamedExpr)}
    return {**before, **{name: after[name] for name in bound if name in after}} if bound else before


def last_name(node: ast.expr) -> str:
    """Return the name, or the last one of `a.b.name`; empty for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def first_name(node: ast.expr) -> str:
    """Return the name that `config.model["size"]` begins with; empty if it begins with anything else."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def positional(spec: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    """Return the parameters that can be given by position, each with its default or None."""
    named = [*spec.posonlyargs, *spec.args]
    bare = len(named) - len(spec.defaults)
    return [(arg, spec.defaults[index - bare] if index >= bare else None) for index, arg in enumerate(named)]
