"""The call graph of one analysis: what is reached from where, and what a module runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from tcready.static.domain.facts import Condition, undecided
from tcready.static.interp.interpreter import Interpreter


@dataclass(frozen=True)
class CallPath:
    """A call path to a context: the symbols on it, outermost first, and the conditions of the calls."""

    symbols: tuple[str, ...]
    conditions: tuple[Condition, ...]


class CallGraph:
    """Contexts of the interpreter as nodes, calls as edges."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._contexts = interpreter.contexts
        self._under = interpreter.under
        self._calls: dict[int, list[int]] = {}
        for caller, callee in interpreter.edges:
            self._calls.setdefault(caller, []).append(callee)
        self._methods: dict[int, list[int]] = {}
        """The contexts of each module's methods."""
        for context in self._contexts:
            if context.module is not None:
                self._methods.setdefault(context.module, []).append(context.number)

    def ways(self, entry: int) -> dict[int, CallPath]:
        """For every context reached from `entry` the way there on which the least must hold; a shortest one of these."""
        found: dict[int, CallPath] = {}
        pending = [(0, 0, 0, entry, CallPath(self._step((), entry), ()))]
        known = count(1)
        while pending:
            _, steps, _, caller, way = heappop(pending)
            if caller in found:
                continue
            found[caller] = way
            for callee in self._calls.get(caller, ()):
                if callee not in found:
                    conditions = (*way.conditions, *self._under.get((caller, callee), ()))
                    on = CallPath(self._step(way.symbols, callee), conditions)
                    heappush(pending, (len(undecided(conditions)), steps + 1, next(known), callee, on))
        return found

    def _step(self, chain: tuple[str, ...], context: int) -> tuple[str, ...]:
        symbol = self._contexts[context].symbol
        named = self._contexts[context].function is not None and symbol not in chain
        return (*chain, symbol) if named else chain

    def run_by(self, ident: int, below: Collection[int] = ()) -> set[int]:
        """Contexts that run as part of one module instance: its methods and all that they call, down to, not into,
        the methods of the modules `below` it, which answer for themselves."""
        seen = set(self._methods.get(ident, ()))
        pending = list(seen)
        while pending:
            for following in self._calls.get(pending.pop(), ()):
                if following not in seen and self._contexts[following].module not in below:
                    seen.add(following)
                    pending.append(following)
        return seen
