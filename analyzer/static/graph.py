"""The call graph of one analysis, and the module hierarchy that hangs below an entry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import networkx as nx
from tcready.static.interp import Interpreter
from tcready.static.knowledge import CONTAINERS, is_module_class
from tcready.static.values import ExternalInstance, Instance, Mapping, Sequence, Value, options

MAX_TREE_DEPTH = 24


@dataclass(frozen=True)
class TreeNode:
    """A module of the hierarchy: dotted name from the root (`*` for members of a list), what may be there."""

    name: str
    values: tuple[Instance | ExternalInstance, ...]
    known: bool


class CallGraph:
    """Contexts of the interpreter as nodes, calls as edges (networkx)."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._contexts = interpreter.contexts
        self._graph: nx.DiGraph[int] = nx.DiGraph()
        self._graph.add_nodes_from(range(len(interpreter.contexts)))
        self._graph.add_edges_from((a, b) for a, b in interpreter.edges if a >= 0)

    def chains(self, entry: int) -> dict[int, tuple[str, ...]]:
        """For every context reached from `entry`: the symbols on a shortest way there, outermost first."""
        found: dict[int, tuple[str, ...]] = {}
        for target, path in nx.single_source_shortest_path(self._graph, entry).items():
            symbols = (self._contexts[n].symbol for n in path if self._contexts[n].function is not None)
            found[target] = tuple(dict.fromkeys(symbols))
        return found

    def run_by(self, ident: int) -> set[int]:
        """Contexts that run as part of one module instance: its methods and the helpers they call, down to,
        not into, the methods of other modules."""
        seen = {c.number for c in self._contexts if c.module == ident}
        pending = list(seen)
        while pending:
            for following in self._graph.successors(pending.pop()):
                owner = self._contexts[following].module
                if following not in seen and owner in (None, ident):
                    seen.add(following)
                    pending.append(following)
        return seen


def module_tree(interpreter: Interpreter, root: Instance) -> Iterator[TreeNode]:
    """The modules below `root`, parents first; a module held twice is told at each of its names, once deep."""
    yield from _walk(interpreter, "", (root,), (), 0)


def _walk(
    interpreter: Interpreter,
    name: str,
    values: tuple[Instance | ExternalInstance, ...],
    above: tuple[int, ...],
    depth: int,
) -> Iterator[TreeNode]:
    yield TreeNode(name, values, True)
    if depth > MAX_TREE_DEPTH:
        return
    children: dict[str, list[Instance | ExternalInstance]] = {}
    for value in values:
        if value.ident in above:
            continue
        for child, held in _children(interpreter, value):
            found = children.setdefault(child, [])
            found.extend(h for h in held if h not in found and h.ident not in above)
    for child, held in children.items():
        if held:
            inner = (*above, *(v.ident for v in values))
            yield from _walk(interpreter, f"{name}.{child}" if name else child, tuple(held), inner, depth + 1)


def _children(
    interpreter: Interpreter, value: Instance | ExternalInstance
) -> Iterator[tuple[str, list[Instance | ExternalInstance]]]:
    if isinstance(value, ExternalInstance) and not value.ident:
        return
    held = interpreter.heap[value]
    for name, attribute in held.attributes.items():
        modules = list(_modules(interpreter, attribute))
        if modules:
            yield name, modules
    members = held.members
    if isinstance(members, Sequence):
        if members.items is not None:
            for index, item in enumerate(members.items):
                yield str(index), list(_modules(interpreter, item))
        else:
            yield "*", list(_modules(interpreter, members.element))
    elif isinstance(members, Mapping):
        for key, item in members.entries:
            yield str(key), list(_modules(interpreter, item))
        if members.element is not None:
            yield "*", list(_modules(interpreter, members.element))


def _modules(interpreter: Interpreter, value: Value) -> Iterable[Instance | ExternalInstance]:
    for option in options(value):
        if (isinstance(option, Instance) and interpreter.is_module(option)) or (
            isinstance(option, ExternalInstance)
            and (is_module_class(option.name) or option.name in CONTAINERS)
        ):
            yield option
