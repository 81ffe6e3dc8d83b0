"""Compare gradients and buffers of one training step between eager and compiled code."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from tcready.dynamic.worker.core.calling import call
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import counted, one_line
from tcready.dynamic.worker.inputs.loss import Loss, NotTrainedError, loss_of
from tcready.dynamic.worker.measure.agreement import UNSTEADY_WORDS, Agreement, ComparedCalls, Prepare, judge
from tcready.dynamic.worker.measure.call_outcome import CallOutcome
from tcready.dynamic.worker.measure.output_comparison import flatten
from tcready.dynamic.worker.torch_internals import dynamo, pytree
from tcready.dynamic.worker.torch_internals.compile_calls import compile_callable
from tcready.schema.enums import StageReason, StageState, TrainingPhase
from tcready.schema.run import Training, TrainingPart
from torch import nn

PHASES: tuple[TrainingPhase, ...] = ("loss", "gradients", "forward", "backward", "optimizer", "step")
ENDED = "under way when the process ended"
NAMED = 8
"""The most differences that are named; if there are more, their number is given."""


@dataclass(frozen=True)
class Trained:
    """The results of one forward, loss and backward. `random`: the forward drew random numbers."""

    output: Any
    loss: Loss
    gradients: dict[str, torch.Tensor | None]
    buffers: dict[str, torch.Tensor]
    random: bool


def forward(
    context: Context, function: Callable[..., Any], case: Case, *watchers: contextlib.AbstractContextManager[Any]
) -> tuple[Any, dict[str, torch.Tensor], bool]:
    """Return the output, the leaves among the inputs that require grad, and whether random numbers were drawn."""
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

    return call(context, noting, case, *watchers), leaves, drawn


def _random_state() -> list[torch.Tensor]:
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return [torch.get_rng_state(), *devices]


def wanted_parameters(model: Any) -> dict[str, nn.Parameter]:
    """Return the parameters that require grad, by name."""
    named = model.named_parameters() if isinstance(model, nn.Module) else ()
    return {name: parameter for name, parameter in named if parameter.requires_grad}


def train(context: Context, model: Any, function: Callable[..., Any], case: Case, loss: Loss | None = None) -> Trained:
    """Run forward, loss and backward through `function`, which is `model` or its compiled form."""
    for parameter in wanted_parameters(model).values():
        parameter.grad = None
    output, leaves, random = forward(context, function, case)
    return backward(model, output, leaves, random, loss)


def backward(
    model: Any, output: Any, leaves: dict[str, torch.Tensor], random: bool, loss: Loss | None = None
) -> Trained:
    """Complete a step that began with a forward. Gradients are removed from the parameters."""
    loss = loss or loss_of(output)
    loss(output).backward()
    wanted = {f"parameter {name}": parameter for name, parameter in wanted_parameters(model).items()}
    gradients = {name: tensor.grad for name, tensor in (wanted | leaves).items()}
    for parameter in wanted.values():
        parameter.grad = None
    return step_of(model, output, loss, gradients, random)


def step_of(model: Any, output: Any, loss: Loss, gradients: dict[str, torch.Tensor | None], random: bool) -> Trained:
    """Return the step with these gradients and the current buffers."""
    buffers = dict(model.named_buffers()) if isinstance(model, nn.Module) else {}
    return Trained(
        pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, output),
        loss,
        gradients,
        {name: buffer.detach().clone() for name, buffer in buffers.items()},
        random,
    )


def watched_step(
    context: Context,
    model: Any,
    function: Callable[..., Any],
    case: Case,
    watchers: Sequence[contextlib.AbstractContextManager[Any]],
    steps: list[Trained | Exception],
    loss: Loss | None = None,
) -> Any:
    """Return the output of a watched call. In training, run its backward without watchers, and add the step, or its
    exception, to `steps`. Not in a run over several processes: there `function` may be in DistributedDataParallel,
    which computes the gradients of all ranks."""
    options = context.work.options
    if options.mode != "train" or options.processes or context.stand_ins is not None:
        return call(context, function, case, *watchers)
    output, leaves, random = forward(context, function, case, *watchers)
    try:
        step = backward(model, output, leaves, random, loss)
    except Exception as error:
        steps.append(error)
        return output
    steps.append(step)
    return step.output


def outcome_of_step(step: Trained, *, outputs: bool = False) -> CallOutcome:
    """Return gradients (None for a leaf without one) and buffers of a step, with its outputs if requested."""
    leaves, structure = flatten(step.output) if outputs else ([], [])
    named = [(f"output {index}", leaf) for index, leaf in enumerate(leaves)]
    named += [(f"gradient of {name}", gradient) for name, gradient in step.gradients.items()]
    named += [(f"buffer {name}", buffer) for name, buffer in step.buffers.items()]
    return CallOutcome(tuple(named), tuple(structure))


def judge_step(
    context: Context,
    case: Case,
    expected: Trained,
    actual: Trained,
    compiled: Callable[[Any], Callable[..., Any]],
    *,
    outputs: bool = False,
) -> Agreement:
    """Compare gradients and buffers, and `outputs` if requested, of an eager step with those of the model that
    `compiled` returns."""

    def run(model: Any, prepare: Prepare, is_compiled: bool) -> CallOutcome:
        if is_compiled:
            dynamo.reset()
        function = compiled(model) if is_compiled else model
        step = train(context, model, function, prepare(case), expected.loss)
        return outcome_of_step(step, outputs=outputs)

    one, other = (outcome_of_step(step, outputs=outputs) for step in (expected, actual))
    return judge(context, one, other, ComparedCalls(run, cases=(case,)))


class TrainingLog:
    """Writes each part into the observation immediately, so that a crash preserves earlier parts."""

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
    """Compare gradients and buffers of one step, eager against compiled (backend `eager`), over all cases.

    Return how many were compared, or what differs, in one line; `not_run` with the reason if there is nothing to
    train. Begins `Observation.training`.
    """
    log = TrainingLog(context)
    log.begin("loss")
    if not context.eager_steps:
        context.eager_steps = [_result_or_exception(eager_step, context, case) for case in context.cases]
    expected: list[Trained] = []
    for step in context.eager_steps:
        if isinstance(step, NotTrainedError):
            return _nothing(context, log, _why_not_trained(context, step))
        if isinstance(step, Exception):
            return _nothing(context, log, f"eager code raised {one_line(step, context.work.root)}")
        expected.append(step)
    hows = dict.fromkeys(step.loss.how for step in expected)
    log.add(loss="; ".join(hows))
    some = sum(gradient is not None for step in expected for gradient in step.gradients.values())
    every = sum(len(step.gradients) for step in expected)
    short = f"; {some} of {every} leaves that require grad have a gradient" if some < every else ""
    log.end("loss", "pass", "; ".join(hows) + short)
    log.begin("gradients")
    if not context.compiled_steps:
        context.compiled_steps = [
            _result_or_exception(compiled_step, context, case, step)
            for case, step in zip(context.cases, expected, strict=True)
        ]
    gradients = buffers = 0
    for case, step, actual in zip(context.cases, expected, context.compiled_steps, strict=True):
        if isinstance(actual, Exception):
            why = f"the compiled step raised {one_line(actual, context.work.root)}, the eager one did not"
            log.end("gradients", "fail", why)
            return "fail", why, "compile_error"
        gradients += sum(each is not None for each in step.gradients.values())
        buffers += len(step.buffers)
        log.add(gradients=gradients, buffers=buffers)
        found = judge_step(context, case, step, actual, captured)
        if not found.ok:
            state, why = judged(context, case, found)
            log.end("gradients", state, why)
            return state, why, "mismatch" if state == "fail" else "not_comparable"
    detail = counted(gradients, "gradient") + (f" and {counted(buffers, 'buffer')}" if buffers else "")
    log.end("gradients", "pass", f"{detail} within tolerance")
    return "pass", detail, None


def _result_or_exception(make: Callable[..., Trained], *arguments: Any) -> Trained | Exception:
    """Return the result of `make`, or the exception that it raises."""
    try:
        return make(*arguments)
    except Exception as error:
        return error


def compiled_step(context: Context, case: Case, expected: Trained) -> Trained:
    """Return the step of a new model that is compiled by itself."""
    dynamo.reset()
    model = context.build()
    return train(context, model, captured(model), case, expected.loss)


THROUGH_AOT = "aot_eager"
"""The backend with forward and backward graphs of AOTAutograd, as every training compiler uses, without compiling
them."""


def captured(model: Any) -> Callable[..., Any]:
    """Compile a model with graphs that run like eager code."""
    compiled: Callable[..., Any] = compile_callable(model, backend="eager")
    return compiled


def _nothing(context: Context, log: TrainingLog, why: str) -> tuple[StageState, str, StageReason]:
    log.skip(PHASES, "nothing to train")
    log.set("loss", "not_run", why)
    context.journal.write("")
    return "not_run", why, "not_comparable"


def eager_step(context: Context, case: Case) -> Trained:
    with torch.compiler.set_stance("force_eager"):
        model = context.build()
        return train(context, model, model, case)


def _why_not_trained(context: Context, error: NotTrainedError) -> str:
    if not wanted_parameters(context.build()) and not any(map(_any_grad, context.cases)):
        return "no parameter and no input requires grad"
    return str(error)


def _any_grad(case: Case) -> bool:
    leaves = pytree.tree_leaves((case.args, case.kwargs))
    return any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves)


def judged(context: Context, case: Case, found: Agreement) -> tuple[StageState, str]:
    """Return state and message of a step with different gradients or buffers, and add them to the observation."""
    if found.verdict == "not_comparable":
        return "not_run", f"{UNSTEADY_WORDS}{case.label}: {found.text}"
    training = context.journal.observation.training or Training()
    named = tuple(f"{text}{case.label}" for text in found.differences)
    context.journal.add(training=replace(training, differences=named[:NAMED]))
    more = f" (and {len(named) - 1} more)" if len(named) > 1 else ""
    return "fail", f"{named[0]}{more}"
