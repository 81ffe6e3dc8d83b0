"""Incremental replay: results of compiled calls from before the last edit, without interpreting them again.

An interpretation that has met the same situations as the one before it, in order and with the same results, is in the
same state. If it then reaches a call unaffected by the edit, neither in the functions that it runs nor in the objects
that they read, the results there are the same. So the cost of an edit depends on the code that it affects.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tcready.static.domain.facts import Condition, Enclosing, Fact, extent
from tcready.static.domain.heap import Object
from tcready.static.domain.scope import Env, Frame
from tcready.static.domain.values import Value
from tcready.static.frontend.index import (
    ANY,
    CLASSES,
    FUNCTIONS,
    IMPORTS,
    ClassInfo,
    FunctionInfo,
    ModuleInfo,
    Outline,
    SymbolTable,
    outline,
)
from tcready.static.frontend.source import Source
from tcready.static.interp.interfaces import Context, Engine, Generic
from tcready.static.summaries.call_summaries import EntryState, Marks, Met, SummaryStep

WORD = re.compile(r"\w+")
Edge: TypeAlias = "tuple[int, int]"
Place: TypeAlias = "tuple[FunctionInfo, int, int, str]"
"""A position in a function: the line, relative to its start, the column, and the outcome of the code there."""


@dataclass
class Log:
    """The contexts that one interpretation met and the facts it emitted, in order."""

    met: list[Met] = field(default_factory=list)
    steps: dict[int, SummaryStep] = field(default_factory=dict)
    """By the context that they begin with."""
    facts: list[Fact] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    """Objects that were looked at."""
    idents: list[tuple[tuple[object, ...], int]] = field(default_factory=list)
    """Objects that were made or met again, by what they are known by."""
    calls: list[Place] = field(default_factory=list)
    gaps: list[Place] = field(default_factory=list)
    marked: list[tuple[bool, ast.Call]] = field(default_factory=list)
    """Calls of which the first alone counts that they give, and those that are given a sequence of unknown length."""
    names: list[tuple[ModuleInfo, str]] = field(default_factory=list)
    """Names of files that were read."""
    edges: list[Edge] = field(default_factory=list)
    closures: list[Frame] = field(default_factory=list)
    """Variables that were kept for functions defined among them."""
    used: list[int] = field(default_factory=list)
    """Those that were read."""
    generic: list[tuple[Generic, Env | None, Env]] = field(default_factory=list)
    """Situations that were taken into one with others, before and after."""

    def marks(self) -> Marks:
        """Return the current lengths of the lists."""
        return Marks(*(len(getattr(self, name)) for name in Marks.__slots__))


@dataclass(frozen=True)
class Recorded:
    """The state that an interpretation leaves for the one after the next edit."""

    log: Log
    contexts: Sequence[Context]
    edges: Mapping[Edge, dict[tuple[Enclosing, ...], None]]
    under: Mapping[Edge, tuple[Condition, ...]]
    lines: Mapping[Edge, int]
    unknown_callees: Mapping[int, dict[ast.expr, None]]
    computing: Collection[int]
    odd: Mapping[FunctionInfo, Mapping[ast.AST, tuple[int, int]]]
    """Nodes that were made for code of a function, used by facts but not in its tree: their first and last line, relative
    to its start."""
    read: Mapping[FunctionInfo, ast.AST]
    """Functions that were not only called but read, and their trees then."""
    outlines: Mapping[ModuleInfo, tuple[Source, Outline]]
    answers: Mapping[tuple[str, str], bool | tuple[str, ...]]
    """The results of queries on whole texts."""


class Replay:
    """Beside a reading: notes what it does, and finds again what the one before it did."""

    def __init__(self, engine: Engine, before: Recorded | None) -> None:
        self._engine = engine
        self.log = Log()
        self.outside = 0
        """Counts events that belong to no single compiled call: contexts entered since cannot be replayed."""
        self._read: dict[FunctionInfo, ast.AST] = {}
        self._outlines: dict[ModuleInfo, tuple[Source, Outline]] = {}
        self._before = before if before is not None and self._is_of_use(before) else None
        self._in_step = self._before is not None
        self._stale: list[int] = []
        """Contexts of what was edited since."""
        self._stale_functions: set[FunctionInfo] = set()
        self._replayed: set[int] = set()
        self._snapshots: dict[int, tuple[tuple[object, ...], Object]] = {}
        if self._before is not None:
            for number, met in enumerate(self._before.log.met):
                if met.function is not None and met.function.node is not met.node:
                    self._stale.append(number)
                    self._stale_functions.add(met.function)
            for function, nodes in self._before.odd.items():
                for node, (first, last) in nodes.items():
                    begins = function.node.lineno
                    vars(node).update(lineno=begins + first, end_lineno=begins + last)

    def _is_of_use(self, before: Recorded) -> bool:
        """Return whether the edits since then are only in bodies of functions, or in code that nobody has read."""
        if any(info.node is not node for info, node in before.read.items()):
            return False
        methods: set[str] = set()
        for module, (source, then) in before.outlines.items():
            if module.source is source:
                self._outlines[module] = source, then
                continue
            now = outline(module)
            self._outlines[module] = module.source, now
            texts = {key: (then.bound.get(key, ""), now.bound.get(key, "")) for key in {*then.bound, *now.bound}}
            if any(old != new and _was_requested(module, key, (old, new)) for key, (old, new) in texts.items()):
                return False
            methods = methods or {
                name
                for each in before.outlines.values()
                for (symbol, name), text in each[1].bound.items()
                if symbol and text.startswith("def ")
            }
            named = (names ^ now.named.get(info, names) for info, names in then.named.items())
            if not all(methods.isdisjoint(names) for names in named):
                return False
        if not self._outlines:
            return True
        program = self._engine.program
        return all(program.answer(*question) == then for question, then in before.answers.items())

    # what is noted

    def called(self, info: FunctionInfo, line: int, column: int, became: str) -> None:
        """As `interfaces.Notes`."""
        self.log.calls.append((info, line, column, became))

    def missed(self, info: FunctionInfo, line: int, column: int, what: str) -> None:
        """As `interfaces.Notes`."""
        self.log.gaps.append((info, line, column, what))

    def marked(self, call: ast.Call, *, first: bool) -> None:
        """As `interfaces.Notes`."""
        self.log.marked.append((first, call))

    def named(self, module: ModuleInfo, name: str) -> None:
        """As `interfaces.Notes`."""
        self.log.names.append((module, name))

    def linked(self, caller: int, callee: int) -> None:
        """As `interfaces.Notes`."""
        self.log.edges.append((caller, callee))

    def closed(self, frame: Frame) -> None:
        """As `interfaces.Notes`."""
        self.log.closures.append(frame)

    def used(self, closure: int) -> None:
        """As `interfaces.Notes`."""
        self.log.used.append(closure)

    def generalised(self, key: Generic, before: Env | None, after: Env) -> None:
        """As `interfaces.Notes`."""
        self.log.generic.append((key, before, after))

    # what is met

    def meet(
        self,
        situation_key: tuple[object, ...],
        around: tuple[object, ...],
        caller: tuple[object, ...],
        function: FunctionInfo | None,
    ) -> None:
        """Record that a context is about to be entered, the next one."""
        elsewhere = self._engine.heap.changes.elsewhere
        node = function.node if function is not None else None
        met = Met(situation_key, around, caller, function, node, elsewhere)
        number = len(self.log.met)
        self.log.met.append(met)
        if self._in_step and self._before is not None:
            then = self._before.log.met[number] if number < len(self._before.log.met) else None
            self._in_step = (
                then is not None
                and then.function is function
                and then.caller == caller
                and then.around == around
                and then.situation_key == situation_key
            )

    def enter(self) -> EntryState:
        """Return the state at the start of a compiled call, for `leave`."""
        changes = self._engine.heap.changes
        return EntryState(
            self.log.marks(),
            self._engine.heap.count,
            self.outside,
            changes.count - len(changes.attributes),
            len(changes.attributes),
            (changes.elsewhere, changes.dynamic),
        )

    def leave(self, context: int, gave: Value, entry_state: EntryState | None) -> None:
        """End the call; `entry_state` is the result of `enter` if the call may be replayed."""
        engine, log = self._engine, self.log
        met = log.met[context]
        met.gave, met.switched, met.end = gave, engine.switched, len(engine.contexts)
        if self._in_step and self._before is not None:
            then = self._before.log.met[context]
            self._in_step = (
                then.end == met.end
                and then.gave == gave
                and then.switched == met.switched
                and not (met.elsewhere != engine.heap.changes.elsewhere and self._is_stale(met))
            )
        if entry_state is not None and entry_state.outside == self.outside:
            self._keep(context, entry_state)

    def _is_stale(self, met: Met) -> bool:
        """Return whether a function, or one that encloses it, was edited."""
        if met.function in self._stale_functions:
            return True
        closure = met.situation_key[1] if met.function is not None else 0
        frame = self._engine.closures.get(closure) if isinstance(closure, int) else None
        while frame is not None and frame.function not in self._stale_functions:
            frame = frame.parent
        return frame is not None

    def _keep(self, context: int, entry_state: EntryState) -> None:
        """Keep a step, unless the call has put anything into what was there before it."""
        engine, log = self._engine, self.log
        heap, changes = engine.heap, engine.heap.changes
        stored = changes.attributes[entry_state.attributes :]
        if (changes.elsewhere, changes.dynamic) != entry_state.others:
            return
        if changes.count - len(changes.attributes) != entry_state.unnamed:
            return
        objects, since = entry_state.objects, entry_state.marks
        fresh = range(objects + 1, heap.count + 1)
        own = {id(thing) for thing in heap.known(fresh)} if stored else set()
        if not all(ident in own for ident, _ in stored):
            return
        until = log.marks()
        end = len(engine.contexts)
        if any(number <= since.closures for number in log.used[since.used :]):
            return
        if not all(context <= fact.where.context < end for fact in log.facts[since.facts : until.facts]):
            return
        seen = {ident for ident in log.reads[since.reads : until.reads] if ident <= objects}
        log.steps[context] = SummaryStep(
            context,
            end,
            objects,
            since,
            until,
            tuple((ident, self._snapshot(ident)) for ident in seen),
            tuple((ident, thing.copied()) for ident, thing in zip(fresh, heap.known(fresh), strict=True)),
        )

    def _snapshot(self, ident: int) -> Object:
        thing = self._engine.heap.at(ident)
        known = self._snapshots.get(ident)
        if known is None or known[0] != thing.stamp():
            known = self._snapshots[ident] = thing.stamp(), thing.copied()
        return known[1]

    def read(self, info: FunctionInfo) -> None:
        """Record that the text of a function decides something without a call."""
        self._read[info] = info.node

    def begin_entry(self, path: str) -> None:
        """Record that another model is about to run, a context of its own; building it may have changed objects
        unseen."""
        self._snapshots.clear()
        self.meet((path,), (), (), None)

    # what is found again

    def step(self) -> SummaryStep | None:
        """Return the step that begins with the context that was met last, if it can be taken."""
        before = self._before
        if not self._in_step or before is None:
            return None
        number = len(self.log.met) - 1
        step = before.log.steps.get(number)
        if step is None or step.objects != self._engine.heap.count:
            return None
        if step.since.closures != len(self._engine.closures):
            return None
        generic: dict[Generic, Env | None] = {}
        for key, known, _ in before.log.generic[step.since.generic : step.until.generic]:
            generic.setdefault(key, known)
        if any(self._engine.generic.get(key) != known for key, known in generic.items()):
            return None
        index = bisect_left(self._stale, step.first)
        if index < len(self._stale) and self._stale[index] < step.end:
            return None
        heap = self._engine.heap
        for made_by, ident in before.log.idents[step.since.idents : step.until.idents]:
            if heap.ident_of(made_by) != (ident if ident <= step.objects else None):
                return None
        if not all(heap.at(ident).is_like(then) for ident, then in step.seen):
            return None
        count = len(self._engine.contexts), heap.count, self.outside
        for module, name in dict.fromkeys(before.log.names[step.since.names : step.until.names]):
            self._engine.names.global_value(module, name)
        if (len(self._engine.contexts), heap.count, self.outside) != count:
            self._in_step = False
            return None
        return step

    def take(self, step: SummaryStep) -> Sequence[Met]:
        """Replay all that the step recorded, except call results cached by functions; return the contexts that it met."""
        assert self._before is not None
        engine, before, log = self._engine, self._before, self.log
        then, since, until = before.log, step.since, step.until
        offset = _difference(log.marks(), since)
        engine.contexts.extend(before.contexts[step.first : step.end])
        log.met[step.first :] = then.met[step.first : step.end]
        log.facts += then.facts[since.facts : until.facts]
        log.reads += then.reads[since.reads : until.reads]
        log.idents += then.idents[since.idents : until.idents]
        log.calls += then.calls[since.calls : until.calls]
        log.gaps += then.gaps[since.gaps : until.gaps]
        log.marked += then.marked[since.marked : until.marked]
        log.names += then.names[since.names : until.names]
        log.edges += then.edges[since.edges : until.edges]
        log.closures += then.closures[since.closures : until.closures]
        log.used += then.used[since.used : until.used]
        log.generic += then.generic[since.generic : until.generic]
        for number in range(step.first, step.end):
            self._replayed.add(number)
            inner = then.steps.get(number)
            if inner is not None:
                log.steps[number] = _shift_lines(inner, offset)
            if number in before.unknown_callees:
                engine.unknown_callees[number] = before.unknown_callees[number]
            if number in before.computing:
                engine.computing.add(number)
        for place in then.calls[since.calls : until.calls]:
            engine.note_call(*place)
        for info, line, column, word in then.gaps[since.gaps : until.gaps]:
            engine.gaps[str(info.module.path), info.node.lineno + line, column] = word
        for first, call in then.marked[since.marked : until.marked]:
            (engine.firsts if first else engine.spread).add(call)
        for edge in then.edges[since.edges : until.edges]:
            engine.edges.setdefault(edge, {}).update(before.edges[edge])
            engine.under.setdefault(edge, before.under[edge])
            function = before.contexts[edge[0]].function if edge[0] >= 0 else None
            begins = function.node.lineno if function is not None else 0
            engine.lines.setdefault(edge, begins + before.lines[edge])
        for frame in then.closures[since.closures : until.closures]:
            engine.closures[frame.key] = frame
        for key, _, after in then.generic[since.generic : until.generic]:
            engine.generic[key] = after
        heap = engine.heap
        for made_by, ident in then.idents[since.idents : until.idents]:
            if ident > step.objects:
                heap.put_back(ident, made_by)
        for ident, thing in step.made:
            heap.put_at(ident, thing.copied())
        return then.met[step.first : step.end]

    def recorded(self) -> Recorded:
        """Return the state for the next interpretation."""
        engine = self._engine
        lines = {}
        for edge, line in engine.lines.items():
            function = engine.contexts[edge[0]].function if edge[0] >= 0 else None
            lines[edge] = line - (function.node.lineno if function is not None else 0)
        outlines = {
            module: self._outlines.get(module) or (module.source, outline(module))
            for module in engine.program.modules()
        }
        return Recorded(
            self.log,
            engine.contexts,
            engine.edges,
            engine.under,
            lines,
            engine.unknown_callees,
            engine.computing,
            self._odd(),
            {**(self._before.read if self._before is not None else {}), **self._read},
            outlines,
            {**(self._before.answers if self._before is not None else {}), **engine.program.answers},
        )

    def _odd(self) -> dict[FunctionInfo, dict[ast.AST, tuple[int, int]]]:
        """As `Recorded.odd`."""
        inside: dict[FunctionInfo, set[ast.AST]] = {}
        found: dict[FunctionInfo, dict[ast.AST, tuple[int, int]]] = {}
        for edited, nodes in self._before.odd.items() if self._before is not None else ():
            if edited not in self._stale_functions:
                found[edited] = {**nodes}
        for fact in self.log.facts:
            function = self._engine.contexts[fact.where.context].function
            if function is None or fact.where.context in self._replayed:
                continue
            tree = inside.get(function)
            if tree is None:
                tree = inside[function] = {*function.nodes}
            for node in {fact.node, *extent(fact)} - tree:
                first = node.lineno - function.node.lineno
                last = (node.end_lineno or node.lineno) - function.node.lineno
                found.setdefault(function, {})[node] = first, last
        return found


def _difference(now: Marks, then: Marks) -> tuple[int, ...]:
    return tuple(a - b for a, b in zip(_numbers(now), _numbers(then), strict=True))


def _numbers(marks: Marks) -> Iterable[int]:
    return (getattr(marks, name) for name in Marks.__slots__)


def _shift_lines(step: SummaryStep, offset: tuple[int, ...]) -> SummaryStep:
    if not any(offset):
        return step
    since, until = (
        Marks(*(a + b for a, b in zip(_numbers(marks), offset, strict=True))) for marks in (step.since, step.until)
    )
    return SummaryStep(step.first, step.end, step.objects, since, until, step.seen, step.made)


def _was_requested(module: ModuleInfo, key: tuple[str, str], texts: tuple[str, ...]) -> bool:
    """Return whether anybody has read what a file or a class of it binds to a name."""
    symbol, name = key
    if not name:
        return True
    if not symbol:
        return _is_in(module.bindings, name, texts)
    cls = _class_at(module, symbol.split("."))
    return cls is None or any(_is_in(table, name, texts) for table in _tables_for(cls, texts))


def _is_in(table: Mapping[str, object], name: str, texts: tuple[str, ...]) -> bool:
    if not isinstance(table, SymbolTable) or not table.requested.isdisjoint((name, ANY)):
        return True
    if CLASSES in table.requested and any(text.startswith("class ") for text in texts):
        return True
    if FUNCTIONS in table.requested and any(text.startswith("def ") for text in texts):
        return True
    packages = [each.removeprefix(IMPORTS) for each in table.requested if each.startswith(IMPORTS)]
    imports = [text for text in texts if text.lstrip().startswith(("from ", "import "))]
    return any(package in WORD.findall(text) or "from ." in text for package in packages for text in imports)


def _tables_for(cls: ClassInfo, texts: tuple[str, ...]) -> tuple[Mapping[str, object], ...]:
    """Return the tables of a class that such statements fill."""
    if any(text.startswith(("def ", "class ")) for text in texts):
        return cls.tables()
    if all(text.startswith("= ") for text in texts if text):
        return (cls.assigned,)
    return cls.assigned, cls.annotated


def _class_at(module: ModuleInfo, names: Sequence[str]) -> ClassInfo | None:
    found = [b for b in module.bound().get(names[0], []) if isinstance(b, ClassInfo)]
    cls = found[0] if len(found) == 1 else None
    for name in names[1:]:
        cls = dict.get(cls.inner, name) if cls is not None else None
    return cls
