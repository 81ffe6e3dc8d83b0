"""The module hierarchy below an entry, as the source tells it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tcready.schema import BREAKING, Finding, Mode, StaticModule, StaticTarget, display_path
from tcready.static.analyse import Interpretation
from tcready.static.interp import Interpreter
from tcready.static.judge import Place
from tcready.static.knowledge import CONTAINERS, is_module_class
from tcready.static.values import ExternalInstance, Instance, Value, options
from tcready.static.values import Mapping as Dict
from tcready.static.values import Sequence as Items

MAX_TREE_DEPTH = 24
MAX_NODES = 5000


@dataclass(frozen=True)
class TreeNode:
    """A module of the hierarchy: dotted name from the root (`*` for members of a list), what may be there."""

    name: str
    values: tuple[Instance | ExternalInstance, ...]
    known: bool


def static_targets(
    interpretation: Interpretation,
    findings: Mapping[Place, Finding],
    codes: Sequence[str],
    modes: tuple[Mode, ...],
) -> Iterator[StaticTarget]:
    """The module hierarchy of every analysed root, with the breaking findings each module runs.

    `codes` are those of the rules that claim anything.
    """
    interpreter = interpretation.interpreter
    breaking: dict[int, list[str]] = {}
    for fact in interpreter.facts:
        start = (fact.where.path, fact.node.lineno, fact.node.col_offset)
        for place in ((*start, code) for code in codes):
            finding = findings.get(place)
            if finding is not None and finding.effect in BREAKING and finding.confidence != "low":
                breaking.setdefault(fact.where.context, []).append(finding.fingerprint)
    for analysis in interpretation.analyses:
        if analysis.root is None:
            every = sorted({fingerprint for found in breaking.values() for fingerprint in found})
            modules = [StaticModule("", "function", None, None, tuple(every))]
        else:
            nodes = module_tree(interpreter, analysis.root)
            modules = [_static_module(interpretation, node, breaking) for node in nodes]
        yield StaticTarget(analysis.target, tuple(modules), modes)


def _static_module(
    interpretation: Interpretation, node: TreeNode, breaking: Mapping[int, Sequence[str]]
) -> StaticModule:
    """A node of the hierarchy; `breaking` has the fingerprints of the breaks that stand in each context."""
    interpreter = interpretation.interpreter
    found: set[str] = set()
    path, line = None, None
    for value in node.values:
        if not isinstance(value, Instance):
            continue
        for context in interpretation.graph.run_by(value.ident) if breaking else ():
            found.update(breaking.get(context, ()))
        forward = interpreter.mro(value.cls).functions("forward")
        if forward and line is None:
            path = display_path(str(forward[0].module.path), str(interpreter.program.root))
            line = forward[0].node.lineno
    names = (v.cls.name if isinstance(v, Instance) else v.name.rpartition(".")[2] for v in node.values)
    return StaticModule(
        node.name, " | ".join(dict.fromkeys(names)), path, line, tuple(sorted(found)), node.known
    )


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
        for child, modules in _children(interpreter, value):
            found = children.setdefault(child, [])
            found.extend(m for m in modules if m not in found and m.ident not in above)
    for child, modules in children.items():
        if modules:
            inner = (*above, *(v.ident for v in values))
            path = f"{name}.{child}" if name else child
            yield from _walk(interpreter, path, tuple(modules), inner, depth + 1)


def _children(
    interpreter: Interpreter, value: Instance | ExternalInstance
) -> Iterator[tuple[str, list[Instance | ExternalInstance]]]:
    if isinstance(value, ExternalInstance) and not value.ident:
        return
    known = interpreter.heap[value]
    for name, attribute in known.attributes.items():
        modules = list(_modules(interpreter, attribute))
        if modules:
            yield name, modules
    members = known.members
    if isinstance(members, Items):
        if members.items is not None:
            for index, item in enumerate(members.items):
                yield str(index), list(_modules(interpreter, item))
        else:
            yield "*", list(_modules(interpreter, members.element))
    elif isinstance(members, Dict):
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
