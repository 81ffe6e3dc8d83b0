"""Claims that Dynamo does not reach, as an earlier break has ended its trace.

A break that makes its whole function run eagerly (a recurrent module is called) ends the trace of all later code in that
function; functions called from there are compiled by themselves.

A function that is called from eager code is compiled by itself only if it holds a tensor, as an argument or by a name in
its code. The same applies to callees of a property that breaks: Dynamo resumes after a call, not after an attribute read.

A function that holds no tensor is only compiled as part of its caller. The first break in it ends that: the rest of the
function, and its callees from there, run eagerly and are never traced (measured: a function of the standard library that
Dynamo skips, called by a helper that then opens files under a lock). With nested graph breaks the rest of the function is
compiled as part of its caller.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tcready.static.diagnostics.break_effect import FINDS_ATTRIBUTES, BreakEffects
from tcready.static.domain.facts import Condition
from tcready.static.interp.interpreter import Interpreter


@dataclass(frozen=True)
class Site:
    """A claimed break: its position, its conditions within the function, and whether it is certain."""

    context: int
    line: tuple[int, int]
    """The line on which it runs: for an assignment target, (last line of the value, 1); for any other, (its own, 0)."""
    conditions: frozenset[Condition]
    sure: bool
    skips: bool = False
    """The rest of its function runs eagerly, whatever that is."""
    around: int = 0
    """The number of loops, comprehensions and similar around it."""
    reads: frozenset[str] = frozenset()
    """Attributes that are read for it: on its line, and before it."""
    read: str = ""
    """The name of a property that breaks; `__getattr__`, which finds attributes of many names."""
    comprehension: tuple[int, int] | None = None
    """Line and column of the innermost comprehension around it, if that is a function of its own."""
    compiled: bool = False
    """Dynamo compiles that comprehension by itself, too."""

    def is_behind(self, end: Site) -> bool:
        """Return whether it comes after another place of its function: the first iterable of a comprehension is evaluated
        before its elements."""
        if self.line != end.line:
            return self.line > end.line
        if self.around > end.around or end.read in self.reads:
            return True
        return end.read == FINDS_ATTRIBUTES and bool(self.reads)


class ShadowedBreaks:
    """Finds the claimed breaks that are not met, by context."""

    def __init__(
        self, interpreter: Interpreter, effects: BreakEffects, entries: Collection[int], sites: Iterable[Site]
    ) -> None:
        self._effects = effects
        self._lines: Mapping[tuple[int, int], int] = interpreter.lines
        self._under = interpreter.under
        self._contexts = interpreter.contexts
        self._calls: dict[int, list[int]] = defaultdict(list)
        for caller, callee in interpreter.edges:
            self._calls[caller].append(callee)
        self._sure: dict[int, list[Site]] = defaultdict(list)
        self._skips: dict[int, list[Site]] = defaultdict(list)
        for site in sites:
            if site.sure:
                self._sure[site.context].append(site)
            if site.skips:
                self._skips[site.context].append(site)
        self._edges = interpreter.edges
        self._known: dict[int, tuple[Site, ...]] = {}
        self._eager: dict[int, tuple[Site, ...]] = {}
        self._reached = self._walk(entries)

    def __call__(self, site: Site) -> bool:
        """Return whether a break is not met."""
        if site.context not in self._reached:
            return True
        return self._is_eager(site) or self._is_behind(site)

    def _is_eager(self, site: Site) -> bool:
        """Return whether its function runs eagerly from an earlier place on."""
        return any(
            site.is_behind(end) and _unusual(end.conditions) <= site.conditions
            for end in self._skipping_breaks(site.context)
            if end.comprehension == site.comprehension or (end.comprehension is None and not site.compiled)
        )

    def _is_behind(self, site: Site) -> bool:
        """Return whether the trace of its function has always ended before it is reached."""
        if self._is_compiled(site.context):
            return False
        resumed = self._effects.is_resumed_with_caller(site.context)
        return any(
            site.is_behind(end) and end.conditions <= site.conditions
            for end in self._ends(site.context)
            if end.around or not resumed
        )

    def _skipping_breaks(self, context: int) -> tuple[Site, ...]:
        """Return the breaks that make a whole function eager: its own, and properties that break for certain."""
        if context not in self._eager:
            found = list(self._skips.get(context, ()))
            for callee in self._calls.get(context, ()):
                edge = context, callee
                if edge in self._lines and self._effects.ends_caller(callee):
                    if any(not _unusual(end.conditions) for end in self._ends(callee)):
                        found.append(dataclasses.replace(self._call(edge), read=self._effects.name(callee)))
            self._eager[context] = tuple(found)
        return self._eager[context]

    def _call(self, edge: tuple[int, int]) -> Site:
        """Return the place of a call, as a break in the callee."""
        around = min(map(len, self._edges[edge]), default=0)
        return Site(edge[0], (self._lines.get(edge, 0), 0), frozenset(self._under.get(edge, ())), True, around=around)

    def _is_compiled(self, context: int) -> bool:
        """Return whether Dynamo compiles it by itself, too: the trace continues after a break in it."""
        function = self._contexts[context].function
        return function is None or (not function.is_generator and self._effects.holds_tensor(context))

    def _ends(self, context: int, above: frozenset[int] = frozenset()) -> tuple[Site, ...]:
        """Return the places where the trace of a function ends: its own breaks, and calls of functions that break for
        certain."""
        if context not in self._known:
            inner = above | {context}
            found = list(self._sure.get(context, ()))
            for callee in self._calls.get(context, ()):
                edge = context, callee
                if callee in inner or edge not in self._lines:
                    continue
                if any(not _unusual(end.conditions) for end in self._ends(callee, inner)):
                    found.append(self._call(edge))
            self._known[context] = tuple(found)
        return self._known[context]

    def _walk(self, entries: Collection[int]) -> set[int]:
        """Return the contexts that are reached by a way on which no trace has ended, or that are compiled by themselves:
        what runs eagerly calls some of these, too."""
        found = set(entries)
        eager: set[int] = set()
        pending = deque(found)
        while pending:
            caller = pending.popleft()
            for callee in self._calls.get(caller, ()):
                if callee in found:
                    continue
                site = self._call((caller, callee))
                behind = caller in eager or self._effects.is_overridden(callee, caller)
                behind = behind or self._is_behind(site) or self._is_eager(site)
                if not behind or self._is_compiled(callee):
                    found.add(callee)
                    eager.discard(callee)
                elif callee not in eager:
                    eager.add(callee)
                else:
                    continue
                pending.append(callee)
        return found


def _unusual(conditions: frozenset[Condition]) -> frozenset[Condition]:
    """Return those that do not hold by default."""
    return frozenset(condition for condition in conditions if condition.usual is not True)
