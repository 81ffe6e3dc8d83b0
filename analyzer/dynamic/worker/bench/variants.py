"""One way to run the model: its own copy, compiled by its lines, and the step that is measured."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from tcready.dynamic.worker.bench import state
from tcready.dynamic.worker.bench.timed_inputs import Inputs
from tcready.dynamic.worker.core.calling import autocast, call
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.inputs.loss import Loss, loss_of
from tcready.dynamic.worker.measure.gradients import wanted_parameters
from tcready.dynamic.worker.torch_internals import compile_calls
from tcready.dynamic.worker.torch_internals.compile_calls import Beside, execute
from tcready.dynamic.worker.torch_internals.global_settings import (
    GlobalSetting,
    changed_meanwhile,
    put_after,
    put_before,
)
from tcready.schema.bench import Arm
from torch import nn

LEARNING_RATE = 1e-6
"""The learning rate. A step costs the same at any rate; with a small one the last call has nearly the same weights as
the first."""


class Unmeasured(Exception):  # noqa: N818  it is not an error
    """The reason why nothing more is measured, in one line."""


@dataclass
class RunningVariant:
    """An arm over a model of its own."""

    arm: Arm
    context: Context
    model: Any
    """The model as it was built."""
    function: Callable[..., Any]
    """The callable that the lines of the arm assign to `model`."""
    beside: tuple[Beside, Beside] | None
    """Objects beside the model that the lines change, in their original and in their changed state; None if there are
    none."""
    settings: tuple[GlobalSetting, ...] = ()
    """Settings of the process that the lines change."""
    forced: bool = False
    """For eager code: whether nothing is compiled during its calls, regardless of what other arms compiled."""
    start: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Buffers that calls change, with their initial values."""
    optimizer: torch.optim.Optimizer | None = None
    retained_bytes: int = 0
    """Device memory that the first calls left in use, such as CUDA graphs and the state of the optimiser."""

    @property
    def eager(self) -> bool:
        return not self.arm.code.strip()

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Context for calls of this arm: its changes beside the model and to settings of the process apply to this arm
        only, and inference computes no gradients."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.context.journal.running(self.arm.name))
            if self.forced:
                stack.enter_context(compile_calls.stance("force_eager"))
            stack.callback(put_before, self.settings)
            put_after(self.settings)
            if self.beside is not None:
                before, after = self.beside
                after.put()
                stack.callback(before.put)
            if self.context.work.options.mode == "infer":
                stack.enter_context(torch.no_grad())
            yield

    def rewind(self) -> None:
        """Restore the buffers of the model that calls changed."""
        state.put_back(self.model, self.start)

    def step(
        self, loss: Loss | None, accumulate: int = 1, loop: Callable[..., Any] | None = None
    ) -> Callable[[Iterator[Inputs]], Any]:
        """Return the measured step, which takes the inputs of its calls and must run within `in_place`: one call; in
        training (with a `loss`) forward, loss and backward, `accumulate` times, and a step of the optimiser; with a
        `loop`, one call of it."""
        function, context, optimizer = self.function, self.context, self.optimizer
        # A CUDA graph writes its outputs to the same memory every time: this says that the last ones are done with.
        marks = not self.eager and torch.device(context.work.options.device).type == "cuda"
        cast = bool(context.work.options.autocast)

        def marked(*args: Any, **kwargs: Any) -> Any:
            torch.compiler.cudagraph_mark_step_begin()
            return function(*args, **kwargs)

        once = marked if marks else function
        if loop is not None:
            once = functools.partial(loop, once)

        def forward(inputs: Iterator[Inputs]) -> Any:
            args, kwargs = next(inputs)
            if not cast:
                return once(*args, **kwargs)
            with autocast(context):
                return once(*args, **kwargs)

        if loss is None:
            return forward

        def train(inputs: Iterator[Inputs]) -> None:
            for _ in range(accumulate):
                loss(forward(inputs)).backward()
            if optimizer is not None:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)

        return train


def build_arm(context: Context, arm: Arm, *, forced: bool = False, drifting: Sequence[str] = ()) -> RunningVariant:
    """Build the arm with a new model. `drifting` names buffers that can be restored. Raises what building it or the
    lines of the arm raise."""
    model = context.build()
    start = state.copy_buffers(model, drifting)
    classes = {type(module) for module in model.modules()} if isinstance(model, nn.Module) else set()
    before = Beside.of(classes)
    with context.journal.running(arm.name), changed_meanwhile() as settings:
        function = execute(arm.code, model, None, isolated=True) if arm.code.strip() else model
    after = before.now()
    changed = after.differs(before)
    if changed:
        before.put()
    optimizer = None
    if context.work.options.mode == "train":
        wanted = list(wanted_parameters(model).values())
        optimizer = torch.optim.AdamW(wanted, lr=LEARNING_RATE) if wanted else None
    return RunningVariant(
        arm,
        context,
        model,
        function,
        (before, after) if changed else None,
        tuple(settings),
        forced and not arm.code.strip(),
        start,
        optimizer,
    )


def loss_for(context: Context, model: Any, case: Case) -> Loss | None:
    """Return the loss of a training step, from one call of `model`; None in inference.

    Raises NotTrainedError if nothing can be trained, and what the model raises.
    """
    if context.work.options.mode != "train":
        return None
    return loss_of(call_quietly(context, model, case))


def call_quietly(context: Context, function: Callable[..., Any], case: Case) -> Any:
    """Call with fresh inputs, without writing the case to the state file: the launcher gives each case in that file its
    share of the time, and a bench runs all of them repeatedly."""
    return call(context, function, Case(None, case.args, case.kwargs, case.weight))
