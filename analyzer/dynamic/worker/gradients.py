"""One training step, eager against compiled: gradients and buffers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from tcready.dynamic.worker.calling import call
from tcready.dynamic.worker.case import Case
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.journal import counted, one_line
from tcready.dynamic.worker.loss import Loss, NotTrainedError, loss_of
from tcready.dynamic.worker.parity import compare
from tcready.dynamic.worker.torch_internals import dynamo, pytree
from tcready.dynamic.worker.torch_internals.placement import compile_callable
from tcready.schema.run import Training, TrainingPart
from tcready.schema.words import StageReason, StageState, TrainingPhase
from torch import nn

PHASES: tuple[TrainingPhase, ...] = ("loss", "gradients", "forward", "backward", "optimizer", "step")
ENDED = "under way when the process ended"
NAMED = 8
"""Differences that are named; of more only the count is given."""


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


def forward(
    context: Context, function: Callable[..., Any], case: Case
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

    return call(context, noting, case), leaves, drawn


def _random_state() -> list[torch.Tensor]:
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return [torch.get_rng_state(), *devices]


def wanted_parameters(model: Any) -> dict[str, nn.Parameter]:
    """The parameters that require grad, by name."""
    named = model.named_parameters() if isinstance(model, nn.Module) else ()
    return {name: parameter for name, parameter in named if parameter.requires_grad}


def train(
    context: Context, model: Any, function: Callable[..., Any], case: Case, loss: Loss | None = None
) -> Trained:
    """Forward, loss and backward through `function`, which is `model` or its compiled form."""
    for parameter in wanted_parameters(model).values():
        parameter.grad = None
    output, leaves, random = forward(context, function, case)
    loss = loss or loss_of(output)
    loss(output).backward()
    wanted = {f"parameter {name}": parameter for name, parameter in wanted_parameters(model).items()}
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


class TrainingLog:
    """Writes each part into the observation as it goes, so that a crash leaves what went before."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.since = 0.0

    @property
    def training(self) -> Training:
        return self.context.journal.observation.training or Training()

    def add(self, **facts: Any) -> None:
        self.context.journal.add(training=replace(self.training, **facts))

    def set(self, phase: TrainingPhase, state: StageState, detail: str, seconds: float | None = None) -> None:
        parts = {part.phase: part for part in self.training.parts}
        parts[phase] = TrainingPart(phase, state, detail, seconds)
        self.add(parts=tuple(parts[name] for name in PHASES if name in parts))

    def begin(self, phase: TrainingPhase) -> None:
        self.since = time.perf_counter()
        self.set(phase, "not_run", ENDED)
        self.context.journal.write(f"training, {phase}")

    def end(self, phase: TrainingPhase, state: StageState, detail: str) -> None:
        seconds = None if state == "not_run" else round(time.perf_counter() - self.since, 4)
        self.set(phase, state, detail, seconds)
        self.context.journal.write("")

    def skip(self, phases: Sequence[TrainingPhase], why: str) -> None:
        for phase in phases:
            self.set(phase, "not_run", why)


def parity(context: Context) -> tuple[StageState, str, StageReason | None]:
    """Gradients and buffers of one step, eager against compiled (backend `eager`), over all cases.

    How many were compared, or what differs, in one line; `not_run` with the reason where there is nothing to train.
    Begins `Observation.training`.
    """
    log = TrainingLog(context)
    log.begin("loss")
    try:
        expected = [eager_step(context, case) for case in context.cases]
    except NotTrainedError as error:
        return _nothing(context, log, str(error))
    except Exception as error:
        return _nothing(context, log, f"eager code raised {one_line(error, context.work.root)}")
    hows = dict.fromkeys(step.loss.how for step in expected)
    log.add(loss="; ".join(hows))
    some = sum(gradient is not None for step in expected for gradient in step.gradients.values())
    every = sum(len(step.gradients) for step in expected)
    short = f"; {some} of {every} leaves that require grad have a gradient" if some < every else ""
    log.end("loss", "pass", "; ".join(hows) + short)
    log.begin("gradients")
    gradients = buffers = 0
    for case, step in zip(context.cases, expected, strict=True):
        try:
            dynamo.reset()
            model = context.build()
            actual = train(context, model, compile_callable(model, backend="eager"), case, step.loss)
        except Exception as error:
            why = f"the compiled step raised {one_line(error, context.work.root)}, the eager one did not"
            log.end("gradients", "fail", why)
            return "fail", why, "compile_error"
        found = agreement(step, actual)
        gradients += found.gradients
        buffers += found.buffers
        log.add(gradients=gradients, buffers=buffers)
        if found.differences:
            state, why = judged(context, case, step, found)
            log.end("gradients", state, why)
            return state, why, "mismatch" if state == "fail" else "not_comparable"
    detail = counted(gradients, "gradient") + (f" and {counted(buffers, 'buffer')}" if buffers else "")
    log.end("gradients", "pass", f"{detail} within tolerance")
    return "pass", detail, None


def _nothing(context: Context, log: TrainingLog, why: str) -> tuple[StageState, str, StageReason]:
    log.skip(PHASES, "nothing to train")
    log.set("loss", "not_run", why)
    context.journal.write("")
    return "not_run", why, "not_comparable"


def eager_step(context: Context, case: Case) -> Trained:
    with torch.compiler.set_stance("force_eager"):
        model = context.build()
        try:
            return train(context, model, model, case)
        except NotTrainedError:
            if not wanted_parameters(model) and not _any_grad(case):
                raise NotTrainedError("no parameter and no input requires grad") from None
            raise


def _any_grad(case: Case) -> bool:
    leaves = pytree.tree_leaves((case.args, case.kwargs))
    return any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves)


def steady_differences(
    context: Context, case: Case, expected: Trained, found: Agreement
) -> list[tuple[str, str]]:
    """Those in which two eager steps agree."""
    unsteady = {name for name, _ in agreement(expected, eager_step(context, case)).differences}
    return [(name, why) for name, why in found.differences if name not in unsteady]


def judged(context: Context, case: Case, expected: Trained, found: Agreement) -> tuple[StageState, str]:
    """A difference counts unless two eager steps differ there as well."""
    steady = steady_differences(context, case, expected, found)
    where = f" (case {case.name})" if case.name else ""
    if not steady:
        return "not_run", f"eager differs from eager under the same seeds{where}: {found.differences[0][0]}"
    named = tuple(f"{name}: {why}{where}" for name, why in steady)
    training = context.journal.observation.training or Training()
    context.journal.add(training=replace(training, differences=named[:NAMED]))
    more = f" (and {len(named) - 1} more)" if len(named) > 1 else ""
    return "fail", f"{named[0]}{more}"
