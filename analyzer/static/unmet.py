"""Claims that Dynamo does not come by, as an earlier break has ended its trace.

A break that sends the function it stands in to eager (a recurrent module is called) ends the trace of all that follows
in that function; what it calls from there is compiled by itself.

A function that holds no tensor is compiled as part of its caller alone. The first break in it ends that: the rest of the
function, and what it calls from there, runs eagerly and is never looked at (measured: a function of the standard library
that Dynamo skips, called by a helper that then opens files under a lock).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tcready.static.break_effect import BreakEffects
from tcready.static.engine.facts import Condition
from tcready.static.engine.interpreter import Interpreter


@dataclass(frozen=True)
class Site:
    """A break that is claimed: where it stands, what must hold in its function for it to be met, and whether it is sure
    that it is one."""

    context: int
    line: int
    conditions: frozenset[Condition]
    sure: bool
    skips: bool = False
    """The rest of its function runs eagerly, whatever that is."""


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
        self._known: dict[int, tuple[Site, ...]] = {}
        self._reached = self._walk(entries)

    def __call__(self, site: Site) -> bool:
        """Whether a break is not met."""
        if site.context not in self._reached:
            return True
        for end in self._skips.get(site.context, ()):
            if end.line < site.line and _unusual(end.conditions) <= site.conditions:
                return True
        return self._is_behind(site.context, site.line, site.conditions)

    def _is_behind(self, context: int, line: int, conditions: frozenset[Condition]) -> bool:
        """Whether the trace of a function has ended before a line, whenever that is come by."""
        if self._is_compiled(context):
            return False
        return any(end.line < line and end.conditions <= conditions for end in self._ends(context))

    def _is_compiled(self, context: int) -> bool:
        """Whether Dynamo compiles it by itself, too: what follows a break in it is traced."""
        return self._contexts[context].function is None or self._effects.holds_tensor(context)

    def _ends(self, context: int, above: frozenset[int] = frozenset()) -> tuple[Site, ...]:
        """Where the trace of a function ends: at its own breaks, and where it calls what breaks for certain."""
        if context not in self._known:
            inner = above | {context}
            found = list(self._sure.get(context, ()))
            for callee in self._calls.get(context, ()):
                edge = context, callee
                if callee in inner or edge not in self._lines:
                    continue
                if any(not end.conditions for end in self._ends(callee, inner)):
                    conditions = frozenset(self._under.get(edge, ()))
                    found.append(Site(context, self._lines[edge], conditions, True))
            self._known[context] = tuple(found)
        return self._known[context]

    def _walk(self, entries: Collection[int]) -> set[int]:
        """The contexts that are reached by a way on which no trace has ended, or that are compiled by themselves."""
        found = set(entries)
        pending = deque(found)
        while pending:
            caller = pending.popleft()
            for callee in self._calls.get(caller, ()):
                edge = caller, callee
                conditions = frozenset(self._under.get(edge, ()))
                behind = self._is_behind(caller, self._lines.get(edge, 0), conditions)
                if callee not in found and (not behind or self._is_compiled(callee)):
                    found.add(callee)
                    pending.append(callee)
        return found


def _unusual(conditions: frozenset[Condition]) -> frozenset[Condition]:
    """Those that do not hold if nothing else is said."""
    return frozenset(condition for condition in conditions if condition.usual is not True)
