"""Find claims that Dynamo does not reach, because an earlier break ended its trace.

A break that sends the function it stands in to eager (a recurrent module is called) ends the trace of all that follows
in that function; what it calls from there is compiled by itself.

What a function calls once it runs eagerly is compiled by itself only if it holds a tensor: what is given to it, or what
its code names. So is what is called by a property that breaks: Dynamo goes on behind a call, not behind an attribute.

A function that holds no tensor is compiled as part of its caller alone. The first break in it ends that: the rest of the
function, and what it calls from there, runs eagerly and is never looked at (measured: a function of the standard library
that Dynamo skips, called by a helper that then opens files under a lock). With nested graph breaks the rest of the
function goes on as a part of its caller.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tcready.static.break_effect import FINDS_ATTRIBUTES, BreakEffects
from tcready.static.engine.facts import Condition
from tcready.static.engine.interpreter import Interpreter


@dataclass(frozen=True)
class Site:
    """A break that is claimed: where it stands, what must hold in its function for it to be met, and whether it is sure
    that it is one."""

    context: int
    line: tuple[int, int]
    """That on which it runs: of a place that is assigned to, (last line of the value, 1); of any other, (its own, 0)."""
    conditions: frozenset[Condition]
    sure: bool
    skips: bool = False
    """The rest of its function runs eagerly, whatever that is."""
    around: int = 0
    """So many loops, comprehensions and the like stand around it."""
    reads: frozenset[str] = frozenset()
    """Attributes that are read for it: on its line, and before it."""
    read: str = ""
    """Of a property that breaks, its name; `__getattr__`, which finds attributes of many names."""
    comprehension: tuple[int, int] | None = None
    """Line and column of the innermost comprehension around it, if that is a function of its own."""
    compiled: bool = False
    """Dynamo compiles that comprehension by itself, too."""

    def is_behind(self, end: Site) -> bool:
        """Whether it comes after another place of its function: the first `for` of a comprehension is walked before what
        the comprehension makes of its members."""
        if self.line != end.line:
            return self.line > end.line
        if self.around > end.around or end.read in self.reads:
            return True
        return end.read == FINDS_ATTRIBUTES and bool(self.reads)


class Unmet:
    """Which of the claimed breaks are not met, by context."""

    def __init__(
        self,
        interpreter: Interpreter,
        effects: BreakEffects,
        entries: Collection[int],
        sites: Iterable[Site],
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
        """Whether a break is not met."""
        if site.context not in self._reached:
            return True
        return self._is_eager(site) or self._is_behind(site)

    def _is_eager(self, site: Site) -> bool:
        """Whether its function runs eagerly from an earlier place on."""
        return any(
            site.is_behind(end) and _unusual(end.conditions) <= site.conditions
            for end in self._skipping(site.context)
            if end.comprehension == site.comprehension or (end.comprehension is None and not site.compiled)
        )

    def _is_behind(self, site: Site) -> bool:
        """Whether the trace of its function has ended before it, whenever that is come by."""
        if self._is_compiled(site.context):
            return False
        resumed = self._effects.is_resumed_with_caller(site.context)
        return any(
            site.is_behind(end) and end.conditions <= site.conditions
            for end in self._ends(site.context)
            if end.around or not resumed
        )

    def _skipping(self, context: int) -> tuple[Site, ...]:
        """What sends a function to eager as a whole: its own breaks, and properties that break for certain."""
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
        """The place of a call, as what it calls would break."""
        around = min(map(len, self._edges[edge]), default=0)
        return Site(
            edge[0], (self._lines.get(edge, 0), 0), frozenset(self._under.get(edge, ())), True, around=around
        )

    def _is_compiled(self, context: int) -> bool:
        """Whether Dynamo compiles it by itself, too: what follows a break in it is traced."""
        function = self._contexts[context].function
        return function is None or (not function.is_generator and self._effects.holds_tensor(context))

    def _ends(self, context: int, above: frozenset[int] = frozenset()) -> tuple[Site, ...]:
        """Where the trace of a function ends: at its own breaks, and where it calls what breaks for certain."""
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
        """The contexts that are reached by a way on which no trace has ended, or that are compiled by themselves: what
        runs eagerly calls some of these, too."""
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
    """Those that do not hold if nothing else is said."""
    return frozenset(condition for condition in conditions if condition.usual is not True)
