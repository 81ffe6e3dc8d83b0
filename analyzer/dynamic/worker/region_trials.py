"""Prove regions: compile each alone, with the printed lines, on its calls in an eager forward."""

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
from tcready.dynamic.worker.agreement import Calls, Prepare, differs, judge
from tcready.dynamic.worker.budget import spent
from tcready.dynamic.worker.calling import compile_error, without_autocast
from tcready.dynamic.worker.case import Case
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.journal import BUDGET_SPENT, counted
from tcready.dynamic.worker.kept_calls import KeptCall, kept_calls
from tcready.dynamic.worker.ops import CountingBackend
from tcready.dynamic.worker.outcome import Outcome, joined
from tcready.dynamic.worker.parity import outcome_of
from tcready.dynamic.worker.placements import fresh
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.placement import (
    executed,
    isolates_recompiles,
    refusing_breaks,
    restored,
    takes_recompile_limit,
)
from tcready.dynamic.worker.torch_internals.recording import recording
from tcready.events import narrate
from tcready.events.record import RECOMPILE_LIMIT, Record
from tcready.placing import (
    HOLDERS,
    Tree,
    code_of,
    groups_of,
    is_bare_leaf,
    name_of,
    operations,
    with_option,
)
from tcready.schema.run import RegionTrial
from torch import nn

MIN_SHARE = 0.01
"""Of the operations, and of the time: what is below both is not tried."""
MOSTLY = 0.75
"""Of a region's operations so many must be in graphs. No break is allowed; what Dynamo does around a graph, to make a
tensor of a number for one, is counted as well."""
ALIKE = 2
"""So many members of a group that fail with the same words speak for all of it."""
ISOLATED = "isolate_recompiles=True"
"""Each call of `torch.compile` keeps what it compiles, and counts it, apart from others of the same code."""
UNSPECIALISED = "torch._dynamo.config.allow_unspec_int_on_nn_module = True"
"""Dynamo takes integers on modules as symbols then, as it does those of arguments."""
COMPILE_ID = re.compile(r"^\d+/\d+: ")
CAPTURING = """\
torch._dynamo.config.capture_scalar_outputs = True
torch._dynamo.config.capture_dynamic_output_shape_ops = True
"""
"""Numbers read from tensors, and sizes that depend on data, become symbols then: by default they break the graph."""
INTEGER_ON_SELF = re.compile(r"^\w+\.[\w.]+ == -?\d+$")


@dataclass(frozen=True)
class Group:
    """Modules alike: of one class and code, over children alike, at the same positions of lists."""

    pattern: str
    names: tuple[str, ...]
    alike: tuple[str, ...]
    """All modules at that pattern."""


@dataclass
class _Alone:
    """What compiling a group alone came to."""

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
        """Why the region is no region; None if it is one."""
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


def repeated(tree: Tree) -> list[Group]:
    """The outermost modules that have others alike, weightiest first: one compilation may serve them all."""
    found: list[Group] = []
    for group in _groups(tree, (name for name in tree if _runs(tree, name))):
        if len(group.names) < 2 or _too_small(tree, group.names):
            continue
        if all(is_bare_leaf(tree, name) for name in group.names):
            continue
        inside = any(
            name.startswith(f"{other}.") for name in group.names for known in found for other in known.names
        )
        if not inside:
            found.append(group)
    return found


def proved_regions(context: Context, tree: Tree, tops: Sequence[str]) -> Iterator[RegionTrial]:
    """Try the modules `tops`, and where they are refuted what is in them, down to the leaves; each as it is done."""
    waiting = [*_running(tree, tops)]
    while waiting:
        kept = _kept(context, waiting)
        refused: list[str] = []
        with fresh(context) as model:
            for group in _groups(tree, waiting):
                if _too_small(tree, group.names):
                    continue
                for trial, below in _tried(context, tree, model, group, kept):
                    yield trial
                    refused += below
        waiting = [*_running(tree, (child for name in refused for child in tree.children[name]))]


def proved_groups(context: Context, tree: Tree, groups: Sequence[Group]) -> Iterator[RegionTrial]:
    """Try groups whole, and nothing below them."""
    kept = _kept(context, [name for group in groups for name in group.names])
    with fresh(context) as model:
        for group in groups:
            for trial, _ in _tried(context, tree, model, group, kept):
                yield trial


def _groups(tree: Tree, names: Iterable[str]) -> Iterator[Group]:
    for pattern, members, alike in groups_of(tree, names):
        yield Group(pattern, tuple(members), tuple(alike))


def _runs(tree: Tree, name: str) -> bool:
    return bool(name) and tree.modules[name].type not in HOLDERS


def _running(tree: Tree, names: Iterable[str]) -> Iterator[str]:
    """`names`, and in place of those that have no forward what they hold."""
    for name in names:
        if tree.modules[name].type in HOLDERS:
            yield from _running(tree, tree.children[name])
        else:
            yield name


def _too_small(tree: Tree, names: Sequence[str]) -> bool:
    ops, seconds = _shares(tree, names)
    return max(ops, seconds or 0.0) < MIN_SHARE


def _shares(tree: Tree, names: Sequence[str]) -> tuple[float, float | None]:
    """Of the operations of the whole call, and of their time."""
    total, whole = operations(tree, ""), tree.modules[""].seconds
    ops = sum(operations(tree, name) for name in names)
    seconds = sum(tree.modules[name].seconds or 0.0 for name in names)
    return ops / total if total else 0.0, seconds / whole if whole else None


def _kept(context: Context, names: Sequence[str]) -> Mapping[str, list[KeptCall]]:
    """Of every case."""
    found: dict[str, list[KeptCall]] = {}
    for case in context.cases:
        for name, calls in kept_calls(context, case, set(names)).items():
            found.setdefault(name, []).extend(calls)
    return found


def _tried(
    context: Context, tree: Tree, model: Any, group: Group, kept: Mapping[str, list[KeptCall]]
) -> Iterator[tuple[RegionTrial, list[str]]]:
    """What a group comes to, in parts where its members differ: each with the modules to be looked into."""
    called = tuple(name for name in group.names if kept.get(name))
    idle = tuple(name for name in group.names if name not in called)
    if spent(context):
        yield _trial(tree, group, group.names, "predicted", f"not run: {BUDGET_SPENT}"), []
        return
    if idle:
        # A module of which only methods are called, or a parameter is read: what is in it may be called.
        yield _trial(tree, group, idle, "predicted", "not called as a module in this run"), list(idle)
    if not called:
        return
    context.journal.write(f"plan, {group.pattern or 'the model'} alone")
    code = _code(tree, group, called)
    calls = {name: kept[name] for name in called}
    alone = _alone(context, model, code, calls)
    if alone.error is not None:
        captured = _alone(context, model, CAPTURING + code, calls)
        if captured.against is None and not captured.limit:
            trial, _ = _outcome(context, tree, model, group, called, kept, captured)
            yield replace(trial, code=CAPTURING + code, site=alone.site), []
            return
    if alone.against is None or len(called) == 1:
        yield _outcome(context, tree, model, group, called, kept, alone)
        return
    refused: dict[str, _Alone] = {}
    members: list[str] = []
    for name in called:
        if not members and len(refused) >= ALIKE and len({one.error for one in refused.values()}) == 1:
            refused[name] = next(iter(refused.values()))
            continue
        one = _alone(context, model, _code(tree, group, (name,)), {name: kept[name]})
        if one.against is None:
            members.append(name)
        else:
            refused[name] = one
    first = next(iter(refused.values()), alone)
    if not refused:  # each by itself, and not all together
        refused, members = dict.fromkeys(called, alone), []
    trial = _trial(tree, group, tuple(refused), "refuted", first.against or "")
    yield replace(trial, site=first.site), list(refused)
    if members:
        code = _code(tree, group, members)
        alone = _alone(context, model, code, {name: kept[name] for name in members})
        yield _outcome(context, tree, model, group, tuple(members), kept, alone)


def _outcome(
    context: Context,
    tree: Tree,
    model: Any,
    group: Group,
    names: tuple[str, ...],
    kept: Mapping[str, list[KeptCall]],
    alone: _Alone,
) -> tuple[RegionTrial, list[str]]:
    """What all of `names` under the one code that is printed came to; where they compile again, with a cure."""
    code = _code(tree, group, names)
    cure = ""
    if alone.against is None and alone.compilations > 1:
        calls = {name: kept[name] for name in names}
        cured = _cured(code, alone, len(names), lambda lines: _alone(context, model, lines, calls))
        if cured is not None:
            cure = cured.line
            if alone.limit:
                code, alone = cured.code, replace(cured.alone, guards=alone.guards)
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
        cure=cure,
        site=alone.site,
    )
    return trial, list(names) if why else []


def _how(instances: int) -> str:
    """In one line, how it was proved."""
    of = f" in each of {instances} instances" if instances > 1 else ""
    return f"compiled alone{of}: no break, the outputs of eager"


@dataclass(frozen=True)
class _Cure:
    """A line or an option that was tried, the code with it, and what that came to."""

    line: str
    code: str
    alone: _Alone


def _cured(code: str, alone: _Alone, instances: int, run: Callable[[str], _Alone]) -> _Cure | None:
    """Find what makes fewer compilations serve, or keeps all instances below the recompile limit."""
    if alone.guards and all(INTEGER_ON_SELF.match(guard) for guard in alone.guards):
        lines = f"{UNSPECIALISED}\n{code}"
        found = run(lines)
        if _holds(found) and (alone.limit or found.compilations < alone.compilations):
            return _Cure(UNSPECIALISED, lines, found)
    if not alone.limit:
        return None
    options = [f"recompile_limit={max(instances, 2)}"] if takes_recompile_limit() else []
    options += [ISOLATED] if isolates_recompiles() else []
    tried = [_Cure(option, lines, run(lines)) for option in options for lines in [with_option(code, option)]]
    # Of as many compilations those that are kept apart: a call checks the guards of its own instance alone, and other
    # sizes meet no limit that the instances used up.
    return min(
        (each for each in reversed(tried) if _holds(each.alone)),
        key=lambda each: each.alone.compilations,
        default=None,
    )


def _holds(alone: _Alone) -> bool:
    return alone.against is None and not alone.limit


def _code(tree: Tree, group: Group, names: Sequence[str]) -> str:
    return code_of(tree, name_of(tree, names, group.alike), names)


def _trial(tree: Tree, group: Group, names: Sequence[str], state: Any, reason: str) -> RegionTrial:
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


def _alone(context: Context, model: Any, code: str, calls: Mapping[str, list[KeptCall]]) -> _Alone:
    """Compile what `code` names, and nothing else of `model`, on kept calls: all of them once, then once more."""
    found = _Alone()
    dynamo.reset()
    modules = {name: model.get_submodule(name) for name in calls}
    # What hooks see, and so what was kept, is this call: a class may have one of its own around it.
    functions = {name: functools.partial(nn.Module.__call__, module) for name, module in modules.items()}
    backend = CountingBackend(model, context.work.options.device)
    unequal: list[tuple[str, KeptCall, Outcome]] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(restored(()))
        stack.enter_context(_put_back(modules.values()))
        cold, warm = Record(), Record()
        try:
            executed(code, model, backend)
            stack.enter_context(refusing_breaks())
            stack.enter_context(backend.adopting())
            for name, kept in calls.items():
                for call in kept:
                    output = call.call(functions[name], recording(cold, every_guard=True))
                    if differs(outcome_of(call.output), actual := outcome_of(output)):
                        unequal.append((name, call, actual))
            for name, kept in calls.items():
                kept[0].call(functions[name], recording(warm, every_guard=True), backend.count())
        except Exception as error:
            found.error = compile_error(error, context)
            found.site = narrate.refusal(error, context.names)
            return found
    if unequal:
        found.difference = _difference(context, code, unequal)
    again = [event for event in cold.recompiles if event.kept]
    found.compilations = sum(1 for frame in cold.compiled if frame.ops)
    for event in [*again, *warm.recompiles]:
        found.guards.update(dict.fromkeys(_guard(reason) for reason in event.reasons))
    found.limit = any(event.gb_type == RECOMPILE_LIMIT for event in (*cold.skips, *warm.skips))
    found.identical = any(event.kept for event in warm.recompiles)
    found.ops, found.captured = backend.counts.total.ops.total(), backend.counts.captured.ops.total()
    if found.limit:  # the instances beyond it run eagerly, which is another matter
        found.captured = found.ops
    return found


def _difference(context: Context, code: str, unequal: Sequence[tuple[str, KeptCall, Outcome]]) -> str | None:
    """How outputs differ that are not equal; None if that is rounding."""

    def run(model: Any, prepare: Prepare, is_compiled: bool) -> Outcome:
        if is_compiled:
            dynamo.reset()
            executed(code, model, "eager")
        outcomes = {}
        with contextlib.nullcontext() if is_compiled else torch.compiler.set_stance("force_eager"):
            for number, (name, call, _) in enumerate(unequal):
                case = prepare(Case(None, call.args, dict(call.kwargs)))
                function = functools.partial(nn.Module.__call__, model.get_submodule(name))
                prepared = replace(call, args=case.args, kwargs=case.kwargs)
                outcomes[_of_call(number)] = outcome_of(prepared.call(without_autocast(context, function)))
        return joined(outcomes)

    expected = {_of_call(number): outcome_of(call.output) for number, (_, call, _) in enumerate(unequal)}
    actual = {_of_call(number): output for number, (_, _, output) in enumerate(unequal)}
    cases = [Case(None, call.args, dict(call.kwargs)) for _, call, _ in unequal]
    with restored(()):
        found = judge(context, joined(expected), joined(actual), Calls(run, cases=cases))
    return None if found.ok else found.text


def _of_call(number: int) -> str:
    return f" of call {number + 1}" if number else ""


def _guard(reason: str) -> str:
    """What failed, without the compilation that it is of and the source line behind it."""
    return COMPILE_ID.sub("", reason.partition("  #")[0].strip())


@contextlib.contextmanager
def _put_back(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Modules are as before afterwards, what the lines put on them and what their calls left: the same model is tried
    again."""
    every = {id(part): part for module in modules for part in module.modules()}
    attributes = {key: dict(vars(part)) for key, part in every.items()}
    insides = {
        key: {
            name: copy.copy(value)
            for name, value in kept.items()
            if type(value) in (list, dict, set, OrderedDict)
        }
        for key, kept in attributes.items()
    }
    buffers = {
        key: [(buffer, buffer.clone()) for buffer in part.buffers(recurse=False)]
        for key, part in every.items()
    }
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
