"""Count ATen dispatches: in total, inside graphs, and by module."""

from __future__ import annotations

import contextlib
import inspect
import re
import statistics
import time
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from tcready.dynamic.worker.core.frames import FrameNames, is_user_file
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.dispatch import DispatchMode, calling_frames
from tcready.portable.events.definitions import RESUME
from tcready.schema.observation import ModuleShare
from torch import nn
from torch.nn.modules import module as hooks

ROOT = re.compile(r"^L\['(\w+)'\]")
STEP = re.compile(r"\.(\w+)|\[(-?\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")


Site = tuple[str, int]
"""Display path and line of a break site."""


@dataclass(frozen=True)
class Owners:
    """Finds the break that causes code to run eagerly, from a running frame (paths as Python knows them)."""

    lines: Mapping[tuple[str, int], Site] = field(default_factory=dict)
    """File and line that break the graph."""
    codes: Mapping[tuple[str, int, str], Site] = field(default_factory=dict)
    """File, first line and name of a function, or of a resumed part of one, that Dynamo did not compile because of a
    site."""
    again: frozenset[tuple[str, int, str]] = frozenset()
    """Those that were recompiled: at Dynamo's limit they run eagerly, without a break."""

    def site_of(self, frames: Iterator[types.FrameType]) -> Site | None:
        """Return the site of the innermost frame that belongs to a known break."""
        calls_the_rest = False
        for frame in frames:
            code = frame.f_code
            key = code.co_filename, code.co_firstlineno, code.co_name
            # The call of the rest of a function after a break is on the line of the break, which did not cause the rest.
            at_line = None if calls_the_rest else self.lines.get((code.co_filename, frame.f_lineno))
            found = at_line or self.codes.get(key)
            if found is not None or key in self.again:
                return found
            calls_the_rest = code.co_name.startswith(RESUME)
        return None


@dataclass
class Tally:
    """The number of dispatches and their seconds."""

    ops: Counter[Any] = field(default_factory=Counter)
    seconds: defaultdict[Any, float] = field(default_factory=lambda: defaultdict(float))

    @property
    def seconds_in_all(self) -> float:
        return sum(self.seconds.values())

    def add(self, other: Tally) -> None:
        self.ops.update(other.ops)
        for key, spent in other.seconds.items():
            self.seconds[key] += spent


@dataclass
class Counts:
    """ATen dispatches by the dotted name of the innermost module that was running."""

    total: Tally = field(default_factory=Tally)
    captured: Tally = field(default_factory=Tally)
    outside: Tally = field(default_factory=Tally)
    """Dispatches outside of graphs, by break site."""
    called: Counter[str] = field(default_factory=Counter)
    """Dispatches in graphs by the module that called the graph. This need not be the innermost module or one around it:
    a graph also holds a part of the model that was lent to its module."""
    timed_calls: int | None = None
    """The number of calls after the counted one over which the seconds are the median, in the case with the fewest; 0:
    they are those of the counted call. None if nothing was counted."""

    calls: list[tuple[float, float]] = field(default_factory=list)
    """Seconds in graphs and in all of each call that was measured again."""

    def add(self, other: Counts) -> None:
        pairs = zip(self.calls, other.calls, strict=False)  # of several cases, the calls that each of them has
        both = [(one[0] + two[0], one[1] + two[1]) for one, two in pairs]
        self.calls = both if self.timed_calls is not None else [*other.calls]
        known = [calls for calls in (self.timed_calls, other.timed_calls) if calls is not None]
        self.timed_calls = min(known, default=None)
        self.total.add(other.total)
        self.captured.add(other.captured)
        self.outside.add(other.outside)
        self.called.update(other.called)


class Clock:
    """Measures dispatches: by events on a CUDA device, by the host's clock elsewhere."""

    def __init__(self, device: str) -> None:
        kind = torch.device(device).type
        self.on_device = kind == "cuda"
        self.name = None if kind == "meta" else "cuda" if self.on_device else "host"
        """None if nothing is computed, so that there is no time to measure."""
        self._pending: list[tuple[Any, Any, list[tuple[Tally, Any]]]] = []

    def begin(self, into: list[tuple[Tally, Any]]) -> Callable[[], None]:
        """Start to measure one dispatch for some tallies and their keys; return a function that ends the measurement."""
        if self.name is None:
            return lambda: None
        if not self.on_device:
            start = time.perf_counter()

            def end() -> None:
                spent = time.perf_counter() - start
                for tally, key in into:
                    tally.seconds[key] += spent

            return end
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        before.record()

        def behind() -> None:  # an operator that raises has no end to be read
            after.record()
            self._pending.append((before, after, into))

        return behind

    def close(self) -> None:
        """Read the events of the device; call this once the work is queued."""
        if self._pending:
            torch.cuda.synchronize()
        for before, after, into in self._pending:
            spent = before.elapsed_time(after) / 1000
            for tally, key in into:
                tally.seconds[key] += spent
        self._pending.clear()


def module_names(model: Any) -> dict[int, str]:
    """Map the identity of each module to its first dotted name; the root is ""."""
    return {id(module): name for name, module in model.named_modules()} if isinstance(model, nn.Module) else {}


@contextlib.contextmanager
def counted_eager(model: Any, counts: Counts) -> Iterator[None]:
    """Count each dispatch of an eager call for the module with the innermost forward.

    Global forward hooks maintain the stack of modules. They are removed before anything is compiled, since hooks
    change what Dynamo sees.
    """
    names = module_names(model)
    stack = [""]

    def enter(module: nn.Module, _args: Any) -> None:
        stack.append(names.get(id(module), stack[-1]))

    def leave(_module: nn.Module, _args: Any, _output: Any) -> None:
        stack.pop()

    def seen() -> None:
        # no clock: how long an operation takes in plain eager is not measured
        counts.total.ops[stack[-1]] += 1

    handles = [
        hooks.register_module_forward_pre_hook(enter),
        hooks.register_module_forward_hook(leave, always_call=True),
    ]
    try:
        with DispatchMode(seen):
            yield
    finally:
        for handle in handles:
            handle.remove()


class CountingBackend:
    """An eager backend that, while `count` is on, counts the dispatches of a compiled call by module.

    A dispatch inside a graph belongs to the module that the graph's node names (`nn_module_stack`), found at the
    moment of the call from the locals of the frame that called the graph: one graph may serve many instances of a
    class. If the node names none, and outside of graphs, it belongs to the module with the innermost method among the
    calling frames. No hook is set, because hooks change what Dynamo sees.
    """

    def __init__(self, model: Any, device: str = "cpu") -> None:
        self.names = module_names(model)
        self.shares = dynamo.is_sharded(model)
        """True if FSDP gathers parameters around the model's own operations; its operations for that are not counted."""
        self.counts = Counts()
        self.clock = Clock(device)
        self.owners = Owners()
        self.owned: dict[str, dict[str, None]] = {}
        """Compile id to the modules with operations in the graph."""
        self.counting = False
        self.in_graph: list[tuple[str, str]] = []
        """The module of the running node, and the caller of the graph."""
        self.timed: list[Counts] = []
        """Counts of the calls that were measured again."""
        self.own = 0
        """Graphs that were compiled for the run, not for the author's own `torch.compile`."""

    def __call__(self, graph: torch.fx.GraphModule, _inputs: Any) -> Callable[..., Any]:
        self.own += 1
        return self._counted(graph, graph.forward)

    def adopting(self) -> contextlib.AbstractContextManager[None]:
        """Count graphs of the author's own `torch.compile` within the context as graphs, too.

        Their own backend compiles and runs them. Counted calls run their operations one by one, so that they are
        counted like those of any other graph: a fused kernel dispatches none.
        """
        return dynamo.replacing_graphs(self._adopted)

    def _adopted(self, graph: torch.fx.GraphModule, make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
        own = self.own
        compiled = make()
        return compiled if self.own > own else self._counted(graph, compiled)

    def _counted(self, graph: torch.fx.GraphModule, compiled: Callable[..., Any]) -> Callable[..., Any]:
        modules = self.owned.setdefault(dynamo.compile_id() or "", {})

        def run(*args: Any) -> Any:
            # A graph inside a graph (a higher-order operator that compiles) counts as part of the outer one.
            if not self.counting or self.in_graph:
                return compiled(*args)
            return _Counting(graph, self, calling_module(self.names), modules).run(*args)

        return run

    def seen(self) -> Callable[[], None] | None:
        if not self.in_graph and self.shares and dynamo.gathers_parameters(calling_frames()):
            return None
        name, caller = self.in_graph[-1] if self.in_graph else (calling_module(self.names).name, "")
        into: list[tuple[Tally, Any]] = [(self.counts.total, name)]
        if self.in_graph:
            into.append((self.counts.captured, name))
            self.counts.called[caller] += 1
        elif (site := self.owners.site_of(calling_frames())) is not None:
            into.append((self.counts.outside, site))
        for tally, key in into:
            tally.ops[key] += 1
        return self.clock.begin(into)

    @contextlib.contextmanager
    def timing(self) -> Iterator[None]:
        """Measure one more call. The median time of such calls is reported with the numbers of the first one; the first
        one's own times are dropped, because they include the cost of the first call under a dispatch mode."""
        first, self.counts = self.counts, Counts()
        try:
            with self.count():
                yield
        finally:
            self.timed.append(self.counts)
            self.counts = first
            for tally, which in ((first.total, "total"), (first.captured, "captured"), (first.outside, "outside")):
                tally.seconds = _medians([getattr(counts, which).seconds for counts in self.timed])
            first.timed_calls = len(self.timed)
            first.calls = [(each.captured.seconds_in_all, each.total.seconds_in_all) for each in self.timed]

    @contextlib.contextmanager
    def count(self) -> Iterator[None]:
        """Count the dispatches of one warm call."""
        self.counting, self.counts.timed_calls = True, 0
        try:
            with DispatchMode(self.seen):
                yield
        finally:
            self.counting = False
            self.clock.close()


def _medians(calls: list[defaultdict[Any, float]]) -> defaultdict[Any, float]:
    keys = {key for call in calls for key in call}
    return defaultdict(float, {key: statistics.median(call[key] for call in calls) for key in keys})


@dataclass(frozen=True)
class Caller:
    """The locals of the innermost frame that is a method of a module, and that module's name."""

    values: Mapping[str, Any]
    name: str


def calling_module(names: dict[int, str]) -> Caller:
    """Return the module in `names` with the innermost method among the calling frames; else the root."""
    for frame in calling_frames():
        code = frame.f_code
        if not code.co_argcount:
            continue
        # A part of a method that Dynamo made to resume after a break takes the method's locals as arguments,
        # in an order of its own.
        arguments = code.co_varnames[: code.co_argcount] if code.co_name.startswith(RESUME) else ()
        values = frame.f_locals
        for name in dict.fromkeys((code.co_varnames[0], *(("self",) if arguments else ()), *arguments)):
            found = names.get(id(values.get(name)))
            if found is not None:
                return Caller(values, found)
    return Caller({}, "")


class _Counting(torch.fx.Interpreter):  # type: ignore[misc]
    """Runs a graph node by node, and informs the backend which module a node belongs to."""

    def __init__(
        self, graph: torch.fx.GraphModule, backend: CountingBackend, caller: Caller, modules: dict[str, None]
    ) -> None:
        super().__init__(graph)
        self.backend = backend
        self.caller = caller
        self.modules = modules

    def run_node(self, n: torch.fx.Node) -> Any:
        name = self._module_of(n)
        if n.op.startswith("call_"):
            self.modules[name] = None
        self.backend.in_graph.append((name, self.caller.name))
        try:
            return super().run_node(n)
        finally:
            self.backend.in_graph.pop()

    def _module_of(self, node: torch.fx.Node) -> str:
        stack = node.meta.get("nn_module_stack") or {}
        for path, _kind in reversed(list(stack.values())):
            found = self.backend.names.get(id(follow(str(path), self.caller.values)))
            if found is not None:
                return found
        return self.caller.name


def follow(path: str, values: Mapping[str, Any]) -> Any:
    """Return the object that `L['self'].layers[0]` (or `.layers.0`) names among a frame's locals, or None."""
    root = ROOT.match(path)
    if root is None or root[1] not in values:
        return None
    value = values[root[1]]
    for attribute, index, single, double in STEP.findall(path[root.end() :]):
        key = single or double
        step = attribute or index or key
        children = getattr(value, "_modules", {})
        try:
            if step in children:
                value = children[step]
            elif index:
                value = value[int(index)]
            else:
                value = value[key] if key else getattr(value, attribute)
        except (AttributeError, KeyError, IndexError, TypeError):
            return None
    return value


def module_tree(model: Any, counts: Counts, names: FrameNames, compiled: bool) -> tuple[ModuleShare, ...]:
    """Return every named module in order; `ops` and `ops_captured` include the subtree's, `ops_self` does not.

    All three are of the same call: the warm compiled one, and an eager one only if nothing was compiled.
    """
    if not isinstance(model, nn.Module):
        return ()
    timed = compiled and bool(counts.total.seconds)
    return tuple(
        ModuleShare(
            name,
            type(module).__name__,
            below(counts.total.ops, name),
            below(counts.captured.ops, name) if compiled else None,
            below(counts.total.seconds, name) if timed else None,
            *_forward_place(module, names),
            counts.total.ops[name],
            below(counts.captured.seconds, name) if timed else None,
        )
        for name, module in model.named_modules()
    )


def below(counts: Mapping[str, Any], name: str) -> Any:
    """Return the sum over a module and all modules in it."""
    inside = f"{name}." if name else ""
    return sum(count for key, count in counts.items() if key == name or key.startswith(inside))


def _forward_place(module: nn.Module, names: FrameNames) -> tuple[str | None, int | None]:
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    if code is None or not is_user_file(code.co_filename):
        return None, None
    return names.path(code.co_filename), code.co_firstlineno
