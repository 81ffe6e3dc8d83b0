"""Prove regions: compile each alone, with the printed lines, on the calls that it got in a real forward."""

from __future__ import annotations

import contextlib
import copy
import functools
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from tcready.dynamic.worker.core.budget import spent
from tcready.dynamic.worker.core.calling import compile_error, without_autocast
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import BUDGET_SPENT, counted
from tcready.dynamic.worker.measure.agreement import ComparedCalls, Prepare, judge
from tcready.dynamic.worker.measure.call_outcome import CallOutcome, join_outcomes
from tcready.dynamic.worker.measure.dispatch_counts import CountingBackend
from tcready.dynamic.worker.measure.outcome_structure import differs
from tcready.dynamic.worker.measure.output_comparison import outcome_of
from tcready.dynamic.worker.measure.recorded_calls import RecordedCall, record_calls
from tcready.dynamic.worker.plan.placements import fresh
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.compile_calls import (
    execute,
    isolates_recompiles,
    refusing_breaks,
    restored,
    takes_recompile_limit,
)
from tcready.dynamic.worker.torch_internals.recording import recording
from tcready.portable.compile_code import (
    HOLDERS,
    Tree,
    code_of,
    groups_of,
    is_bare_leaf,
    name_of,
    operations,
    with_option,
)
from tcready.portable.events import to_schema
from tcready.portable.events.record import RECOMPILE_LIMIT, Record
from tcready.schema.run import RegionTrial
from torch import nn

MIN_SHARE = 0.01
"""The least share of the operations or of the time of a region that is tried."""
MOSTLY = 0.75
"""The least share of the operations of a region in graphs. No break is allowed, but operations that Dynamo adds around
a graph, such as making a tensor of a number, are counted as well."""
ALIKE = 2
"""If that many members of a group fail with the same message, the whole group counts as failed."""
ISOLATED = "isolate_recompiles=True"
"""Each call of `torch.compile` keeps its compiled code, and its count, separate from others of the same code."""
UNSPECIALISED = "torch._dynamo.config.allow_unspec_int_on_nn_module = True"
"""Dynamo then treats integers on modules as symbols, like those of arguments."""
COMPILE_ID = re.compile(r"^\d+/\d+: ")
CAPTURING = """\
torch._dynamo.config.capture_scalar_outputs = True
torch._dynamo.config.capture_dynamic_output_shape_ops = True
"""
"""Numbers read from tensors, and sizes that depend on data, then become symbols: by default they break the graph."""
INTEGER_ON_SELF = re.compile(r"^\w+\.[\w.]+ == -?\d+$")


@dataclass(frozen=True)
class RegionGroup:
    """Similar modules: of one class and code, with similar children, at the same positions of lists."""

    pattern: str
    names: tuple[str, ...]
    alike: tuple[str, ...]
    """All modules at that pattern."""


@dataclass
class _Alone:
    """The result of compiling a group alone."""

    error: str | None = None
    site: Any = None
    guards: dict[str, None] = field(default_factory=dict)
    compilations: int = 0
    limit: bool = False
    identical: bool = False
    difference: str | None = None
    ops: int = 0
    captured: int = 0

    @property
    def against(self) -> str | None:
        """Return why the region is rejected; None if it is valid."""
        if self.error is not None:
            return self.error
        if self.difference is not None:
            return f"what it gives differs from eager: {self.difference}"
        if self.identical:
            return "a call with the same inputs compiles again: " + "; ".join(self.guards)
        if not self.ops:
            return "no operation runs in it"
        if self.captured < MOSTLY * self.ops:
            return f"{self.ops - self.captured} of its {self.ops} operations stay outside of graphs"
        return None


def repeated_groups(tree: Tree) -> list[RegionGroup]:
    """The outermost modules with similar ones, those with the most weight first: one compilation may serve them all."""
    found: list[RegionGroup] = []
    for group in _groups(tree, (name for name in tree if _runs(tree, name))):
        if len(group.names) < 2 or _too_small(tree, group.names):
            continue
        if all(is_bare_leaf(tree, name) for name in group.names):
            continue
        inside = any(name.startswith(f"{other}.") for name in group.names for known in found for other in known.names)
        if not inside:
            found.append(group)
    return found


def proved_regions(context: Context, tree: Tree, tops: Sequence[str]) -> Iterator[RegionTrial]:
    """Try the modules `tops`, and if they are refuted the modules in them, down to the leaves; yield each when it is
    done."""
    waiting = [*_runnable_modules(tree, tops)]
    while waiting:
        calls_by_name = _record_calls(context, waiting)
        refused: list[str] = []
        with fresh(context) as model:
            for group in _groups(tree, waiting):
                if _too_small(tree, group.names):
                    continue
                for trial, below in _try_group(context, tree, model, group, calls_by_name):
                    yield trial
                    refused += below
        waiting = [*_runnable_modules(tree, (child for name in refused for child in tree.children[name]))]


def proved_groups(context: Context, tree: Tree, groups: Sequence[RegionGroup]) -> Iterator[RegionTrial]:
    """Try groups as a whole, without the modules below them."""
    calls_by_name = _record_calls(context, [name for group in groups for name in group.names])
    with fresh(context) as model:
        for group in groups:
            for trial, _ in _try_group(context, tree, model, group, calls_by_name):
                yield trial


def _groups(tree: Tree, names: Iterable[str]) -> Iterator[RegionGroup]:
    for pattern, members, alike in groups_of(tree, names):
        yield RegionGroup(pattern, tuple(members), tuple(alike))


def _runs(tree: Tree, name: str) -> bool:
    return bool(name) and tree.modules[name].type not in HOLDERS


def _runnable_modules(tree: Tree, names: Iterable[str]) -> Iterator[str]:
    """Return `names`, with modules that have no forward replaced by their children."""
    for name in names:
        if tree.modules[name].type in HOLDERS:
            yield from _runnable_modules(tree, tree.children[name])
        else:
            yield name


def _too_small(tree: Tree, names: Sequence[str]) -> bool:
    ops, seconds = _shares(tree, names)
    return max(ops, seconds or 0.0) < MIN_SHARE


def _shares(tree: Tree, names: Sequence[str]) -> tuple[float, float | None]:
    """Return the shares of the operations of the whole call, and of their time."""
    total, whole = operations(tree, ""), tree.modules[""].seconds
    ops = sum(operations(tree, name) for name in names)
    seconds = sum(tree.modules[name].seconds or 0.0 for name in names)
    return ops / total if total else 0.0, seconds / whole if whole else None


def _record_calls(context: Context, names: Sequence[str]) -> Mapping[str, list[RecordedCall]]:
    """Record calls of every case."""
    found: dict[str, list[RecordedCall]] = {}
    for case in context.cases:
        for name, calls in record_calls(context, case, set(names)).items():
            found.setdefault(name, []).extend(calls)
    return found


def _try_group(
    context: Context, tree: Tree, model: Any, group: RegionGroup, calls_by_name: Mapping[str, list[RecordedCall]]
) -> Iterator[tuple[RegionTrial, list[str]]]:
    """Yield the trial of a group, in parts if its members differ: each with the modules to try next."""
    called = tuple(name for name in group.names if calls_by_name.get(name))
    idle = tuple(name for name in group.names if name not in called)
    if spent(context):
        yield _trial(tree, group, group.names, "predicted", f"not run: {BUDGET_SPENT}"), []
        return
    if idle:
        # Only methods of the module are called, or a parameter is read: modules in it may be called.
        yield _trial(tree, group, idle, "predicted", "not called as a module in this run"), list(idle)
    if not called:
        return
    context.journal.write(f"plan, {group.pattern or 'the model'} alone")
    code = _code(tree, group, called)
    calls = {name: calls_by_name[name] for name in called}
    alone = _compile_alone(context, model, code, calls)
    if alone.error is not None:
        captured = _compile_alone(context, model, CAPTURING + code, calls)
        if captured.against is None and not captured.limit:
            trial, _ = _outcome(context, tree, model, group, called, calls_by_name, captured)
            yield replace(trial, code=CAPTURING + code, site=alone.site), []
            return
    if alone.against is None or len(called) == 1:
        yield _outcome(context, tree, model, group, called, calls_by_name, alone)
        return
    refused: dict[str, _Alone] = {}
    members: list[str] = []
    for name in called:
        if not members and len(refused) >= ALIKE and len({one.error for one in refused.values()}) == 1:
            refused[name] = next(iter(refused.values()))
            continue
        one = _compile_alone(context, model, _code(tree, group, (name,)), {name: calls_by_name[name]})
        if one.against is None:
            members.append(name)
        else:
            refused[name] = one
    first = next(iter(refused.values()), alone)
    if not refused:  # each one works alone, but not all together
        refused, members = dict.fromkeys(called, alone), []
    trial = _trial(tree, group, tuple(refused), "refuted", first.against or "")
    yield replace(trial, site=first.site), list(refused)
    if members:
        code = _code(tree, group, members)
        alone = _compile_alone(context, model, code, {name: calls_by_name[name] for name in members})
        yield _outcome(context, tree, model, group, tuple(members), calls_by_name, alone)


def _outcome(
    context: Context,
    tree: Tree,
    model: Any,
    group: RegionGroup,
    names: tuple[str, ...],
    calls_by_name: Mapping[str, list[RecordedCall]],
    alone: _Alone,
) -> tuple[RegionTrial, list[str]]:
    """Return the trial of all of `names` with the printed code; if they recompile, with a workaround."""
    code = _code(tree, group, names)
    workaround = ""
    if alone.against is None and alone.compilations > 1:
        calls = {name: calls_by_name[name] for name in names}
        found = _find_workaround(code, alone, len(names), lambda lines: _compile_alone(context, model, lines, calls))
        if found is not None:
            workaround = found.line
            if alone.limit:
                code, alone = found.code, replace(found.alone, guards=alone.guards)
    why = alone.against
    if why is None and alone.limit:
        why = (
            f"{counted(len(names), 'instance')} compile {alone.compilations} times and reach the recompile limit: those"
            f" beyond it run eagerly ({'; '.join([*alone.guards][:2])})"
        )
    trial = replace(
        _trial(tree, group, names, "refuted" if why else "proved", why or _how(len(names))),
        code=code,
        compilations=alone.compilations,
        guards=tuple(alone.guards),
        cure=workaround,
        site=alone.site,
    )
    return trial, list(names) if why else []


def _how(instances: int) -> str:
    """Return in one line how it was proved."""
    of = f" in each of {instances} instances" if instances > 1 else ""
    return f"compiled alone{of}: no break, the outputs of eager"


@dataclass(frozen=True)
class _Workaround:
    """A line or an option that was tried, the code with it, and the result."""

    line: str
    code: str
    alone: _Alone


def _find_workaround(code: str, alone: _Alone, instances: int, run: Callable[[str], _Alone]) -> _Workaround | None:
    """Find a line or option with which fewer compilations suffice, or all instances stay below the recompile limit."""
    if alone.guards and all(INTEGER_ON_SELF.match(guard) for guard in alone.guards):
        lines = f"{UNSPECIALISED}\n{code}"
        found = run(lines)
        if _holds(found) and (alone.limit or found.compilations < alone.compilations):
            return _Workaround(UNSPECIALISED, lines, found)
    if not alone.limit:
        return None
    options = [f"recompile_limit={max(instances, 2)}"] if takes_recompile_limit() else []
    options += [ISOLATED] if isolates_recompiles() else []
    tried = [_Workaround(option, lines, run(lines)) for option in options for lines in [with_option(code, option)]]
    # With equally many compilations, prefer isolated ones: a call then checks only the guards of its own instance, and
    # other sizes do not reach a limit that the instances used up.
    return min(
        (each for each in reversed(tried) if _holds(each.alone)), key=lambda each: each.alone.compilations, default=None
    )


def _holds(alone: _Alone) -> bool:
    return alone.against is None and not alone.limit


def _code(tree: Tree, group: RegionGroup, names: Sequence[str]) -> str:
    return code_of(tree, name_of(tree, names, group.alike), names)


def _trial(tree: Tree, group: RegionGroup, names: Sequence[str], state: Any, reason: str) -> RegionTrial:
    ops, seconds = _shares(tree, names)
    return RegionTrial(
        name_of(tree, names, group.alike),
        tuple(names),
        state,
        reason,
        _code(tree, group, names),
        ops_share=ops,
        time_share=seconds,
    )


def _compile_alone(context: Context, model: Any, code: str, calls: Mapping[str, list[RecordedCall]]) -> _Alone:
    """Compile only what `code` names in `model`, on recorded calls: all of them once, then once more."""
    found = _Alone()
    dynamo.reset()
    modules = {name: model.get_submodule(name) for name in calls}
    # Hooks see this call, so it is the recorded one: a class may have a `__call__` of its own around it.
    functions = {name: functools.partial(nn.Module.__call__, module) for name, module in modules.items()}
    backend = CountingBackend(model, context.work.options.device)
    unequal: list[tuple[str, RecordedCall, CallOutcome]] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(restored(()))
        stack.enter_context(_put_back(modules.values()))
        cold, warm = Record(), Record()
        try:
            execute(code, model, backend)
            stack.enter_context(refusing_breaks())
            stack.enter_context(backend.adopting())
            for name, recorded in calls.items():
                for call in recorded:
                    output = call.call(functions[name], recording(cold, every_guard=True))
                    if differs(outcome_of(call.output), actual := outcome_of(output)):
                        unequal.append((name, call, actual))
            for name, recorded in calls.items():
                recorded[0].call(functions[name], recording(warm, every_guard=True), backend.count())
        except Exception as error:
            found.error = compile_error(error, context)
            found.site = to_schema.refusal(error, context.names)
            return found
    if unequal:
        found.difference = _difference(context, code, unequal)
    again = [event for event in cold.recompiles if event.recompiled]
    found.compilations = sum(1 for frame in cold.compiled if frame.ops)
    for event in [*again, *warm.recompiles]:
        found.guards.update(
            dict.fromkeys(COMPILE_ID.sub("", reason.partition("  #")[0].strip()) for reason in event.reasons)
        )
    found.limit = any(event.gb_type == RECOMPILE_LIMIT for event in (*cold.skips, *warm.skips))
    found.identical = any(event.recompiled for event in warm.recompiles)
    found.ops, found.captured = backend.counts.total.ops.total(), backend.counts.captured.ops.total()
    if found.limit:  # the instances beyond it run eagerly, which is another matter
        found.captured = found.ops
    return found


def _difference(context: Context, code: str, unequal: Sequence[tuple[str, RecordedCall, CallOutcome]]) -> str | None:
    """Return how unequal outputs differ; None if that is rounding."""

    def run(model: Any, prepare: Prepare, is_compiled: bool) -> CallOutcome:
        if is_compiled:
            dynamo.reset()
            execute(code, model, "eager")
        outcomes = {}
        with contextlib.nullcontext() if is_compiled else torch.compiler.set_stance("force_eager"):
            for number, (name, call, _) in enumerate(unequal):
                case = prepare(Case(None, call.args, dict(call.kwargs)))
                function = functools.partial(nn.Module.__call__, model.get_submodule(name))
                prepared = replace(call, args=case.args, kwargs=case.kwargs)
                outcomes[_of_call(number)] = outcome_of(prepared.call(without_autocast(context, function)))
        return join_outcomes(outcomes)

    expected = {_of_call(number): outcome_of(call.output) for number, (_, call, _) in enumerate(unequal)}
    actual = {_of_call(number): output for number, (_, _, output) in enumerate(unequal)}
    cases = [Case(None, call.args, dict(call.kwargs)) for _, call, _ in unequal]
    with restored(()):
        found = judge(context, join_outcomes(expected), join_outcomes(actual), ComparedCalls(run, cases=cases))
    return None if found.ok else found.text


def _of_call(number: int) -> str:
    return f" of call {number + 1}" if number else ""


@contextlib.contextmanager
def _put_back(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Restore modules afterwards, undoing the changes of the lines and of calls: the same model is tried again."""
    every = {id(part): part for module in modules for part in module.modules()}
    attributes = {key: dict(vars(part)) for key, part in every.items()}
    insides = {
        key: {name: copy.copy(value) for name, value in values.items() if type(value) in (list, dict, set, OrderedDict)}
        for key, values in attributes.items()
    }
    buffers = {key: [(buffer, buffer.clone()) for buffer in part.buffers(recurse=False)] for key, part in every.items()}
    try:
        yield
    finally:
        for key, part in every.items():
            vars(part).clear()
            vars(part).update(attributes[key])
            for name, inside in insides[key].items():
                _refill(vars(part)[name], inside)
            with torch.no_grad():
                for buffer, value in buffers[key]:
                    buffer.copy_(value)


def _refill(container: Any, inside: Any) -> None:
    container.clear()
    if isinstance(container, list):
        container.extend(inside)
    else:
        container.update(inside)
