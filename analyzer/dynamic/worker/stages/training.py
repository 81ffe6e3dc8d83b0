"""Observe a training step, part by part: forward and backward graphs, the optimiser, the whole step.

Every part is reported by itself and none fails the run: a part that cannot be done is `not_run` with its reason. Breaks
that are found here are separate from the record of the model's own. Loss and gradients are part of the stage `parity`.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from tcready.dynamic.worker.core.budget import spent
from tcready.dynamic.worker.core.calling import call
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import BUDGET_SPENT, NOT_REQUESTED, counted, one_line
from tcready.dynamic.worker.core.step import Step
from tcready.dynamic.worker.inputs.loss import Loss
from tcready.dynamic.worker.measure.agreement import EQUAL, UNSTEADY_WORDS, ComparedCalls, Prepare, judge
from tcready.dynamic.worker.measure.call_outcome import CallOutcome
from tcready.dynamic.worker.measure.gradients import (
    PHASES,
    Trained,
    TrainingLog,
    forward,
    judge_step,
    judged,
    outcome_of_step,
    step_of,
    train,
    wanted_parameters,
)
from tcready.dynamic.worker.measure.outcome_structure import differs
from tcready.dynamic.worker.measure.output_comparison import by_tolerance, compare
from tcready.dynamic.worker.torch_internals import dispatch, dynamo
from tcready.dynamic.worker.torch_internals.compile_calls import compile_callable
from tcready.dynamic.worker.torch_internals.recording import recording
from tcready.portable.events import to_schema
from tcready.portable.events.record import Record
from tcready.schema.enums import StageName, TrainingPhase
from tcready.schema.run import BreakSite, Coverage, Graph, Recompile
from torch import nn

LEARNING_RATE = 1e-3
OPTIMIZER_STEPS = 3
"""The number of optimiser steps. The first creates state, and the second may recompile because of it; the third does
not if the code settles."""
STEP_FILE = "(the training step)"
"""The file name that is shown for `train_step`, which is tcready's own and in none of the user's files."""
CUT = f"cut: {BUDGET_SPENT}"
NAMED = 8
"""The most breaks that are named."""
AFTER: tuple[StageName, ...] = ("plan", "backend", "shapes", "speed")
"""The stages that are still open when a training step is observed: it is not a stage, and fails none."""


def run(context: Context) -> None:
    """Observe the other parts, if `parity` found something to train; the budget cuts the last ones."""
    log = TrainingLog(context)
    training = context.journal.observation.training
    if context.work.options.mode == "train" and training is None:
        log.skip(PHASES, "nothing to train")
        parity = context.journal.done.get("parity")
        log.set("loss", "not_run", f"parity: {parity.detail}" if parity is not None else "outputs were not compared")
    if training is None or training.loss is None:
        return
    for stage in AFTER:
        # reported only if that is the case
        context.journal.skip(stage, "the run ended in the training step", "earlier_stage")
    todo: tuple[tuple[tuple[TrainingPhase, ...], Callable[[Context, TrainingLog], None]], ...] = (
        (("forward", "backward"), _graphs),
        (("optimizer",), _optimizer),
        (("step",), _whole_step),
    )
    for phases, do in todo:
        if phases[0] in ("optimizer", "step") and not context.work.options.optimizer:
            log.skip(phases, f"{NOT_REQUESTED}: --optimizer")
            continue
        if spent(context):
            log.skip(phases, CUT)
            continue
        log.begin(phases[0])
        try:
            do(context, log)
        except Exception as error:
            why = one_line(error, context.work.root)
            log.end(phases[0], "not_run", f"could not be observed: {why}")
            context.journal.warn(f"training, {phases[0]}: {why}")
        finally:
            dynamo.reset()
    context.journal.write("")


class _AotBackend:
    """AOTAutograd over graphs that run unchanged. It records each graph, and whether a backward one is running."""

    def __init__(self) -> None:
        self.graphs: list[tuple[str, str, int]] = []
        """Compile id, phase, ATen operations."""
        self.running = 0

    def backend(self) -> Any:
        return dynamo.aot_backend(self._compiler("forward"), self._compiler("backward"), self._compiler("inference"))

    def _compiler(self, phase: str) -> Callable[[torch.fx.GraphModule, Any], Callable[..., Any]]:
        def compiler(graph: torch.fx.GraphModule, _inputs: Any) -> Callable[..., Any]:
            self.graphs.append((dynamo.compile_id() or "", phase, _operations(graph)))
            if phase != "backward":
                return dynamo.boxed(graph.forward)

            def run(*args: Any) -> Any:
                self.running += 1
                try:
                    return graph.forward(*args)
                finally:
                    self.running -= 1

            return dynamo.boxed(run)

        return compiler


def _operations(graph: torch.fx.GraphModule) -> int:
    return sum(node.op == "call_function" and node.target is not operator.getitem for node in graph.graph.nodes)


def _graphs(context: Context, log: TrainingLog) -> None:
    """Record forward and backward graphs of each case under AOTAutograd, and whether their gradients equal those of
    eager."""
    graphs: list[Graph] = []
    sites: tuple[BreakSite, ...] = ()
    known = {(site.path, site.line) for site in context.journal.observation.break_sites}
    total = captured = 0
    notes: list[str] = []
    wrong: list[str] = []
    pending: list[tuple[Case, Trained, Trained]] = []
    wrong_as_captured = any(part.phase == "gradients" and part.state == "fail" for part in log.training.parts)
    captured_steps = context.compiled_steps or [None] * len(context.cases)
    steps = zip(context.cases, context.eager_steps, captured_steps, strict=True)
    for case, expected, as_captured in steps:
        dynamo.reset()
        model = context.build()
        backend = _AotBackend()
        compiled = compile_callable(model, backend=backend.backend())
        record = Record()
        try:
            with recording(record):
                actual, (in_all, in_graphs) = _counted_step(context, model, compiled, case, expected.loss, backend)
        except Exception as error:
            phase: TrainingPhase = "backward" if any(kind == "forward" for _, kind, _ in backend.graphs) else "forward"
            if phase == "backward":
                log.end("forward", "pass", _summary(graphs + _named_graphs(context, backend, record, case), "forward"))
            why = f"AOTAutograd: {one_line(dynamo.inner_error(error), context.work.root)}"
            log.end(phase, "fail", why)
            if phase == "forward":
                log.set("backward", "not_run", "the forward graphs failed")
            return
        graphs += _named_graphs(context, backend, record, case)
        met = to_schema.break_sites(record, context.names, case.name)
        sites = to_schema.union_sites(sites, tuple(site for site in met if (site.path, site.line) not in known))
        if actual.random and compare(expected.output, actual.output).difference:
            notes.append("AOTAutograd draws other random numbers, so its gradients were not compared")
        elif wrong_as_captured:
            notes.append("gradients differ as captured already")
        elif as_captured is None or differs(
            outcome_of_step(as_captured, outputs=True), outcome_of_step(actual, outputs=True)
        ):  # else the comparison of the captured step holds for this one
            pending.append((case, expected, actual))
        total, captured = total + in_all, captured + in_graphs
        log.add(graphs=tuple(graphs), aot_sites=sites)
    for case, expected, actual in pending:
        found = judge_step(context, case, expected, actual, _by_aot, outputs=True)
        if not found.ok:
            state, why = judged(context, case, found)
            (wrong if state == "fail" else notes).append(why)
    if sites:
        why = (
            f"AOTAutograd cannot trace what is captured, and Dynamo breaks there: {'; '.join(map(_at, sites[:NAMED]))}"
        )
        log.end("forward", "fail", f"{why}; {_summary(graphs, 'forward')}")
    else:
        log.end("forward", "pass", _summary(graphs, "forward"))
    detail = _summary(graphs, "backward")
    if total:
        log.add(backward=Coverage(total, captured, captured / total))
        detail += f", {captured} of {total} operations of a backward in them"
    details = "; ".join([*(f"AOTAutograd's step differs: {why}" for why in wrong), detail, *dict.fromkeys(notes)])
    log.set("backward", "fail" if wrong else "pass", details)


def _by_aot(model: Any) -> Callable[..., Any]:
    compiled: Callable[..., Any] = compile_callable(model, backend=_AotBackend().backend())
    return compiled


def _at(site: BreakSite) -> str:
    """Return where and why; a break inside torch is named by the user function that is compiled."""
    own = site.frames[0] if site.origin == "third_party" and site.frames else site
    return f"{own.symbol} ({own.path}:{own.line}): {site.reason}"


def _named_graphs(context: Context, backend: _AotBackend, record: Record, case: Case) -> list[Graph]:
    """Return the graphs with the code from which they were captured, by their compile ids."""
    places = {frame.compile_id: frame.place for frame in record.compiled}
    found = []
    for compile_id, phase, ops in backend.graphs:
        place = places.get(compile_id)
        frame = context.names.frame(place.path, place.line, place.name) if place else None
        kind: Any = phase
        path, line, symbol = (frame.path, frame.line, frame.symbol) if frame else ("", 0, "")
        found.append(Graph(compile_id, path, line, ops, None, kind, case.name, symbol))
    return found


def _summary(graphs: Sequence[Graph], phase: str) -> str:
    own = [graph for graph in graphs if (graph.phase == "backward") == (phase == "backward")]
    without = sum(graph.phase == "inference" for graph in own)
    more = f", {without} of them without gradients" if without else ""
    return f"{counted(len(own), 'graph')}, {counted(sum(graph.ops for graph in own), 'ATen operation')}{more}"


def _counted_step(
    context: Context, model: Any, compiled: Callable[..., Any], case: Case, loss: Loss, backend: _AotBackend
) -> tuple[Trained, tuple[int, int]]:
    """Return a step, and the ATen dispatches of its backward when it runs again: in total, and in graphs.

    The first time, AOTAutograd compiles it. Another forward would compile models again that change in their first
    call. The backward runs from the inputs of the loss to the leaves: the loss's own backward and the accumulation
    into `.grad` are left out, since neither is the model's.
    """
    counts = [0, 0]

    def seen() -> None:
        counts[0] += 1
        counts[1] += backend.running > 0

    with dynamo.repeatable_backward():
        output, leaves, random = forward(context, compiled, case)
        tensors = loss.tensors(output)
        # for an output that is computed from another one, the gradient of its own loss: the model's graph is not freed
        alone = [tensor.detach().requires_grad_() for tensor in tensors]
        seeds = torch.autograd.grad(loss.combine(alone), alone)
        named = {f"parameter {name}": parameter for name, parameter in wanted_parameters(model).items()}
        wanted = named | leaves
        if not wanted:  # a step leaves no gradient that is the model's
            return step_of(model, output, loss, {}, random), (0, 0)
        given = tensors, list(wanted.values()), seeds
        for leaf in wanted.values():
            leaf.grad = None
        # The backward of a training step: one that is requested only for these leaves omits nodes that raise.
        torch.autograd.backward(tensors, seeds, retain_graph=True)
        gradients = {name: leaf.grad for name, leaf in wanted.items()}
        with dispatch.DispatchMode(seen):
            torch.autograd.grad(*given, allow_unused=True)
    step = step_of(model, output, loss, gradients, random)
    return step, (counts[0], counts[1])


def _optimizer(context: Context, log: TrainingLog) -> None:
    """Observe `AdamW.step` compiled alone: its graphs and breaks, recompilations in later steps, and whether it agrees
    with eager."""
    case = context.cases[0]
    model = context.build()
    if not wanted_parameters(model):
        log.end("optimizer", "not_run", "no parameter requires grad")
        return

    def run(made: Any, prepare: Prepare, is_compiled: bool) -> CallOutcome:
        stepped = _with_gradients(context, made, prepare(case))
        dynamo.reset()
        step = compile_callable(lambda: stepped.step(), backend="eager") if is_compiled else stepped.step
        for _ in range(OPTIMIZER_STEPS):
            step()
        return _parameters(made)

    expected = run(context.build(), lambda each: each, False)
    optimizer = _with_gradients(context, model, case)
    dynamo.reset()
    compiled = compile_callable(lambda: optimizer.step(), backend="eager")
    sites: tuple[BreakSite, ...] = ()
    again: list[Recompile] = []
    graphs = ops = 0
    late = ""
    for number in range(OPTIMIZER_STEPS):
        record = Record()
        with recording(record):
            compiled()
        sites = to_schema.union_sites(sites, to_schema.break_sites(record, context.names, None))
        recompiles = to_schema.recompiles(record, context.names, None, number == OPTIMIZER_STEPS - 1)
        again += recompiles
        if number == 0:
            graphs, ops = sum(frame.ops > 0 for frame in record.compiled), sum(f.ops for f in record.compiled)
        elif recompiles:
            late = f"; compiles again on step {number + 1}"
    actual = _parameters(model)
    # Compiled code computes with the number of the step as a tensor: less precise, but within torch's own tolerance.
    is_close = not by_tolerance(expected, actual)
    agreement = EQUAL if is_close else judge(context, expected, actual, ComparedCalls(run, cases=(case,)))
    log.add(optimizer_sites=_name_own_sites(sites), optimizer_recompiles=to_schema.join_recompiles(tuple(again)))
    detail = f"AdamW: {counted(graphs, 'graph')}, {counted(ops, 'operation')}, {counted(len(sites), 'break site')}"
    detail += late or "; later steps compile nothing again"
    if agreement.verdict == "mistake":
        log.end("optimizer", "fail", f"{detail}; updated parameters differ from eager: {agreement.text}")
    elif agreement.verdict == "not_comparable":
        log.end("optimizer", "not_run", f"{detail}; parameters were not compared: {UNSTEADY_WORDS}")
    else:
        log.end("optimizer", "pass", f"{detail}; parameters after {OPTIMIZER_STEPS} steps as in eager")


def _with_gradients(context: Context, model: nn.Module, case: Case) -> torch.optim.Optimizer:
    """Return an optimizer for a model, after giving its parameters the gradients of an eager step."""
    with torch.compiler.set_stance("force_eager"):
        gradients = train(context, model, model, case, context.eager_steps[0].loss).gradients
    for name, parameter in wanted_parameters(model).items():
        parameter.grad = gradients[f"parameter {name}"]
    return _adamw(model)


def _parameters(model: nn.Module) -> CallOutcome:
    named = wanted_parameters(model).items()
    return CallOutcome(tuple((f"parameter {name}", each.detach().clone()) for name, each in named), ())


def _adamw(model: nn.Module) -> torch.optim.Optimizer:
    """Return AdamW with the grouped implementation, which torch chooses by itself on a GPU: one graph of few operations
    everywhere."""
    return torch.optim.AdamW(list(wanted_parameters(model).values()), lr=LEARNING_RATE, foreach=True)


def train_step(model: Any, loss: Loss, optimizer: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
    """The step that is compiled as a whole."""
    optimizer.zero_grad()
    output = model(*args, **kwargs)
    value = loss(output)
    value.backward()
    optimizer.step()
    return value.detach()


def _whole_step(context: Context, log: TrainingLog) -> None:
    """Observe breaks of one compiled function that holds the whole step, without the breaks of the model itself."""
    case = context.cases[0]
    loss = context.eager_steps[0].loss
    dynamo.reset()
    model = context.build()
    if not wanted_parameters(model):
        log.end("step", "not_run", "no parameter requires grad")
        return
    optimizer = _adamw(model)
    compiled = compile_callable(train_step, backend="eager")
    record = Record()
    try:
        call(
            context, lambda *args, **kwargs: compiled(model, loss, optimizer, *args, **kwargs), case, recording(record)
        )
    except Exception as error:
        log.end("step", "fail", f"the compiled step raised {one_line(error, context.work.root)}")
        return
    known = {(site.path, site.line) for site in context.journal.observation.break_sites}
    found = to_schema.break_sites(record, context.names, case.name)
    sites = _name_own_sites([site for site in found if (site.path, site.line) not in known])
    graphs = sum(frame.ops > 0 for frame in record.compiled)
    log.add(step_sites=sites)
    detail = f"{counted(graphs, 'graph')}, {counted(len(sites), 'break site')} beyond the model's own"
    log.end("step", "pass", f"as one compiled function {detail}")


def _name_own_sites(sites: Sequence[BreakSite]) -> tuple[BreakSite, ...]:
    """Return the sites; those in tcready's own step are named by their statement there."""
    lines, first = inspect.getsourcelines(train_step)
    own = inspect.getsourcefile(train_step) or train_step.__code__.co_filename
    found = []
    for site in sites:
        at = site.line - first
        if site.symbol != train_step.__name__ or not 0 <= at < len(lines) or not own.endswith(site.path[-20:]):
            found.append(site)
            continue
        reason = f"`{lines[at].strip()}`: {site.reason}"
        found.append(replace(site, path=STEP_FILE, line=at + 1, reason=reason, stack=(), frames=()))
    return tuple(found)


STEP = Step("training", run, requires=("parity",), needs_values=True)
