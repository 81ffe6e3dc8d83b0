"""The module hierarchy below an entry, as the source tells it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tcready.static.interp import Interpreter
from tcready.static.knowledge import CONTAINERS, is_module_class
from tcready.static.values import ExternalInstance, Instance, Mapping, Sequence, Value, options

MAX_TREE_DEPTH = 24
MAX_NODES = 5000


@dataclass(frozen=True)
class TreeNode:
    """A module of the hierarchy: dotted name from the root (`*` for members of a list), what may be there."""

    name: str
    values: tuple[Instance | ExternalInstance, ...]
    known: bool


def module_tree(interpreter: Interpreter, root: Instance) -> Iterator[TreeNode]:
    """The modules below `root`, parents first; one held at two names is told at both (two modules may be one
    object to the interpreter). Ends after MAX_NODES."""
    yield from itertools.islice(_walk(interpreter, "", (root,), (), 0), MAX_NODES)


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
