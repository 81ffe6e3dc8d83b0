"""A training step, part by part: loss, gradients, forward and backward graphs, the optimiser, the whole step.

Every part is told by itself and none fails the run: what cannot be done is `not_run` with its reason. Breaks that are
met here are kept apart from the record of the model's own.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from tcready.dynamic.worker import narrate
from tcready.dynamic.worker.journal import BUDGET_SPENT, told
from tcready.dynamic.worker.originals import compile_callable
from tcready.dynamic.worker.parity import compare
from tcready.dynamic.worker.target import Case
from tcready.dynamic.worker.torch_internals import dispatch, dynamo, pytree
from tcready.dynamic.worker.torch_internals.recording import Record, recording
from tcready.schema import (
    BreakSite,
    Coverage,
    Graph,
    Recompile,
    StageName,
    StageState,
    Training,
    TrainingPart,
    TrainingPhase,
)
from torch import nn

if TYPE_CHECKING:
    from tcready.dynamic.worker.run import Run

SEED_PROJECTION = 2
LEARNING_RATE = 1e-3
OPTIMIZER_STEPS = 3
"""State is made on the first step: what the second compiles again, the third does not where it settles."""
STEP = "(the training step)"
"""How the file of `train_step` is named: it is tcready's own and lies in no file of the user's."""
PHASES: tuple[TrainingPhase, ...] = ("loss", "gradients", "forward", "backward", "optimizer", "step")
ENDED = "under way when the process ended"
CUT = f"cut: {BUDGET_SPENT}"
AFTER: tuple[StageName, ...] = ("backend", "speed")
"""The stages that are still open when a training step is taken apart: it is no stage, and fails none."""
TOLD = 8
"""Differences that are named; of more only the count is told."""

Call = Callable[..., Any]
"""`run.call` of this run: `call(function, case, *watchers)` with fresh inputs, the seed, autocast."""
Step = tuple[str, Any]
"""One step from an output to a tensor in it: `attribute` or `item`, and which."""


class NotTrainedError(Exception):
    """Why there is nothing to train, in one line."""


# The loss


@dataclass(frozen=True)
class Loss:
    """A scalar made of an output. It is called under compilation too: it holds nothing that Dynamo cannot trace."""

    how: str
    paths: tuple[tuple[Step, ...], ...]
    weights: tuple[torch.Tensor, ...]
    """A fixed random projection for each path, of the shape of the tensor there; none where the tensors are losses."""

    def tensors(self, output: Any) -> list[torch.Tensor]:
        """What the scalar is made of."""
        found = []
        for path in self.paths:
            value = output
            for kind, key in path:
                value = getattr(value, key) if kind == "attribute" else value[key]
            found.append(value)
        return found

    def __call__(self, output: Any) -> torch.Tensor:
        """The scalar, with its graph."""
        tensors = self.tensors(output)
        if not self.weights:
            return (
                torch.stack([tensor.reshape(()) for tensor in tensors]).sum()
                if len(tensors) > 1
                else tensors[0]
            )
        parts = [
            (_real(tensor).to(weight.dtype) * weight).mean()
            for tensor, weight in zip(tensors, self.weights, strict=True)
        ]
        return torch.stack(parts).sum() if len(parts) > 1 else parts[0]


def loss_of(output: Any) -> Loss:
    """Where the loss of this output comes from: its `loss`, its scalars, else a deterministic stand-in.

    Raises NotTrainedError where no tensor of the output carries a gradient.
    """
    given = _given(output)
    if given is not None:
        return Loss(
            f"output.{given[1]}" if given[0] == "attribute" else f"output[{given[1]!r}]", ((given,),), ()
        )
    found = [(path, tensor) for path, tensor in _tensors(output, ()) if _carries(tensor)]
    if not found:
        raise NotTrainedError(
            "no tensor of the output requires grad: the forward runs without gradients, or detaches what it gives"
        )
    paths = tuple(path for path, _ in found)
    if all(tensor.numel() == 1 and not tensor.is_complex() for _, tensor in found):
        names = ", ".join(_spelled(path) for path in paths)
        return Loss(names if len(paths) == 1 else f"the sum of {names}", paths, ())
    generator = torch.Generator().manual_seed(SEED_PROJECTION)
    weights = tuple(_projection(_real(tensor), generator) for _, tensor in found)
    count = f"{len(found)} tensors" if len(found) > 1 else _spelled(paths[0])
    return Loss(f"synthesised: mean of the output times a fixed random projection ({count})", paths, weights)


def _given(output: Any) -> Step | None:
    """The output's own loss: a scalar with a gradient, as an item or an attribute."""
    if isinstance(output, Mapping) and "loss" in output:
        return ("item", "loss") if _is_loss(output["loss"]) else None
    if isinstance(output, (torch.Tensor, nn.Module)):
        return None
    return ("attribute", "loss") if _is_loss(getattr(output, "loss", None)) else None


def _is_loss(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1 and _carries(value)


def _carries(tensor: torch.Tensor) -> bool:
    """Whether a loss can be made of it: strided, not empty, floating or complex, with a gradient."""
    return (
        tensor.requires_grad
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and tensor.numel() > 0
    )


def _tensors(value: Any, path: tuple[Step, ...]) -> Iterator[tuple[tuple[Step, ...], torch.Tensor]]:
    """Every tensor in mappings, sequences and dataclasses; an output that is another object is opened too."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors(item, (*path, ("item", key)))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _tensors(item, (*path, ("item", index)))
    elif isinstance(value, nn.Module) or callable(value):
        return
    elif dataclasses.is_dataclass(value) or not path:
        for name, item in getattr(value, "__dict__", {}).items():
            yield from _tensors(item, (*path, ("attribute", name)))


def _spelled(path: tuple[Step, ...]) -> str:
    return "output" + "".join(f".{key}" if kind == "attribute" else f"[{key!r}]" for kind, key in path)


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _projection(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Drawn on the host, so that it is the same on every device; half precision is summed in single."""
    dtype = tensor.dtype if tensor.dtype in (torch.float32, torch.float64) else torch.float32
    return torch.randn(tensor.shape, generator=generator, dtype=dtype).to(tensor.device)


# One step, and what two of them have in common


@dataclass(frozen=True)
class Trained:
    """What one forward, loss and backward left behind. `random`: the forward drew random numbers."""

    output: Any
    loss: Loss
    gradients: dict[str, torch.Tensor | None]
    buffers: dict[str, torch.Tensor]
    random: bool


@dataclass(frozen=True)
class Agreement:
    """How the gradients and buffers of two steps compare; a difference is named by parameter, input or buffer."""

    gradients: int
    buffers: int
    differences: tuple[tuple[str, str], ...]


def _forward(
    call: Call, function: Callable[..., Any], case: Case
) -> tuple[Any, dict[str, torch.Tensor], bool]:
    """The output, the leaves among the inputs that require grad, and whether random numbers were drawn."""
    leaves: dict[str, torch.Tensor] = {}
    drawn = False

    def noting(*args: Any, **kwargs: Any) -> Any:
        nonlocal drawn
        for place, value in pytree.tree_flatten_with_path((args, kwargs))[0]:
            if isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf:
                leaves[f"input {pytree.keystr(place[1:])}"] = value
        before = _random_state()
        output = function(*args, **kwargs)
        drawn = any(not torch.equal(one, other) for one, other in zip(before, _random_state(), strict=True))
        return output

    return call(noting, case), leaves, drawn


def _random_state() -> list[torch.Tensor]:
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return [torch.get_rng_state(), *devices]


def _wanted(model: Any) -> dict[str, nn.Parameter]:
    """The parameters that require grad, by name."""
    named = model.named_parameters() if isinstance(model, nn.Module) else ()
    return {name: parameter for name, parameter in named if parameter.requires_grad}


def _train(
    call: Call, model: Any, function: Callable[..., Any], case: Case, loss: Loss | None = None
) -> Trained:
    """Forward, loss and backward through `function`, which is `model` or its compiled form."""
    for parameter in _wanted(model).values():
        parameter.grad = None
    output, leaves, random = _forward(call, function, case)
    loss = loss or loss_of(output)
    loss(output).backward()
    wanted = {f"parameter {name}": parameter for name, parameter in _wanted(model).items()}
    buffers = dict(model.named_buffers()) if isinstance(model, nn.Module) else {}
    return Trained(
        pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, output),
        loss,
        {name: tensor.grad for name, tensor in (wanted | leaves).items()},
        {name: buffer.detach().clone() for name, buffer in buffers.items()},
        random,
    )


def agreement(expected: Trained, actual: Trained) -> Agreement:
    """Compare gradients (None on one side alone is a difference) and buffers, by the tolerances of parity."""
    found: list[tuple[str, str]] = []
    gradients = buffers = 0
    for name in dict.fromkeys([*expected.gradients, *actual.gradients]):
        one, other = expected.gradients.get(name), actual.gradients.get(name)
        if one is None and other is None:
            continue
        gradients += 1
        if one is None or other is None:
            side = "compiled code" if other is None else "eager code"
            found.append((f"gradient of {name}", f"{side} leaves none"))
        elif difference := compare(*_scaled(one, other)).difference:
            found.append((f"gradient of {name}", difference.removeprefix("output 0: ")))
    for name in dict.fromkeys([*expected.buffers, *actual.buffers]):
        buffers += 1
        if difference := compare(expected.buffers.get(name), actual.buffers.get(name)).difference:
            found.append((f"buffer {name}", difference.removeprefix("output 0: ")))
    return Agreement(gradients, buffers, tuple(found))


def _scaled(one: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both over the largest gradient of the first: beside an absolute tolerance, small gradients are all alike."""
    if one.layout != torch.strided or not one.numel():
        return one, other
    largest = one.detach().abs().max()
    if not (torch.isfinite(largest) and largest > 0):
        return one, other
    return one / largest, other / largest


# The log of the parts


class _Log:
    """Writes each part into the observation as it goes, so that a crash leaves what went before."""

    def __init__(self, this: Run) -> None:
        self.this = this
        self.since = 0.0

    @property
    def training(self) -> Training:
        return self.this.journal.observation.training or Training()

    def add(self, **facts: Any) -> None:
        self.this.journal.add(training=replace(self.training, **facts))

    def set(self, phase: TrainingPhase, state: StageState, detail: str, seconds: float | None = None) -> None:
        parts = {part.phase: part for part in self.training.parts}
        parts[phase] = TrainingPart(phase, state, detail, seconds)
        self.add(parts=tuple(parts[name] for name in PHASES if name in parts))

    def begin(self, phase: TrainingPhase) -> None:
        self.since = time.perf_counter()
        self.set(phase, "not_run", ENDED)
        self.this.journal.write(f"training, {phase}")

    def end(self, phase: TrainingPhase, state: StageState, detail: str) -> None:
        seconds = None if state == "not_run" else round(time.perf_counter() - self.since, 4)
        self.set(phase, state, detail, seconds)
        self.this.journal.write("")

    def skip(self, phases: Sequence[TrainingPhase], why: str) -> None:
        for phase in phases:
            self.set(phase, "not_run", why)


# Gradients, eager against compiled: a part of the parity stage


def parity(this: Run, call: Call) -> tuple[StageState, str]:
    """Gradients and buffers of one step, eager against compiled (backend `eager`), over all cases.

    How many were compared, or what differs, in one line; `not_run` with the reason where there is nothing to train.
    Begins `Observation.training`.
    """
    log = _Log(this)
    log.begin("loss")
    try:
        expected = [_eager(this, call, case) for case in this.cases]
    except NotTrainedError as error:
        return _nothing(this, log, str(error))
    except Exception as error:
        return _nothing(this, log, f"eager code raised {told(error, this.work.root)}")
    hows = dict.fromkeys(step.loss.how for step in expected)
    log.add(loss="; ".join(hows))
    some = sum(gradient is not None for step in expected for gradient in step.gradients.values())
    every = sum(len(step.gradients) for step in expected)
    short = f"; {some} of {every} leaves that require grad have a gradient" if some < every else ""
    log.end("loss", "pass", "; ".join(hows) + short)
    log.begin("gradients")
    gradients = buffers = 0
    for case, step in zip(this.cases, expected, strict=True):
        try:
            dynamo.reset()
            model = this.build()
            actual = _train(call, model, compile_callable(model, backend="eager"), case, step.loss)
        except Exception as error:
            why = f"the compiled step raised {told(error, this.work.root)}, the eager one did not"
            log.end("gradients", "fail", why)
            return "fail", why
        found = agreement(step, actual)
        gradients += found.gradients
        buffers += found.buffers
        log.add(gradients=gradients, buffers=buffers)
        if found.differences:
            state, why = _judged(this, call, case, step, found)
            log.end("gradients", state, why)
            return state, why
    detail = _counted(gradients, "gradient") + (f" and {_counted(buffers, 'buffer')}" if buffers else "")
    log.end("gradients", "pass", f"{detail} within tolerance")
    return "pass", detail


def _nothing(this: Run, log: _Log, why: str) -> tuple[StageState, str]:
    log.skip(PHASES, "nothing to train")
    log.set("loss", "not_run", why)
    this.journal.write("")
    return "not_run", why


def _eager(this: Run, call: Call, case: Case) -> Trained:
    with torch.compiler.set_stance("force_eager"):
        model = this.build()
        try:
            return _train(call, model, model, case)
        except NotTrainedError:
            if not _wanted(model) and not _any_grad(case):
                raise NotTrainedError("no parameter and no input requires grad") from None
            raise


def _any_grad(case: Case) -> bool:
    leaves = pytree.tree_leaves((case.args, case.kwargs))
    return any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves)


def _judged(this: Run, call: Call, case: Case, expected: Trained, found: Agreement) -> tuple[StageState, str]:
    """A difference counts unless two eager steps differ there as well."""
    unsteady = {name for name, _ in agreement(expected, _eager(this, call, case)).differences}
    steady = [(name, why) for name, why in found.differences if name not in unsteady]
    where = f" (case {case.name})" if case.name else ""
    if not steady:
        return "not_run", f"eager differs from eager under the same seeds{where}: {found.differences[0][0]}"
    named = tuple(f"{name}: {why}{where}" for name, why in steady)
    training = this.journal.observation.training or Training()
    this.journal.add(training=replace(training, differences=named[:TOLD]))
    more = f" (and {len(named) - 1} more)" if len(named) > 1 else ""
    return "fail", f"{named[0]}{more}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# What follows parity: the graphs of AOTAutograd, the optimiser alone, the whole step


def rest(this: Run, call: Call) -> None:
    """The other parts, where `parity` found something to train; the budget cuts what comes last."""
    log = _Log(this)
    training = this.journal.observation.training
    if this.work.options.mode == "train" and training is None:
        log.skip(PHASES, "nothing to train")
        log.set("loss", "not_run", "the compiled output differs from the eager one, or could not be compared")
    if training is None or training.loss is None:
        return
    for stage in AFTER:
        this.journal.skip(stage, "the run ended in the training step")  # stands only where that is so
    todo: tuple[tuple[tuple[TrainingPhase, ...], Callable[[Run, Call, _Log], None]], ...] = (
        (("forward", "backward"), _graphs),
        (("optimizer",), _optimizer),
        (("step",), _whole_step),
    )
    for phases, do in todo:
        if this.spent():
            log.skip(phases, CUT)
            continue
        log.begin(phases[0])
        try:
            do(this, call, log)
        except Exception as error:
            why = told(error, this.work.root)
            log.end(phases[0], "not_run", f"could not be observed: {why}")
            this.journal.warn(f"training, {phases[0]}: {why}")
        finally:
            dynamo.reset()
    this.journal.write("")


class _AotBackend:
    """AOTAutograd over graphs that run as they are; notes each graph, and tells while a backward one runs."""

    def __init__(self) -> None:
        self.graphs: list[tuple[str, str, int]] = []
        """Compile id, phase, ATen operations."""
        self.running = 0

    def backend(self) -> Any:
        return dynamo.aot_backend(
            self._compiler("forward"), self._compiler("backward"), self._compiler("inference")
        )

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
    return sum(
        node.op == "call_function" and node.target is not operator.getitem for node in graph.graph.nodes
    )


def _graphs(this: Run, call: Call, log: _Log) -> None:
    """Forward and backward graphs of each case under AOTAutograd, and whether their gradients are eager's."""
    graphs: list[Graph] = []
    sites: tuple[BreakSite, ...] = ()
    known = {(site.path, site.line) for site in this.journal.observation.break_sites}
    total = captured = 0
    notes: list[str] = []
    wrong: list[str] = []
    differs = any(part.phase == "gradients" and part.state == "fail" for part in log.training.parts)
    for case in this.cases:
        expected = _eager(this, call, case)
        dynamo.reset()
        model = this.build()
        backend = _AotBackend()
        compiled = compile_callable(model, backend=backend.backend())
        record = Record()
        try:
            with recording(record):
                actual = _train(call, model, compiled, case, expected.loss)
        except Exception as error:
            phase: TrainingPhase = (
                "backward" if any(kind == "forward" for _, kind, _ in backend.graphs) else "forward"
            )
            if phase == "backward":
                log.end("forward", "pass", _told(graphs + _named(this, backend, record, case), "forward"))
            why = f"AOTAutograd: {told(dynamo.inner_error(error), this.work.root)}"
            log.end(phase, "fail", why)
            if phase == "forward":
                log.set("backward", "not_run", "the forward graphs failed")
            this.journal.warn(f"training: what is captured cannot be trained compiled: {why}")
            return
        graphs += _named(this, backend, record, case)
        met = narrate.break_sites(record, this.names, case.name)
        sites = narrate.union_sites(sites, tuple(site for site in met if (site.path, site.line) not in known))
        found = agreement(expected, actual)
        if found.differences and differs:
            notes.append("gradients differ as captured already")
        elif found.differences:
            if actual.random and compare(expected.output, actual.output).difference:
                notes.append("AOTAutograd draws other random numbers, so its gradients were not compared")
            else:
                state, why = _judged(this, call, case, expected, found)
                (wrong if state == "fail" else notes).append(why)
        try:
            counted = _counted_backward(call, model, compiled, case, expected.loss, backend)
        except Exception as error:
            notes.append(f"its share of operations was not measured: {told(error, this.work.root)}")
        else:
            total, captured = total + counted[0], captured + counted[1]
        log.add(graphs=tuple(graphs), aot_sites=sites)
    if sites:
        why = f"AOTAutograd cannot trace what is captured, and Dynamo breaks there: {'; '.join(map(_at, sites[:TOLD]))}"
        log.end("forward", "fail", f"{_told(graphs, 'forward')}; {why}")
        this.journal.warn(f"training: {why}")
    else:
        log.end("forward", "pass", _told(graphs, "forward"))
    detail = _told(graphs, "backward")
    if total:
        log.add(backward=Coverage(total, captured, captured / total))
        detail += f", {captured} of {total} operations of a backward in them"
    told_of = "; ".join(
        [detail, *(f"AOTAutograd's gradients differ: {why}" for why in wrong), *dict.fromkeys(notes)]
    )
    log.set("backward", "fail" if wrong else "pass", told_of)
    for why in wrong:
        this.journal.warn(f"training: compiled by AOTAutograd, the gradients differ from eager: {why}")


def _at(site: BreakSite) -> str:
    """Where and why; a break inside torch is told by the user's function under compilation."""
    own = site.frames[0] if site.origin == "third_party" and site.frames else site
    return f"{own.symbol} ({own.path}:{own.line}): {site.reason}"


def _named(this: Run, backend: _AotBackend, record: Record, case: Case) -> list[Graph]:
    """The graphs with the code they were captured from, by their compile ids."""
    places = {frame.compile_id: frame.place for frame in record.compiled}
    found = []
    for compile_id, phase, ops in backend.graphs:
        place = places.get(compile_id)
        frame = this.names.frame(place.path, place.line, place.name) if place else None
        kind: Any = phase
        path, line, symbol = (frame.path, frame.line, frame.symbol) if frame else ("", 0, "")
        found.append(Graph(compile_id, path, line, ops, None, kind, case.name, symbol))
    return found


def _told(graphs: Sequence[Graph], phase: str) -> str:
    own = [graph for graph in graphs if (graph.phase == "backward") == (phase == "backward")]
    without = sum(graph.phase == "inference" for graph in own)
    more = f", {without} of them without gradients" if without else ""
    return (
        f"{_counted(len(own), 'graph')}, {_counted(sum(graph.ops for graph in own), 'ATen operation')}{more}"
    )


def _counted_backward(
    call: Call, model: Any, compiled: Callable[..., Any], case: Case, loss: Loss, backend: _AotBackend
) -> tuple[int, int]:
    """ATen dispatches of one warm backward from what the loss is made of to the leaves: in all, in graphs.

    The loss's own backward and the accumulation into `.grad` are left out: neither is the model's.
    """
    for buffer in model.buffers() if isinstance(model, nn.Module) else ():
        if (
            buffer.grad_fn is not None
        ):  # state that was kept with its graph, which the call before has used up
            buffer.detach_()
    output, leaves, _ = _forward(call, compiled, case)
    tensors = loss.tensors(output)
    seeds = torch.autograd.grad(loss(output), tensors)
    counts = [0, 0]

    def seen() -> None:
        counts[0] += 1
        counts[1] += backend.running > 0

    wanted = [*_wanted(model).values(), *leaves.values()]
    with dispatch.DispatchMode(seen):
        torch.autograd.grad(tensors, wanted, seeds, allow_unused=True)
    return counts[0], counts[1]


def _optimizer(this: Run, call: Call, log: _Log) -> None:
    """`AdamW.step` compiled alone: its graphs and breaks, what later steps compile again, whether it is eager's."""
    model, twin = this.build(), this.build()
    if not _wanted(model):
        log.end("optimizer", "not_run", "no parameter requires grad")
        return
    with torch.compiler.set_stance("force_eager"):
        _train(call, model, model, this.cases[0])
        for one, other in zip(_wanted(model).values(), _wanted(twin).values(), strict=True):
            other.grad = None if one.grad is None else one.grad.clone()
        reference = _adamw(twin)
        for _ in range(OPTIMIZER_STEPS):
            reference.step()
    optimizer = _adamw(model)
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
        sites = narrate.union_sites(sites, narrate.break_sites(record, this.names, None))
        recompiles = narrate.recompiles(record, this.names, None, number == OPTIMIZER_STEPS - 1)
        again += recompiles
        if number == 0:
            graphs, ops = sum(frame.ops > 0 for frame in record.compiled), sum(f.ops for f in record.compiled)
        elif recompiles:
            late = f"; compiles again on step {number + 1}"
    difference = compare([*_wanted(twin).values()], [*_wanted(model).values()]).difference
    log.add(optimizer_sites=_apart(sites), optimizer_recompiles=narrate.join_recompiles(tuple(again)))
    detail = f"AdamW: {_counted(graphs, 'graph')}, {_counted(ops, 'operation')}, {_counted(len(sites), 'break site')}"
    detail += late or "; later steps compile nothing again"
    if difference:
        log.end("optimizer", "fail", f"{detail}; updated parameters differ from eager: {difference}")
    else:
        log.end("optimizer", "pass", f"{detail}; parameters after {OPTIMIZER_STEPS} steps as in eager")


def _adamw(model: nn.Module) -> torch.optim.Optimizer:
    """The grouped implementation, which torch takes by itself on a GPU: one graph of few operations everywhere."""
    return torch.optim.AdamW(list(_wanted(model).values()), lr=LEARNING_RATE, foreach=True)


def train_step(model: Any, loss: Loss, optimizer: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
    """The step that is compiled whole."""
    optimizer.zero_grad()
    output = model(*args, **kwargs)
    value = loss(output)
    value.backward()
    optimizer.step()
    return value.detach()


def _whole_step(this: Run, call: Call, log: _Log) -> None:
    """Where one compiled function that holds the whole step breaks, the breaks of the model itself left out."""
    case = this.cases[0]
    loss = _eager(this, call, case).loss
    dynamo.reset()
    model = this.build()
    if not _wanted(model):
        log.end("step", "not_run", "no parameter requires grad")
        return
    optimizer = _adamw(model)
    compiled = compile_callable(train_step, backend="eager")
    record = Record()
    try:
        call(
            lambda *args, **kwargs: compiled(model, loss, optimizer, *args, **kwargs),
            case,
            recording(record),
        )
    except Exception as error:
        log.end("step", "fail", f"the compiled step raised {told(error, this.work.root)}")
        return
    known = {(site.path, site.line) for site in this.journal.observation.break_sites}
    found = narrate.break_sites(record, this.names, case.name)
    sites = _apart([site for site in found if (site.path, site.line) not in known])
    graphs = sum(frame.ops > 0 for frame in record.compiled)
    log.add(step_sites=sites)
    detail = f"{_counted(graphs, 'graph')}, {_counted(len(sites), 'break site')} beyond the model's own"
    log.end("step", "pass", f"as one compiled function {detail}")


def _apart(sites: Sequence[BreakSite]) -> tuple[BreakSite, ...]:
    """The sites; those in tcready's own step are named by their statement there."""
    lines, first = inspect.getsourcelines(train_step)
    own = inspect.getsourcefile(train_step) or train_step.__code__.co_filename
    found = []
    for site in sites:
        at = site.line - first
        if (
            site.symbol != train_step.__name__
            or not 0 <= at < len(lines)
            or not own.endswith(site.path[-20:])
        ):
            found.append(site)
            continue
        reason = f"`{lines[at].strip()}`: {site.reason}"
        found.append(replace(site, path=STEP, line=at + 1, reason=reason, stack=(), frames=()))
    return tuple(found)
