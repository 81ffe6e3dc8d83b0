"""One way to run the model: its own copy, compiled by its lines, and the step that is measured."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from tcready.dynamic.worker.bench import state
from tcready.dynamic.worker.bench.inputs import Inputs
from tcready.dynamic.worker.calling import autocast, call
from tcready.dynamic.worker.case import Case
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.gradients import wanted_parameters
from tcready.dynamic.worker.loss import Loss, loss_of
from tcready.dynamic.worker.torch_internals import placement
from tcready.dynamic.worker.torch_internals.placement import Beside, executed
from tcready.dynamic.worker.torch_internals.settings import (
    Setting,
    changed_meanwhile,
    put_after,
    put_before,
)
from tcready.schema.bench import Arm
from torch import nn

LEARNING_RATE = 1e-6
"""A step costs the same at any rate; at a small one the last call has nearly the weights of the first."""


class Unmeasured(Exception):  # noqa: N818  it is no error of anybody
    """Why nothing (else) is measured, in one line."""


@dataclass
class Running:
    """An arm over a model of its own."""

    arm: Arm
    context: Context
    model: Any
    """As it was built."""
    function: Callable[..., Any]
    """What its lines left: this is called."""
    beside: tuple[Beside, Beside] | None
    """What its lines changed beside the model, as it was and as they left it; None if nothing."""
    settings: tuple[Setting, ...] = ()
    """Those of the process that its lines changed."""
    forced: bool = False
    """Of eager code: whether nothing is compiled during its calls, whatever other arms left."""
    start: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Buffers that calls change, as they were at first."""
    optimizer: torch.optim.Optimizer | None = None
    retained_bytes: int = 0
    """Device memory that its first calls left in use, such as CUDA graphs and the optimiser's state."""

    @property
    def eager(self) -> bool:
        return not self.arm.code.strip()

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Around calls of this arm: what the arm's lines changed beside the model, and of the settings of the process, is
        so for this arm alone, and inference makes no gradients."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.context.journal.running(self.arm.name))
            if self.forced:
                stack.enter_context(placement.stance("force_eager"))
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
        """Put back what calls changed of the model's buffers."""
        state.put_back(self.model, self.start)

    def step(
        self, loss: Loss | None, accumulate: int = 1, loop: Callable[..., Any] | None = None
    ) -> Callable[[Iterator[Inputs]], Any]:
        """What is measured, called with the inputs of its calls, within `in_place`: one call; in training (with a `loss`)
        forward, loss and backward, `accumulate` times, and a step of the optimiser; with a `loop` one call of it."""
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


def built(context: Context, arm: Arm, *, forced: bool = False, drifting: Sequence[str] = ()) -> Running:
    """The arm over a fresh model; `drifting` are buffers that can be put back. Raises what building it or the arm's lines
    raise."""
    model = context.build()
    start = state.copy_buffers(model, drifting)
    classes = {type(module) for module in model.modules()} if isinstance(model, nn.Module) else set()
    before = Beside.of(classes)
    with context.journal.running(arm.name), changed_meanwhile() as settings:
        function = executed(arm.code, model, None, isolated=True) if arm.code.strip() else model
    after = before.now()
    changed = after.differs(before)
    if changed:
        before.put()
    optimizer = None
    if context.work.options.mode == "train":
        wanted = list(wanted_parameters(model).values())
        optimizer = torch.optim.AdamW(wanted, lr=LEARNING_RATE) if wanted else None
    return Running(
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
    """What a training step goes down on, None in inference; from one call of `model`.

    Raises NotTrainedError if nothing can be trained, and what the model raises.
    """
    if context.work.options.mode != "train":
        return None
    return loss_of(call_quietly(context, model, case))


def call_quietly(context: Context, function: Callable[..., Any], case: Case) -> Any:
    """A call with fresh inputs, of which the state file does not name the case: the launcher gives each its share of the
    time, and a bench goes through all of them again and again."""
    return call(context, function, Case(None, case.args, case.kwargs, case.weight))
