"""Which parts of a model can be compiled whole: maximal subtrees of its module hierarchy without a break.

With a run the tree is the real one and its shares are measured; without, it is the one the source tells,
where `*` stands for the members of a list. Pure: names and places in, regions out.
"""

from __future__ import annotations

import itertools
import keyword
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tcready.schema import (
    BreakSite,
    Frame,
    ModuleShare,
    Recompile,
    Region,
    SkippedFrame,
    StaticModule,
    covers,
)

Place = tuple[str, int]
"""A file as the report names it, and the first line of a function's code there."""

_LISTS = frozenset({"ModuleList", "Sequential"})
_HOLDERS = frozenset({"ModuleList", "ModuleDict"})
"""They have no forward, so there is nothing to compile: only what they hold is a region."""
_MIN_SHARE = 0.01
"""Regions below this share of a forward's operations, and of their time, are left out if a run measured them."""
_LOOP_NAMES = ("module", "part", "piece")
_ENTRY, _BREAK = ("", "entry"), ("", "break")
"""Where all ways of a graph of calls begin and end."""


@dataclass(frozen=True)
class _Node:
    """A module of either tree. `code` is where its forward stands, None if that is not user code."""

    name: str
    type: str
    code: Place | None
    ops: int | None = None
    captured: int | None = None
    seconds: float | None = None
    known: bool = True


def predicted(
    modules: Sequence[ModuleShare],
    static_modules: Sequence[StaticModule],
    breaking: Collection[str],
    *,
    sites: Sequence[BreakSite] = (),
    skipped: Sequence[SkippedFrame] = (),
    recompiles: Sequence[Recompile] = (),
    breaks_by_code: Mapping[Place, Collection[str]] | None = None,
    code_ends: Mapping[Place, int] | None = None,
) -> tuple[Region, ...]:
    """The break-free regions, weightiest first.

    `modules` is the tree a run saw; empty without a run, and then `static_modules` alone speaks. `breaking`
    holds the fingerprints of the static findings that count. `sites`, `skipped` (benign ones are ignored)
    and `recompiles` (those on identical calls count) are what the run saw. `breaks_by_code` tells the
    breaking fingerprints of a forward by its place, for modules whose name the source did not give away;
    `code_ends` the last line of the function that begins at a place.

    Modules alike (one class, children of the same shape, the same list positions) are one region with that
    many instances. Bare modules of torch are left out unless there is nothing else.
    """
    if modules:
        nodes = [
            _Node(m.name, m.type, _place(m.path, m.line), m.ops, m.ops_captured, m.seconds) for m in modules
        ]
        tree = _tree(nodes)
        broken = _statically_broken(tree, static_modules, breaking, breaks_by_code or {})
        broken |= _owners(tree, sites, skipped, recompiles, code_ends or {})
    else:
        nodes = [_Node(m.name, m.type, _place(m.path, m.line), known=m.known) for m in static_modules]
        tree = _tree(nodes)
        broken = {m.name for m in static_modules if not set(m.breaks).isdisjoint(breaking)}
    if not nodes:
        return ()
    return _regions(tree, broken, measured=bool(modules))


def dominator(sites: Sequence[BreakSite]) -> Frame | None:
    """The innermost function through which every way to every break leads, at the place where one is first seen.

    None for a single break, and if that is the outermost function. A function may be reached in several ways: it
    counts if none leads round it, which is what the dominators of the graph of calls tell.
    """
    if len({(site.path, site.line) for site in sites}) < 2:
        return None
    import networkx as nx  # only behind a run, which takes seconds: loading it takes a tenth of one

    calls: nx.DiGraph[tuple[str, str]] = nx.DiGraph()
    frames: dict[tuple[str, str], Frame] = {}
    for site in sites:
        own = Frame(site.path, site.line, site.symbol)
        way = [*itertools.takewhile(own.__ne__, site.stack), own]
        nx.add_path(calls, [_ENTRY, *((frame.path, frame.symbol) for frame in way), _BREAK])
        for frame in way:
            frames.setdefault((frame.path, frame.symbol), frame)
    above = nx.immediate_dominators(calls, _ENTRY)
    found = above[_BREAK]
    return frames[found] if found != _ENTRY and above[found] != _ENTRY else None


def worth_compiling(region: Region, modules: Sequence[ModuleShare]) -> bool:
    """Whether a region is more than bare modules of torch, which compiled one by one gain nothing."""
    return any(
        covers(region.name, module.name)
        and (
            not module.name
            or module.path is not None
            or any(m.name.startswith(f"{module.name}.") for m in modules)
        )
        for module in modules
    )


def accessor(name: str, types: Mapping[str, str], variable: str = "model") -> str:
    """Python for the module called `name` below `variable`: `model.blocks[0]`, `model.get_submodule("a-b")`.

    `types` gives the class names of the modules by dotted name, so that list positions are told from names.
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


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _place(path: str | None, line: int | None) -> Place | None:
    return (path, line) if path is not None and line is not None else None


@dataclass(frozen=True)
class _Tree:
    """The hierarchy, parents before children; a tree asks nothing that a graph library would answer better."""

    modules: dict[str, _Node] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[str]:
        return iter(self.modules)


def _tree(nodes: Iterable[_Node]) -> _Tree:
    """A name whose parents are not listed gets them: they hold what is below and nothing is known of them."""
    tree = _Tree()
    for node in (_Node("", "", None), *nodes):
        for name in reversed([*_ancestry(node.name)]):
            if name not in tree.modules:
                tree.modules[name] = _Node(name, "", None)
                tree.children[name] = []
                if name:
                    tree.children[name.rpartition(".")[0]].append(name)
        tree.modules[node.name] = node
    return tree


def _ancestry(name: str) -> Iterator[str]:
    """`a.b.c`, `a.b`, `a`, and the root."""
    while name:
        yield name
        name = name.rpartition(".")[0]
    yield ""


def _subtree(tree: _Tree, top: str) -> Iterator[str]:
    """`top` and all below it, parents before their children."""
    yield top
    for child in tree.children[top]:
        yield from _subtree(tree, child)


def _statically_broken(
    tree: _Tree,
    static_modules: Sequence[StaticModule],
    breaking: Collection[str],
    breaks_by_code: Mapping[Place, Collection[str]],
) -> set[str]:
    """Names of real modules whose own code holds a break that the source told.

    A static module speaks for a real one of its name pattern and class, or whose forward is the same code.
    """
    broken = set()
    for name in tree:
        module = tree.modules[name]
        by_code = breaks_by_code.get(module.code, ()) if module.code else ()
        named = [static for static in static_modules if covers(static.name, name)]
        same = [static for static in named if module.type in static.type.split(" | ")]
        predicted = itertools.chain(by_code, *(static.breaks for static in same))
        if not set(predicted).isdisjoint(breaking):
            broken.add(name)
    return broken


def _owners(
    tree: _Tree,
    sites: Sequence[BreakSite],
    skipped: Sequence[SkippedFrame],
    recompiles: Sequence[Recompile],
    code_ends: Mapping[Place, int],
) -> set[str]:
    """Names of the modules in whose own code a run saw a break, a skipped frame or a steady recompile."""
    by_code: dict[Place, list[str]] = defaultdict(list)
    by_class: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in tree:
        module = tree.modules[name]
        if module.code:
            by_code[module.code].append(name)
            by_class[module.code[0], module.type].append(name)

    def owners_of(stack: Sequence[Frame]) -> Iterable[str]:
        chain = [code for frame in stack if (code := _forward_of(frame, by_code, code_ends))]
        if not chain:
            return ("",)
        return [
            name
            for name in by_code[chain[-1]]
            if set(chain) <= {tree.modules[above].code for above in _ancestry(name)}
        ] or by_code[chain[-1]]

    def owners_of_frame(path: str, line: int, symbol: str) -> Iterable[str]:
        code = _forward_of(Frame(path, line, symbol), by_code, code_ends)
        return (by_code[code] if code else by_class.get((path, symbol.partition(".")[0]))) or ("",)

    found = set(itertools.chain.from_iterable(owners_of(site.stack) for site in sites))
    for frame in skipped:
        if not frame.benign:
            found.update(owners_of_frame(frame.path, frame.line, frame.symbol))
    for recompile in recompiles:
        if recompile.identical_call:
            found.update(owners_of_frame(recompile.path, recompile.line, recompile.symbol))
    return found


def _forward_of(frame: Frame, codes: Iterable[Place], code_ends: Mapping[Place, int]) -> Place | None:
    """The forward, among `codes`, whose code a stack frame stands in."""
    if "forward" not in frame.symbol.split(".")[-1]:
        return None
    before = [
        code
        for code in codes
        if code[0] == frame.path and code[1] <= frame.line <= code_ends.get(code, frame.line)
    ]
    return max(before, key=lambda code: code[1], default=None)


def _regions(tree: _Tree, broken: Collection[str], *, measured: bool) -> tuple[Region, ...]:
    unclean = set(itertools.chain.from_iterable(_ancestry(name) for name in broken))
    tops = list(_maximal(tree, "", unclean))
    worthy = [name for name in tops if not _is_bare_leaf(tree, name)]
    shapes = _shapes(tree)
    groups: dict[tuple[str, int], list[str]] = defaultdict(list)
    for name in worthy or tops:
        groups[_pattern(tree, name), shapes[name]].append(name)
    alike: dict[str, list[str]] = defaultdict(list)
    for name in tree:
        alike[_pattern(tree, name)].append(name)
    regions = [_region(tree, names, pattern, alike[pattern]) for (pattern, _), names in groups.items()]
    if measured and _ops(tree, ""):
        regions = [region for region in regions if _weight(region) >= _MIN_SHARE]
    return tuple(sorted(regions, key=_weight, reverse=True))


def _weight(region: Region) -> float:
    """Few operations may hold most of the time."""
    return max(region.ops_share or 0.0, region.time_share or 0.0)


def _maximal(tree: _Tree, name: str, unclean: Collection[str]) -> Iterator[str]:
    """Topmost names below `name` that nothing broken is below and that have a forward to compile."""
    if name not in unclean and tree.modules[name].type not in _HOLDERS:
        yield name
        return
    for child in tree.children[name]:
        yield from _maximal(tree, child, unclean)


def _is_bare_leaf(tree: _Tree, name: str) -> bool:
    """A module of torch (or of unknown code) that holds no other: compiled alone it gains nothing."""
    return name != "" and tree.modules[name].code is None and not tree.children[name]


def _shapes(tree: _Tree) -> dict[str, int]:
    """For each module the number of its shape: equal for one class and code over equal children, all the way down."""
    numbers: dict[tuple[str, Place | None, tuple[tuple[str, int], ...]], int] = {}
    shapes: dict[str, int] = {}
    for name in reversed(list(_subtree(tree, ""))):
        children = tuple((child.rpartition(".")[2], shapes[child]) for child in tree.children[name])
        module = tree.modules[name]
        shapes[name] = numbers.setdefault((module.type, module.code, children), len(numbers))
    return shapes


def _pattern(tree: _Tree, name: str) -> str:
    """`name` with `*` for each segment that is a position in a list."""
    segments, base = [], ""
    for segment in name.split(".") if name else []:
        listed = segment.isdigit() and tree.modules[base].type in _LISTS | {""}
        segments.append("*" if listed else segment)
        base = f"{base}.{segment}" if base else segment
    return ".".join(segments)


def _ops(tree: _Tree, name: str) -> int:
    """Operations of a subtree; a holder is never called, so its own count says nothing."""
    own = tree.modules[name].ops
    return own if own else sum(_ops(tree, child) for child in tree.children[name])


def _region(tree: _Tree, names: Sequence[str], pattern: str, alike: Sequence[str]) -> Region:
    """The region of `names`, which are among the modules `alike` that `pattern` stands for."""
    modules = [tree.modules[name] for name in names]
    total, ops = _ops(tree, ""), sum(_ops(tree, name) for name in names)
    seconds = [module.seconds for module in modules if module.seconds is not None]
    total_seconds = tree.modules[""].seconds
    captured = [module.captured for module in modules if module.captured is not None]
    name = _named(tree, names, alike)
    reason = _reason(tree, names, captured=sum(captured) if captured else None, ops=ops)
    return Region(
        name=name,
        instances=len(names),
        state="predicted",
        reason=_among(tree, names, pattern, alike) + reason,
        code=_code(tree, name, names),
        ops_share=ops / total if total else None,
        time_share=sum(seconds) / total_seconds if seconds and total_seconds else None,
        ops_captured_share=min(1.0, sum(captured) / ops) if captured and ops else None,
    )


def _named(tree: _Tree, names: Sequence[str], alike: Sequence[str]) -> str:
    """One name for all: `layers.*`, `layers.{0,2}` if only some members are meant, else a list of the names.

    It covers these modules and no other.
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
    """What stands in each segment of names of one length, each once, in order."""
    return [[*dict.fromkeys(column)] for column in zip(*(name.split(".") for name in names), strict=True)]


def _among(tree: _Tree, names: Sequence[str], pattern: str, alike: Sequence[str]) -> str:
    """Which of the members of a list these are, if they are some of them."""
    if not 1 < len(names) < len(alike):
        return ""
    kind = tree.modules[names[0]].type
    whole = sum(tree.modules[name].type == kind for name in alike) == len(names)
    those = "those" if whole else "some of those"
    return f"{len(names)} of the {len(alike)} modules at {pattern}, {those} of class {kind}: "


def _reason(tree: _Tree, names: Sequence[str], *, captured: int | None, ops: int) -> str:
    below = {name for top in names for name in _subtree(tree, top)}
    running = [name for name in below if tree.modules[name].type not in _HOLDERS]
    unknown = sum(not tree.modules[name].known for name in below)
    count = f"{len(running)} module{'s' if len(running) != 1 else ''}"
    if captured is not None and ops:
        return (
            f"no break seen or predicted in {count}; {captured} of their {ops} operations ran inside graphs"
        )
    if unknown:
        return f"no break predicted in {count}, of which the source does not tell {unknown}"
    return f"no break predicted in {count}"


def _code(tree: _Tree, name: str, names: Sequence[str]) -> str:
    """Python that compiles the region, over a variable `model`."""
    types = {node: tree.modules[node].type for node in tree}
    own = tree.modules[names[0]].code is not None
    if len(names) == 1 and "*" not in name:
        return _compiling(accessor(name, types), own=own)
    if len(names) == 1 or _is_what_a_loop_meets(tree, name, names):
        return _loops(name.split("."), names[0], types, own=own)
    if any("*" in each.split(".") for each in names):
        return "\n".join(_code(tree, each, (each,)) for each in names)
    listing = ", ".join(_quoted(each) for each in names)
    variable = _LOOP_NAMES[0]
    head = f"for name in ({listing}):\n"
    if own:
        return head + "    model.get_submodule(name).compile()"
    return head + f"    {variable} = model.get_submodule(name)\n    {_compiling(variable, own=own)}"


def _is_what_a_loop_meets(tree: _Tree, name: str, names: Sequence[str]) -> bool:
    """Whether loops over all members at each `*` of `name` reach just these modules, in one way of indexing."""
    met = [""]
    for segment in name.split("."):
        if segment == "*":
            met = [child for each in met for child in tree.children[each]]
        else:
            met = [f"{each}.{segment}" if each else segment for each in met]
            if not all(each in tree.modules for each in met):
                return False
    return set(met) == set(names) and len({_indexing(tree, each) for each in names}) == 1


def _indexing(tree: _Tree, name: str) -> tuple[str, ...]:
    """What decides how the parts of a name are reached."""
    kinds = (tree.modules[above].type for above in _ancestry(name.rpartition(".")[0]))
    return tuple(kind if kind in _LISTS | _HOLDERS else "" for kind in kinds)


def _compiling(module: str, *, own: bool) -> str:
    """The line that compiles a module. `module.compile()` compiles nothing if its forward is torch's own code: Dynamo
    leaves the frames of `nn.Module`'s call and of torch's forwards alone, unless the forward itself is handed to it."""
    return f"{module}.compile()" if own else f"{module}.forward = torch.compile({module}.forward)"


def _loops(segments: Sequence[str], example: str, types: Mapping[str, str], *, own: bool) -> str:
    """Nested loops, one for each `*`; `example` is a real name that the pattern stands for."""
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
    return "\n".join([*lines, "    " * len(lines) + _compiling(target, own=own)])


def _below(types: Mapping[str, str], base: str, pending: Sequence[str]) -> dict[str, str]:
    """`types` by the names relative to the module that `pending` starts from; `base` ends with `pending`."""
    segments = base.split(".") if base else []
    start = segments[: len(segments) - len(pending)]
    prefix = ".".join(start)
    return {
        name[len(prefix) :].lstrip(".") if prefix else name: kind
        for name, kind in types.items()
        if not prefix or name == prefix or name.startswith(f"{prefix}.")
    }
