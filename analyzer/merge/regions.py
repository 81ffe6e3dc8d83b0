"""Find the parts of a model that can be compiled whole: maximal subtrees of its module hierarchy without a break.

With a run, the tree is the real one and shares are measured. Without, it is the tree from the source, where `*`
represents the members of a list. Pure: names and places in, regions out.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tcready.portable.compile_code import (
    HOLDERS,
    Node,
    Place,
    Tree,
    ancestry,
    code_of,
    groups_of,
    is_bare_leaf,
    maximal,
    name_of,
    node_of,
    operations,
    subtree,
    tree_of,
)
from tcready.schema.code_line import Frame
from tcready.schema.enums import RegionState
from tcready.schema.observation import ModuleShare
from tcready.schema.report import Region, covers
from tcready.schema.static import StaticModule

if TYPE_CHECKING:
    from tcready.schema.run import BreakSite, Recompile, RegionTrial, SkippedFrame

_MIN_SHARE = 0.01
"""Regions below this share of a forward's operations, and of their time, are left out if a run measured them."""
_ENTRY, _BREAK = ("", "entry"), ("", "break")
"""The common source and sink of a call graph."""


def predict_regions(
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
    """Return the break-free regions, largest first.

    `modules` is the tree from a run; without a run it is empty, and only `static_modules` is used. `breaking` has the
    fingerprints of the static findings that count. `sites`, `skipped` (benign ones are ignored) and `recompiles` (those
    on every call count) are from the run. `breaks_by_code` has the breaking fingerprints of a forward by its place, for
    modules without a known name in the source; `code_ends` has the last line of the function that begins at a place.

    Equal modules (one class, children of the same shape, the same list positions) are one region with several
    instances. Bare modules of torch are left out unless there is nothing else.

    From the source alone, modules with unresolved calls, and modules that the configuration may leave out, are not part
    of regions.
    """
    if modules:
        nodes = [node_of(module) for module in modules]
        tree = tree_of(nodes)
        broken = _statically_broken(tree, static_modules, breaking, breaks_by_code or {})
        broken |= _owners(tree, sites, skipped, recompiles, code_ends or {})
    else:
        nodes = [Node(m.name, m.type, _place(m.path, m.line)) for m in static_modules]
        tree = tree_of(nodes)
        broken = {m.name for m in static_modules if m.unknown or not set(m.breaks).isdisjoint(breaking)}
    if not nodes:
        return ()
    doubtful = frozenset[str]() if modules else {m.name for m in static_modules if not m.sure}
    return _regions(tree, broken, doubtful, measured=bool(modules))


def regions_of_plan(trials: Sequence[RegionTrial]) -> tuple[Region, ...]:
    """Return the results of a plan for each region: proved ones first, largest first. Refuted ones have no code."""
    order: tuple[RegionState, ...] = ("proved", "predicted", "refuted")
    regions = [
        Region(
            name=trial.name,
            instances=max(len(trial.modules), 1),
            state=trial.state,
            reason=trial.reason,
            code="" if trial.state == "refuted" else trial.code,
            ops_share=trial.ops_share,
            time_share=trial.time_share,
            ops_captured_share=1.0 if trial.state == "proved" else None,
            parameter_share=trial.parameter_share,
            compilations=trial.compilations,
            guards=trial.guards,
            cure=trial.cure,
            kind=trial.kind,
        )
        for trial in trials
    ]
    return tuple(sorted(regions, key=lambda region: (order.index(region.state), -_weight(region))))


def outermost(regions: Iterable[Region], modules: Sequence[ModuleShare]) -> list[Region]:
    """Return those that are not inside another one, so that their shares can be added."""
    found = list(regions)
    names = {region.name: [m.name for m in modules if covers(region.name, m.name)] for region in found}

    def inside(region: Region) -> bool:
        others = {name for other in found if other is not region for name in names[other.name]}
        return any(above in others for name in names[region.name] for above in [*ancestry(name)][1:])

    return [region for region in found if not inside(region)]


def dominator(sites: Sequence[BreakSite]) -> Frame | None:
    """Return the innermost function that is on every path to every break, at the place where it is first seen.

    Return None for a single break, and if it is the outermost function. A function on several paths counts if no path
    avoids it: the dominator of the call graph.
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
    """Return True if a region is more than bare modules of torch, for which compiling one by one gains nothing."""
    return any(
        covers(region.name, module.name)
        and (not module.name or module.path is not None or any(m.name.startswith(f"{module.name}.") for m in modules))
        for module in modules
    )


def _place(path: str | None, line: int | None) -> Place | None:
    return (path, line) if path is not None and line is not None else None


def _statically_broken(
    tree: Tree,
    static_modules: Sequence[StaticModule],
    breaking: Collection[str],
    breaks_by_code: Mapping[Place, Collection[str]],
) -> set[str]:
    """Return names of real modules with a break in their own code that the source shows.

    A static module corresponds to a real one with its name pattern and class, or with the same forward code.
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
    tree: Tree,
    sites: Sequence[BreakSite],
    skipped: Sequence[SkippedFrame],
    recompiles: Sequence[Recompile],
    code_ends: Mapping[Place, int],
) -> set[str]:
    """Return names of the modules with a break, a skipped frame or a recompile on every call in their own code."""
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
            name for name in by_code[chain[-1]] if set(chain) <= {tree.modules[above].code for above in ancestry(name)}
        ] or by_code[chain[-1]]

    def owners_of_frame(path: str, line: int, symbol: str) -> Iterable[str]:
        code = _forward_of(Frame(path, line, symbol), by_code, code_ends)
        return (by_code[code] if code else by_class.get((path, symbol.partition(".")[0]))) or ("",)

    found = set(itertools.chain.from_iterable(owners_of(site.stack) for site in sites))
    for frame in skipped:
        if not frame.benign:
            found.update(owners_of_frame(frame.path, frame.line, frame.symbol))
    for recompile in recompiles:
        if recompile.on_every_call:
            found.update(owners_of_frame(recompile.path, recompile.line, recompile.symbol))
            for cause in recompile.lines:
                found.update(owners_of_frame(cause.path, cause.line, cause.symbol))
    return found


def _forward_of(frame: Frame, codes: Iterable[Place], code_ends: Mapping[Place, int]) -> Place | None:
    """Return the forward, among `codes`, that contains a stack frame."""
    if "forward" not in frame.symbol.split(".")[-1]:
        return None
    before = [
        code for code in codes if code[0] == frame.path and code[1] <= frame.line <= code_ends.get(code, frame.line)
    ]
    return max(before, key=lambda code: code[1], default=None)


def _regions(tree: Tree, broken: Collection[str], doubtful: Collection[str], *, measured: bool) -> tuple[Region, ...]:
    """Return the regions. `doubtful` modules may not exist: code that accesses them would raise."""
    unclean = set(itertools.chain.from_iterable(ancestry(name) for name in broken))
    tops = [name for name in maximal(tree, "", unclean) if name not in doubtful]
    worthy = [name for name in tops if not is_bare_leaf(tree, name)]
    regions = [_region(tree, *group) for group in groups_of(tree, worthy or tops)]
    if measured and operations(tree, ""):
        regions = [region for region in regions if _weight(region) >= _MIN_SHARE]
    return tuple(sorted(regions, key=_weight, reverse=True))


def _weight(region: Region) -> float:
    """Return the weight. It considers time, because few operations may take most of it."""
    return max(region.ops_share or 0.0, region.time_share or 0.0)


def _region(tree: Tree, pattern: str, names: Sequence[str], alike: Sequence[str]) -> Region:
    """Return the region of `names`, which are among the equal modules `alike` with the name `pattern`."""
    modules = [tree.modules[name] for name in names]
    total, ops = operations(tree, ""), sum(operations(tree, name) for name in names)
    seconds = [module.seconds for module in modules if module.seconds is not None]
    total_seconds = tree.modules[""].seconds
    captured = [module.captured for module in modules if module.captured is not None]
    name = name_of(tree, names, alike)
    reason = _reason(tree, names, captured=sum(captured) if captured else None, ops=ops)
    return Region(
        name=name,
        instances=0 if _uncounted(names) else len(names),
        state="predicted",
        reason=_each(names) + _among(tree, names, pattern, alike) + reason,
        code=code_of(tree, name, names),
        ops_share=ops / total if total else None,
        time_share=sum(seconds) / total_seconds if seconds and total_seconds else None,
        ops_captured_share=min(1.0, sum(captured) / ops) if captured and ops else None,
    )


def _uncounted(names: Iterable[str]) -> list[str]:
    """Return the lists in these names with a length that the source does not show."""
    return [
        ".".join(("model", *segments[:index]))
        for segments in (name.split(".") for name in names)
        for index, segment in enumerate(segments)
        if segment == "*"
    ]


def _each(names: Iterable[str]) -> str:
    """Return the text used in place of a number of instances."""
    lists = dict.fromkeys(_uncounted(names))
    if not lists:
        return ""
    return f"in each member of {' and '.join(lists)}, the source does not show how many: "


def _among(tree: Tree, names: Sequence[str], pattern: str, alike: Sequence[str]) -> str:
    """Return the selected members of a list, if not all are."""
    if not 1 < len(names) < len(alike):
        return ""
    kind = tree.modules[names[0]].type
    whole = sum(tree.modules[name].type == kind for name in alike) == len(names)
    those = "those" if whole else "some of those"
    return f"{len(names)} of the {len(alike)} modules at {pattern}, {those} of class {kind}: "


def _reason(tree: Tree, names: Sequence[str], *, captured: int | None, ops: int) -> str:
    below = {name for top in names for name in subtree(tree, top)}
    running = [name for name in below if tree.modules[name].type not in HOLDERS]
    count = f"{len(running)} module{'s' if len(running) != 1 else ''}"
    if captured is not None and ops:
        return f"no break seen or predicted in {count}; {captured} of their {ops} operations ran inside graphs"
    return f"no break predicted in {count}"
