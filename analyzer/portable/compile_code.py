"""The module tree of a model, and the code that compiles parts of it: names, patterns and lines over `model`.

The report shows this code as a suggestion, and the worker executes the same code. Pure, standard library only: the
worker includes this file.
"""

from __future__ import annotations

import itertools
import keyword
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from tcready.schema.observation import ModuleShare
from tcready.schema.report import covers
from tcready.schema.value_class import dataclass

Place = tuple[str, int]
"""A file as named in the report, and the first line of a function's code in it."""

_LISTS = frozenset({"ModuleList", "Sequential"})
HOLDERS = frozenset({"ModuleList", "ModuleDict"})
"""Containers without a forward, so there is nothing to compile: only their members can be regions."""
_LOOP_NAMES = ("module", "part", "piece")


def accessor(name: str, types: Mapping[str, str], variable: str = "model") -> str:
    """Return Python code for the module `name` below `variable`: `model.blocks[0]`, `model.get_submodule("a-b")`.

    `types` has the class names of the modules by dotted name, to distinguish list positions from names.
    """
    expression, base = variable, ""
    for segment in name.split(".") if name else ():
        kind = types.get(base, "")
        if kind == "ModuleDict":
            expression += f"[{_quoted(segment)}]"
        elif segment.isidentifier() and not keyword.iskeyword(segment):
            expression += f".{segment}"
        elif segment.isdigit() and kind in _LISTS:
            expression += f"[{segment}]"
        else:
            return f"{variable}.get_submodule({_quoted(name)})"
        base = f"{base}.{segment}" if base else segment
    return expression


@dataclass(frozen=True)
class Node:
    """A module of either tree. `code` is the location of its forward, None if that is not user code."""

    name: str
    type: str
    code: Place | None
    ops: int | None = None
    captured: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Tree:
    """The hierarchy, parents before children. A graph library would not help here."""

    modules: dict[str, Node] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[str]:
        return iter(self.modules)


def node_of(module: ModuleShare) -> Node:
    """Return a module that a run saw."""
    place = (module.path, module.line) if module.path is not None and module.line is not None else None
    return Node(module.name, module.type, place, module.ops, module.ops_captured, module.seconds)


def tree_of(nodes: Iterable[Node]) -> Tree:
    """Return the tree. Missing parents are added: they hold what is below, and nothing else is known about them."""
    tree = Tree()
    for node in (Node("", "", None), *nodes):
        for name in reversed([*ancestry(node.name)]):
            if name not in tree.modules:
                tree.modules[name] = Node(name, "", None)
                tree.children[name] = []
                if name:
                    tree.children[name.rpartition(".")[0]].append(name)
        tree.modules[node.name] = node
    return tree


def ancestry(name: str) -> Iterator[str]:
    """Return `a.b.c`, `a.b`, `a`, and the root."""
    while name:
        yield name
        name = name.rpartition(".")[0]
    yield ""


def subtree(tree: Tree, top: str) -> Iterator[str]:
    """Return `top` and everything below it, parents before their children."""
    yield top
    for child in tree.children[top]:
        yield from subtree(tree, child)


def maximal(tree: Tree, name: str, unclean: Collection[str]) -> Iterator[str]:
    """Return the topmost names below `name` that have a forward to compile and nothing broken below them."""
    if name not in unclean and tree.modules[name].type not in HOLDERS:
        yield name
        return
    for child in tree.children[name]:
        yield from maximal(tree, child, unclean)


def is_bare_leaf(tree: Tree, name: str) -> bool:
    """Return True for a module of torch (or of unknown code) without children: compiling it alone gains nothing."""
    return name != "" and tree.modules[name].code is None and not tree.children[name]


def shapes_of(tree: Tree) -> dict[str, int]:
    """Return the number of the shape of each module: equal for one class and code over equal children, at all
    depths."""
    numbers: dict[tuple[str, Place | None, tuple[tuple[str, int], ...]], int] = {}
    shapes: dict[str, int] = {}
    for name in reversed(list(subtree(tree, ""))):
        children = tuple((child.rpartition(".")[2], shapes[child]) for child in tree.children[name])
        module = tree.modules[name]
        shapes[name] = numbers.setdefault((module.type, module.code, children), len(numbers))
    return shapes


def pattern_of(tree: Tree, name: str) -> str:
    """Return `name` with `*` for each segment that is a position in a list."""
    segments, base = [], ""
    for segment in name.split(".") if name else []:
        listed = segment.isdigit() and tree.modules[base].type in _LISTS | {""}
        segments.append("*" if listed else segment)
        base = f"{base}.{segment}" if base else segment
    return ".".join(segments)


def groups_of(tree: Tree, names: Iterable[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Group equal modules by class, code and children: their pattern, those among `names`, all that the pattern
    covers."""
    shapes = shapes_of(tree)
    groups: dict[tuple[str, int], list[str]] = defaultdict(list)
    for name in names:
        groups[pattern_of(tree, name), shapes[name]].append(name)
    alike: dict[str, list[str]] = defaultdict(list)
    for name in tree:
        alike[pattern_of(tree, name)].append(name)
    for (pattern, _), members in groups.items():
        yield pattern, members, alike[pattern]


def operations(tree: Tree, name: str) -> int:
    """Return the operations of a subtree. A container is never called, so its own count says nothing."""
    own = tree.modules[name].ops
    return own if own else sum(operations(tree, child) for child in tree.children[name])


def name_of(tree: Tree, names: Sequence[str], alike: Sequence[str]) -> str:
    """Return one name for all: `layers.*`, `layers.{0,2}` if only some members are meant, else a list of the names.

    It covers these modules and no others.
    """
    if len(names) == 1:
        return names[0]
    segments = []
    for ours, all_ in zip(_positions(names), _positions(alike), strict=True):
        some = next(iter(ours)) if len(ours) == 1 else "{" + ",".join(ours) + "}"
        segments.append("*" if len(ours) > 1 and set(ours) == set(all_) else some)
    short = ".".join(segments)
    covered = {name for name in tree if covers(short, name)}
    return short if covered == set(names) else "{" + ",".join(names) + "}"


def _positions(names: Iterable[str]) -> list[list[str]]:
    """Return the distinct values of each segment of names of one length, in order."""
    return [[*dict.fromkeys(column)] for column in zip(*(name.split(".") for name in names), strict=True)]


def code_of(tree: Tree, name: str, names: Sequence[str]) -> str:
    """Return Python code that compiles the region, over a variable `model`."""
    types = {node: tree.modules[node].type for node in tree}
    own = tree.modules[names[0]].code is not None
    if len(names) == 1 and "*" not in name:
        return compiling(accessor(name, types), own=own)
    if len(names) == 1 or _is_what_a_loop_meets(tree, name, names):
        return _loops(name.split("."), names[0], types, own=own)
    if any("*" in each.split(".") for each in names):
        return "\n".join(code_of(tree, each, (each,)) for each in names)
    listing = ", ".join(_quoted(each) for each in names)
    variable = _LOOP_NAMES[0]
    head = f"for name in ({listing}):\n"
    if own:
        return head + "    model.get_submodule(name).compile()"
    return head + f"    {variable} = model.get_submodule(name)\n    {compiling(variable, own=own)}"


def _is_what_a_loop_meets(tree: Tree, name: str, names: Sequence[str]) -> bool:
    """Return True if loops over all members at each `*` of `name` reach just these modules, with one kind of
    indexing."""
    met = [""]
    for segment in name.split("."):
        if segment == "*":
            met = [child for each in met for child in tree.children[each]]
        else:
            met = [f"{each}.{segment}" if each else segment for each in met]
            if not all(each in tree.modules for each in met):
                return False
    return set(met) == set(names) and len({_indexing(tree, each) for each in names}) == 1


def _indexing(tree: Tree, name: str) -> tuple[str, ...]:
    """Return how the parts of a name are accessed."""
    kinds = (tree.modules[above].type for above in ancestry(name.rpartition(".")[0]))
    return tuple(kind if kind in _LISTS | HOLDERS else "" for kind in kinds)


def compiling(module: str, *, own: bool) -> str:
    """Return the line that compiles a module.

    Before torch 2.14 `module.compile()` compiles nothing if its forward is torch's own code: Dynamo skips the frames of
    `nn.Module`'s call and of torch's forwards, unless the forward itself is passed to it.
    """
    return f"{module}.compile()" if own else f"{module}.forward = torch.compile({module}.forward)"


def with_option(code: str, option: str) -> str:
    """Add an option, such as `recompile_limit=64`, to each call in these lines that compiles something."""
    return "\n".join(_line_with_option(line, option) for line in code.splitlines())


def _line_with_option(line: str, option: str) -> str:
    call, gap, comment = line.partition("  #")
    if call.endswith(".compile()"):
        call = f"{call[:-1]}{option})"
    elif "torch.compile(" in call:
        call = f"{call[:-1]}, {option})"
    return call + gap + comment


def _loops(segments: Sequence[str], example: str, types: Mapping[str, str], *, own: bool) -> str:
    """Return nested loops, one for each `*`; `example` is a real name that matches the pattern."""
    lines: list[str] = []
    pending: list[str] = []
    variable, base = "model", ""
    real = example.split(".")
    variables = itertools.chain(_LOOP_NAMES, (f"part{number}" for number in itertools.count(2)))
    for segment, actual in zip(segments, real, strict=True):
        if segment == "*":
            below = _below(types, base, pending)
            inner = next(variables)
            holder = accessor(".".join(pending), below, variable)
            holder += ".values()" if types.get(base, "") == "ModuleDict" else ""
            lines.append("    " * len(lines) + f"for {inner} in {holder}:")
            variable, pending = inner, []
        else:
            pending = [*pending, actual]
        base = f"{base}.{actual}" if base else actual
    target = accessor(".".join(pending), _below(types, base, pending), variable)
    return "\n".join([*lines, "    " * len(lines) + compiling(target, own=own)])


def _below(types: Mapping[str, str], base: str, pending: Sequence[str]) -> dict[str, str]:
    """Return `types` with names relative to the module that `pending` starts from; `base` ends with `pending`."""
    segments = base.split(".") if base else []
    start = segments[: len(segments) - len(pending)]
    prefix = ".".join(start)
    return {
        name[len(prefix) :].lstrip(".") if prefix else name: kind
        for name, kind in types.items()
        if not prefix or name == prefix or name.startswith(f"{prefix}.")
    }


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
