"""The effect of a break on the functions around it: which Dynamo splits, which it runs eagerly as a whole.

Dynamo compiles function by function. If a break is in straight-line code, the function is compiled up to it and again
after it; inside a loop, a `try` or a `with` of the user's, the whole function runs eagerly. Either way its caller meets
the same break at the call, and so on up to the entry.

With `torch._dynamo.config.nested_graph_breaks` a call in straight-line code is split together with its caller: the break
is met once, and the code after it is compiled as part of the caller, whether the function is compiled by itself or not.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tcready.schema.break_effect import BreakEffect, FrameFate
from tcready.schema.enums import FATES, Effect, Fate
from tcready.static.domain.facts import INLINED, Enclosing, Fact, Test
from tcready.static.domain.values import UNKNOWN
from tcready.static.frontend.index import FunctionInfo, own_nodes
from tcready.static.interp.frame_filter import is_of_torch, is_torch
from tcready.static.interp.interfaces import Context
from tcready.static.interp.interpreter import Interpreter

COMPREHENSIONS: frozenset[Enclosing] = frozenset({"comprehension", "function"})
UNBROKEN: frozenset[Enclosing] = COMPREHENSIONS | {"checkpoint"}
"""The blocks that may enclose a break that splits the function all the same: a comprehension is a function of its own."""
PROPERTIES = frozenset({"property", "cached_property", "functools.cached_property"})
FINDS_ATTRIBUTES = "__getattr__"
"""The method that is run by reading an attribute that its object has not of its own."""
CALLED_UNNAMED = frozenset({"forward", "__call__", "__init__"})
"""Methods that run where an object or a class is called."""
CONSTRUCT = "construct"
"""The cause where what breaks is compiled up to and no further."""
Cause = str | None
"""The reason why the whole function runs eagerly; None if a break splits it."""


class BreakEffects:
    """The effects of breaks in one analysis; the contexts `entries` call its compiled functions; `nested`: with nested
    graph breaks."""

    def __init__(self, interpreter: Interpreter, entries: Collection[int], *, nested: bool = False) -> None:
        self._interpreter = interpreter
        self._nested = nested
        self._contexts = interpreter.contexts
        self._callers: dict[int, list[int]] = {}
        self._calls: dict[int, list[int]] = {}
        for caller, callee in interpreter.edges:
            self._callers.setdefault(callee, []).append(caller)
            self._calls.setdefault(caller, []).append(callee)
        self._names: dict[FunctionInfo, _Names] = {}
        self._known: dict[tuple[int, bool], bool] = {}
        self._traced = self._reachable(entries)
        self._resumed = self._resumed_with_callers() if nested else set[int]()
        self._depths = self._measured(entries)
        self._computing = self._computing_contexts()

    def effect(self, standing: Mapping[int, Cause]) -> BreakEffect | None:
        """Return the effect of a break in some contexts, each with the reason why all of it runs eagerly.

        None if no compiled function leads there.
        """
        causes = self._contexts_meeting(standing)
        if not causes:
            return None
        fates: dict[FunctionInfo, FrameFate] = {}
        for number in sorted(causes, key=lambda n: (self._depths[n], n)):
            context = self._contexts[number]
            if context.function is not None:
                fate = self._fate(context, causes[number])
                known = fates.setdefault(context.function, fate)
                if FATES.index(fate.fate) > FATES.index(known.fate):
                    fates[context.function] = fate
        nearest = min((n for n in standing if n in causes), key=lambda n: (self._depths[n], n))
        own = self._contexts[nearest].function
        if own is None:
            return None
        return BreakEffect(
            frame=fates.pop(own),
            above=tuple(fates.values()),
            levels=self._depths[nearest],
            chains=self._ways(own, causes),
        )

    def run_by_python(self, standing: Mapping[int, Cause], constructors: Collection[int]) -> set[int]:
        """Return those of these contexts, all of constructors, that Python runs itself and does not leave to the trace of
        the caller: something breaks in them, or all of the caller runs eagerly, as a constructor does that breaks."""
        causes = self._contexts_meeting(standing)
        found = {each for each in constructors if each in causes}
        left = [each for each in constructors if each not in found]
        count = -1
        while count < len(found):
            count = len(found)
            found.update(
                each
                for each in left
                if any(c in found or causes.get(c) is not None for c in self._callers.get(each, ()))
            )
        return found

    def eager_code(self, points: Mapping[int, Iterable[tuple[int, Cause]]]) -> EagerCode:
        """Return the part of the compiled code that Python runs itself if breaks are on these lines of some contexts,
        each with the reason why all of the function runs eagerly."""
        causes = self._contexts_meeting(
            {c: next((cause for _, cause in met if cause), None) for c, met in points.items()}
        )
        behind: dict[int, int] = {}
        lines: dict[int, frozenset[int]] = {}
        for context in causes:
            met = [*points.get(context, ())]
            inside: list[tuple[int, Cause]] = []
            for callee in self._calls.get(context, ()):
                if callee in causes:
                    line = self._interpreter.lines.get((context, callee), 0)
                    nested = self._is_split_with(context, callee)
                    (inside if nested else met).append((line, self._cause_of_call(context, callee)))
            lines[context] = frozenset(line for line, _ in met)
            met += inside
            # what a generator makes is known least: nothing is concluded from a break in one
            gives_up = min(((line, cause) for line, cause in met if cause and cause != "iterator"), default=None)
            if gives_up is not None and gives_up[1] == CONSTRUCT:
                behind[context] = gives_up[0]
            elif gives_up is not None:
                before = (line for line, cause in met if not cause and line < gives_up[0])
                behind[context] = max(before, default=0)
        met_by_trace = {c for c in causes if self._holds_nothing(c)}
        pending = [*behind, *met_by_trace]
        behind.update(dict.fromkeys(met_by_trace, 0))
        unmet: set[int] = set()
        while pending:
            caller = pending.pop()
            for callee in self._calls.get(caller, ()):
                line = self._interpreter.lines.get((caller, callee), 0)
                if callee in unmet or line <= behind[caller]:
                    continue
                if self._holds_nothing(callee):
                    unmet.add(callee)
                elif callee in behind or callee in causes or not self._computes_nothing(callee):
                    continue
                behind[callee] = 0
                pending.append(callee)
        return EagerCode(behind, lines, frozenset(unmet), self._callers, self._interpreter.lines)

    def _holds_nothing(self, context: int) -> bool:
        """Return whether it is a function that Dynamo does not compile by itself, as nothing in it is of torch."""
        info = self._contexts[context].function
        return info is not None and not info.is_generator and self._untraced(self._contexts[context]) == "no tensor"

    def _computes_nothing(self, context: int) -> bool:
        """Return whether it is a function that Dynamo traces by itself to find that no operation is in it, which leaves
        it to Python."""
        info = self._contexts[context].function
        return info is not None and not info.is_generator and context not in self._computing

    def _computing_contexts(self) -> set[int]:
        """Return the contexts in which an operation may be traced, including their callees; unknown for callers of
        unknown code."""
        found = {*self._interpreter.computing, *self._interpreter.unknown_callees}
        pending = list(found)
        while pending:
            for caller in self._callers.get(pending.pop(), ()):
                if caller not in found:
                    found.add(caller)
                    pending.append(caller)
        return found

    def _contexts_meeting(self, standing: Mapping[int, Cause]) -> dict[int, Cause]:
        """Return the compiled contexts that reach a break in some contexts, each with the reason why all of it runs
        eagerly."""
        causes = {context: cause for context, cause in standing.items() if context in self._depths}
        pending = list(causes)
        while pending:
            callee = pending.pop()
            for caller in self._callers.get(callee, ()):
                if caller not in self._depths:
                    continue
                if caller not in causes:
                    pending.append(caller)
                causes[caller] = causes.get(caller) or self._cause_of_call(caller, callee)
        return causes

    def _fate(self, context: Context, cause: Cause) -> FrameFate:
        info = context.function
        assert info is not None
        untraced = self._untraced(context)
        fate: Fate = "not_compiled" if untraced else "whole_frame" if cause else "split"
        path = self._interpreter.program.shown(info.module.path)
        first = min([info.node.lineno, *(decorator.lineno for decorator in info.decorators)])
        return FrameFate(path, first, info.symbol, fate, untraced or cause)

    def _cause_of_call(self, caller: int, callee: int) -> Cause:
        """Return the reason why all of the caller runs eagerly if the callee breaks: the kind of call, or an enclosing
        block."""
        called = self._contexts[callee].function
        if called is not None and called.is_generator:
            return "generator"  # its body is traced where it is consumed
        if called is not None and _is_run_by_reading(called) and not self._nested:
            return "property"  # Dynamo resumes after a call, not after an attribute read
        sites = self._interpreter.edges[caller, callee]
        return next((cause for enclosing in sites if (cause := cause_of(enclosing))), None)

    def _untraced(self, context: Context) -> Cause:
        """Why Dynamo never compiles a function by itself, None if it does."""
        assert context.function is not None
        if context.function.is_generator:
            return "generator"
        if context.number not in self._traced:
            return "checkpoint"
        resumed = context.number in self._resumed
        return None if resumed or self._may_hold_tensor(context) else "no tensor"

    def _is_split_with(self, caller: int, callee: int) -> bool:
        """With nested graph breaks: whether a break in a function splits its caller in the middle of the call.

        Not in a loop, a `try` or a `with`, of a generator, nor of a constructor (torch 2.13 to 2.15): there the caller
        meets the break at the call, and Dynamo compiles the function by itself.
        """
        calling, called = self._contexts[caller].function, self._contexts[callee].function
        if not self._nested or calling is None or called is None or called.is_generator:
            return False
        return called.name != "__init__" and () in self._interpreter.edges[caller, callee]

    def _resumed_with_callers(self) -> set[int]:
        """Return the contexts that resume after a break as part of a caller that Dynamo compiles."""
        pending = [c for c in self._traced if self._is_compiled_alone(c)]
        found: set[int] = set()
        while pending:
            caller = pending.pop()
            for callee in self._calls.get(caller, ()):
                if callee not in found and self._is_split_with(caller, callee):
                    found.add(callee)
                    pending.append(callee)
        return found

    def _is_compiled_alone(self, context: int) -> bool:
        info = self._contexts[context].function
        return info is not None and not info.is_generator and self._may_hold_tensor(self._contexts[context])

    def is_resumed_with_caller(self, context: int) -> bool:
        """Return whether, with nested graph breaks, a function resumes after a break as part of its caller."""
        return context in self._resumed

    def ends_caller(self, context: int) -> bool:
        """Return whether a function, if it breaks, makes all of its caller run eagerly: Dynamo cannot resume after an
        attribute read."""
        info = self._contexts[context].function
        return info is not None and _is_run_by_reading(info) and not self._nested

    def is_overridden(self, context: int, by: int) -> bool:
        """Return whether a property is read by the one that overrides it, which Dynamo does not follow
        (`super().name`)."""
        above, own = self._contexts[context].function, self._contexts[by].function
        if above is None or own is None or above is own or above.name != own.name:
            return False
        return _is_property(above) and _is_property(own)

    def calls_what_breaks(self, eager: EagerCode, context: int, line: int, names: Collection[str]) -> bool:
        """Return whether a statement of a function, which the trace reaches, calls something of one of these names that
        breaks, and the code compiled after the break continues within the statement."""
        if eager.runs(context, line) or context in eager.untraced:
            return False
        return any(
            callee in eager.broken
            and self._interpreter.lines.get((context, callee)) == line
            and (self.name(callee) in names or self.name(callee) in CALLED_UNNAMED)
            and self._cause_of_call(context, callee) is None
            for callee in self._calls.get(context, ())
        )

    def name(self, context: int) -> str:
        """Return the name of a function, empty for anything else."""
        info = self._contexts[context].function
        return info.name if info is not None else ""

    def holds_tensor(self, context: int) -> bool:
        """Return whether Dynamo compiles a function by itself: its arguments or names include something known to be of
        torch."""
        return self._may_hold_tensor(self._contexts[context], vague=False)

    def _may_hold_tensor(self, context: Context, *, vague: bool = True) -> bool:
        """Return whether Dynamo's quick check of a call finds anything of torch in its arguments or in the names of its
        code.

        `vague`: what nothing is known of counts, too.
        """
        key = context.number, vague
        if key not in self._known:
            self._known[key] = self._looks_of_torch(context, vague)
        return self._known[key]

    def _looks_of_torch(self, context: Context, vague: bool) -> bool:
        info = context.function
        assert info is not None
        if any(is_of_torch(self._interpreter, v, vague=vague) for v in context.arguments):
            return True
        if info not in self._names:
            self._names[info] = _names_of(info)
        names = self._names[info]
        around = context.around
        values = (around.lookup(name) if around is not None else UNKNOWN for name in names.free)
        if any(is_of_torch(self._interpreter, UNKNOWN if v is None else v, vague=vague) for v in values):
            return True  # it holds what the function around it holds
        return names.torch

    def _reachable(self, entries: Iterable[int]) -> set[int]:
        """Contexts that are reached without a checkpoint, which runs what it is given eagerly."""
        found = set(entries)
        pending = list(found)
        while pending:
            caller = pending.pop()
            for callee in self._calls.get(caller, ()):
                sites = self._interpreter.edges[caller, callee]
                if callee not in found and any("checkpoint" not in enclosing for enclosing in sites):
                    found.add(callee)
                    pending.append(callee)
        return found

    def _measured(self, entries: Iterable[int]) -> dict[int, int]:
        """For every context the compiled functions on the shortest way to it, itself included."""
        found = dict.fromkeys(entries, 0)
        pending = deque(found)
        while pending:
            caller = pending.popleft()
            for callee in self._calls.get(caller, ()):
                part = self._untraced(self._contexts[callee]) or self._is_split_with(caller, callee)
                step = 0 if part else 1
                if callee in found and found[callee] <= found[caller] + step:
                    continue
                found[callee] = found[caller] + step
                pending.append(callee)
        return found

    def _ways(self, own: FunctionInfo, on_the_way: Collection[int]) -> int:
        """Return the number of call paths to a function, by the functions on them; a path visits each once."""
        callers: dict[FunctionInfo, dict[FunctionInfo | None, None]] = {}
        for callee in on_the_way:
            called = self._contexts[callee].function
            for caller in self._callers.get(callee, ()):
                if called is not None and caller in on_the_way:
                    callers.setdefault(called, {})[self._contexts[caller].function] = None
        counted: dict[FunctionInfo | None, int] = {None: 1}

        def count(function: FunctionInfo) -> int:
            counted[function] = 0  # what calls itself comes round to nothing new
            counted[function] = sum(
                counted[above] if above is None or above in counted else count(above)
                for above in callers.get(function, ())
            )
            return counted[function]

        return max(count(own), 1)


@dataclass(frozen=True)
class EagerCode:
    """The part of the compiled code that Python runs itself. The trace meets a breaking generator first and marks it to
    be skipped, unless nothing of torch is around it either."""

    behind: Mapping[int, int]
    """Contexts that run eagerly from behind a line on: that of the construct that gives all that follows up, or else the
    last at which the function is split before what is left of it is given up. All of what Python calls if Dynamo finds
    no operation in it."""
    broken: Mapping[int, frozenset[int]]
    """Contexts that reach a break, and the lines on which they do."""
    untraced: frozenset[int]
    """Contexts that Python calls and Dynamo does not look into, as nothing in them is of torch."""
    callers: Mapping[int, Iterable[int]]
    lines: Mapping[tuple[int, int], int]

    def runs(self, context: int, line: int) -> bool:
        """Return whether Python runs a line of a function."""
        return context in self.behind and line > self.behind[context]

    def makes(self, generator: int) -> bool:
        """Return whether Python calls a generator function."""
        return any(
            self.runs(c, self.lines.get((c, generator), 0)) and (c in self.untraced or generator not in self.broken)
            for c in self.callers.get(generator, ())
        )

    def makes_on(self, context: int, first: int, last: int, *, by_its_own: bool, compiled: bool) -> bool:
        """Return whether Python makes the generator expression, or comprehension, on these lines of a function, and
        Dynamo meets it; `by_its_own`: a break in it is enough; `compiled`: Dynamo tries to compile it."""
        if context in self.untraced:
            return compiled
        if any(first <= line <= last for line in self.broken.get(context, ())):
            return by_its_own and (compiled or not self.runs(context, first))
        return compiled and self.runs(context, first)

    def breaks_on(self, context: int, first: int, last: int, since: int) -> bool:
        """Return whether the trace of a function reaches these lines, breaks there, and not between there and `since`."""
        if context in self.untraced or self.runs(context, first):
            return False
        met = self.broken.get(context, ())
        return any(first <= line <= last for line in met) and not any(since <= line < first for line in met)


def cause_of(enclosing: Iterable[Enclosing]) -> Cause:
    """Return the innermost statement around a place that makes the whole function eager; None if a break splits it."""
    return next((word for word in reversed(tuple(enclosing)) if word not in UNBROKEN), None)


def is_apart(around: Sequence[Enclosing]) -> bool:
    """Return whether a place is in a comprehension that is a function of its own to Python."""
    return sys.version_info < INLINED and bool(around) and around[-1] in COMPREHENSIONS


def cause_at(fact: Fact, effect: Effect, function: FunctionInfo | None) -> Cause:
    """Return the reason why `function` runs eagerly as a whole if `fact` breaks in it; None if a break splits it."""
    around = fact.where.enclosing
    if effect == "frame_skip" and not is_apart(around):
        return CONSTRUCT
    arguments = fact.node.args if isinstance(fact.node, ast.Call) else ()
    if any(isinstance(argument, ast.GeneratorExp) for argument in arguments):
        return "iterator"
    if isinstance(fact, Test) and fact.kind == "while" and function is not None:
        if any(isinstance(n, ast.While) and _tested(n.test) is fact.node for n in ast.walk(function.node)):
            around = around[:-1]  # all of a loop's test comes before the loop, and again at its end
    return cause_of(around)


def _tested(test: ast.expr) -> ast.expr:
    """Return the condition of a test without a leading `not`."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    return test


@dataclass(frozen=True)
class _Names:
    """The names in the code of a function: those of enclosing functions, sorted, and whether anything is torch's."""

    free: tuple[str, ...]
    torch: bool


def _names_of(info: FunctionInfo) -> _Names:
    nodes = list(own_nodes(info.node))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    free = tuple(sorted(names - _named_here(info))) if "<locals>" in info.symbol else ()
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return _Names(free, any(is_torch(info.module.bindings.get(name, ())) for name in names))


def _is_run_by_reading(info: FunctionInfo) -> bool:
    return info.name == FINDS_ATTRIBUTES or _is_property(info)


def _is_property(info: FunctionInfo) -> bool:
    return any(ast.unparse(decorator) in PROPERTIES for decorator in info.decorators)


def _named_here(info: FunctionInfo) -> set[str]:
    """Names that a function inside another does not take from that one: its own, the file's, Python's."""
    spec = info.node.args
    given = (*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *filter(None, (spec.vararg, spec.kwarg)))
    stored = (n.id for n in own_nodes(info.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return {arg.arg for arg in given} | {*stored} | {*info.module.bound()} | {*dir(builtins)}
