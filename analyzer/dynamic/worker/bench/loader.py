"""Measure where the time of an iteration goes if the model gets its data from its own data loader."""

from __future__ import annotations

import contextlib
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from tcready.dynamic.worker.bench.timed_inputs import Inputs
from tcready.dynamic.worker.bench.variants import RunningVariant, Unmeasured, build_arm, call_quietly
from tcready.dynamic.worker.core.calling import settle
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import one_line
from tcready.dynamic.worker.inputs.loading import as_case, named, placed
from tcready.dynamic.worker.inputs.loss import Loss, loss_of
from tcready.dynamic.worker.torch_internals import pytree
from tcready.schema.bench import Arm, BenchAnswer, BenchRequest, LoaderShare
from tcready.schema.enums import EAGER

BATCHES = 50
FIRST = 2
"""The number of batches that are not counted: a loader starts its processes for the first, and the model warms up."""
ASK_AGAIN = 1.0
"""Seconds after which a loader that ignores an interrupt is interrupted again."""


def run(context: Context, request: BenchRequest, keep: Callable[[BenchAnswer], None]) -> BenchAnswer:
    """Take some batches: wait for each, move it to the device and run the eager model on it.

    Raises Unmeasured if the loader yields nothing that the model accepts, or too few batches in `request.seconds`,
    and what the loader raises.
    """
    del keep  # there is nothing before the last batch
    if request.loader is None:
        raise Unmeasured("not run: no data loader was named")
    running = build_arm(context, Arm(EAGER, ""))
    fed = _Fed(context, running)
    waits: list[float] = []
    copies: list[float] = []
    calls: list[float] = []
    until = time.monotonic() + request.seconds
    batches: Iterator[Any] | None = None
    while len(calls) < BATCHES:
        began = time.perf_counter()
        try:
            with _interrupt_after(until - time.monotonic()):
                batches = batches or iter(_batches(request.loader, context))
                batch = next(batches)
        except (StopIteration, _LateError):
            break
        waits.append(time.perf_counter() - began)
        began = time.perf_counter()
        moved = placed(_inputs(batch, request.loader), context.work)
        settle(context)
        copies.append(time.perf_counter() - began)
        step, inputs = fed.step(moved)
        with running.in_place():
            began = time.perf_counter()
            step(inputs)
            settle(context)
            calls.append(time.perf_counter() - began)
    if len(calls) <= FIRST:
        late = f" within {request.seconds:g} s" if time.monotonic() >= until else ""
        few = "1 batch" if len(calls) == 1 else f"{len(calls) or 'no'} batches"
        first = f": the first {FIRST} do not count" if calls else ""
        raise Unmeasured(f"{request.loader} gives {few}{late}{first}")
    wait, copy, model = (statistics.median(times[FIRST:]) for times in (waits, copies, calls))
    rest = wait + copy
    return BenchAnswer(
        request.kind,
        loader=LoaderShare(request.loader, len(calls), wait, copy, model, (rest + model) / rest if rest > 0 else None),
    )


class _LateError(BaseException):
    """The time of a loader is over. It is not an Exception, so that the loader's own `except Exception` does not catch
    it."""


@contextlib.contextmanager
def _interrupt_after(seconds: float) -> Iterator[None]:
    """Raise _LateError in the code inside after that many seconds: a loader may wait forever.

    Without such a signal, or in a thread, only the limit of the process applies.
    """
    if seconds <= 0:
        raise _LateError
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(_number: int, _frame: object) -> None:
        raise _LateError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, ASK_AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _batches(text: str, context: Context) -> Iterable[Any]:
    """Return the named object, or the result of calling it. Raises Unmeasured if that is not an iterable."""
    value = named(text, "--loader", context.work)
    if callable(value) and not hasattr(value, "__iter__"):
        value = value()
    if not hasattr(value, "__iter__") and not hasattr(value, "__getitem__"):
        raise Unmeasured(f"{text} gives a {type(value).__name__}: expected a data loader, or what gives batches")
    found: Iterable[Any] = value
    return found


def _inputs(batch: Any, text: str) -> Inputs:
    case = as_case(None, batch, text)
    return case.args, case.kwargs


def _shapes(batch: Inputs) -> str:
    leaves = pytree.tree_leaves(batch)
    return str([(leaf.shape, leaf.dtype) for leaf in leaves if isinstance(leaf, torch.Tensor)])


class _Fed:
    """The eager model, called with batches. The first batch shows how many of its items the model takes."""

    def __init__(self, context: Context, running: RunningVariant) -> None:
        self.context, self.running = context, running
        self.taken: int | None = None
        self.losses: dict[str, Loss | None] = {}
        """Losses by the shapes of a batch, because a generated loss has these shapes."""

    def step(self, batch: Inputs) -> tuple[Callable[[Iterator[Inputs]], Any], Iterator[Inputs]]:
        """Return the timed step and its arguments. Raises Unmeasured if the model does not accept the first batch."""
        args, kwargs = batch[0][: self.taken], batch[1]
        shapes = _shapes((args, kwargs))
        if shapes not in self.losses:
            args, self.losses[shapes] = self._find_accepted_arguments(args, kwargs)
            self.taken = len(args)
        return self.running.step(self.losses[shapes]), iter([(args, kwargs)])

    def _find_accepted_arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], Loss | None]:
        """Return the arguments that the model accepts: all, or all but the last ones, which are then labels."""
        first: Exception | None = None
        fewest = max(len(args), 1) if self.taken is not None else 1
        for count in range(len(args), min(fewest, len(args)) - 1, -1):
            try:
                with self.running.in_place():
                    output = call_quietly(self.context, self.running.model, Case(None, args[:count], kwargs))
                train = self.context.work.options.mode == "train"
                return args[:count], loss_of(output) if train else None
            except Exception as error:
                first = first or error
        assert first is not None
        why = one_line(first, self.context.work.root)
        raise Unmeasured(f"the model does not take a batch of the loader: {why}") from first
