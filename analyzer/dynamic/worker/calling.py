"""Call a model, eager or compiled. Every call of a run uses this module."""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from tcready.dynamic.worker import distributed
from tcready.dynamic.worker.case import Case
from tcready.dynamic.worker.context import Context
from tcready.dynamic.worker.frames import is_user_file, user_stack
from tcready.dynamic.worker.journal import one_line, user_place
from tcready.dynamic.worker.loading import dtype_of, fresh
from tcready.dynamic.worker.ops import CountingBackend
from tcready.events import narrate
from tcready.events.narrate import RawFrame

SEED_CALL = 1
CALLS = ("cold", "second", "warm")
"""The calls of the compiled callable, with identical inputs; the last is the one whose dispatches count."""


def call(
    context: Context,
    function: Callable[..., Any],
    case: Case,
    *watchers: contextlib.AbstractContextManager[Any],
    seed: bool = True,
) -> Any:
    """One call with fresh inputs and the seed of every call; the watchers see the call and nothing else.

    Without `seed`, the random generators run on from the call before.
    """
    context.journal.at(case.name)
    inputs = fresh(case)
    if seed:
        seed_generators()
    with contextlib.ExitStack() as stack:
        if context.stand_ins is not None:
            stack.enter_context(context.stand_ins.taken())
        for watcher in watchers:
            stack.enter_context(watcher)
        if context.work.options.mode == "infer":
            stack.enter_context(torch.no_grad())
        stack.enter_context(autocast(context))
        return function(*inputs.args, **inputs.kwargs)


def seed_generators() -> None:
    """The random numbers of torch, of Python, and of numpy, where that is loaded, begin anew."""
    if torch.accelerator.is_available():
        torch.manual_seed(SEED_CALL)
    else:  # torch.manual_seed keeps a stack for each device that may come, which takes longer than a small model
        torch.default_generator.manual_seed(SEED_CALL)
    random.seed(SEED_CALL)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(SEED_CALL)


def autocast(context: Context) -> contextlib.AbstractContextManager[Any]:
    """What was asked for of `torch.autocast`."""
    options = context.work.options
    if not options.autocast:
        return contextlib.nullcontext()
    cast: contextlib.AbstractContextManager[Any] = torch.autocast(
        torch.device(options.device).type, dtype_of(options.autocast)
    )
    return cast


def without_autocast(context: Context, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, called without autocast if the run has none, whatever surrounds it."""
    if context.work.options.autocast:
        return function

    def called(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(torch.device(context.work.options.device).type, enabled=False):
            return function(*args, **kwargs)

    return called


TIMED_CALLS = 5
QUICK = 1.0
"""The counted call is measured up to so many times again, as many as this number of seconds allows (none, if one takes
more than half of it): the first call under a dispatch mode pays for more than its operations, and others on the machine
disturb some."""


def time_again(context: Context, function: Callable[..., Any], case: Case, backend: CountingBackend) -> None:
    """Measure the times of a counted call a few times more; without it, if a call raises, its own times stand."""
    began = time.perf_counter()

    def timed() -> None:
        call(context, function, case, backend.adopting(), backend.timing())

    if distributed.agreed(backend.counts.total.seconds_in_all, context.work) > QUICK / 2:
        return
    with contextlib.suppress(Exception):  # it ran before
        timed()
        once = distributed.agreed(time.perf_counter() - began, context.work)
        for _ in range(min(TIMED_CALLS, int(QUICK / max(once, QUICK / TIMED_CALLS))) - 1):
            timed()


def settle(context: Context) -> None:
    """Wait for the device, which only then has done its work, and says what went wrong in it."""
    if context.work.options.device.startswith("cuda"):
        torch.cuda.synchronize(context.work.options.device)


def compile_error(error: BaseException, context: Context, name: str = CALLS[0]) -> str:
    """Compiled code raised where eager code did not: the reason, and the user's line where one is named."""
    found = user_stack(narrate.parse_stack(str(error)))
    which = "" if name == CALLS[0] else f"the {name} compiled call raised "
    text = one_line(error, context.work.root)
    if found is None:
        return which + text
    path, line, symbol = found[0]
    frame = context.names.frame(path, line, symbol)
    place = f"({frame.path}:{frame.line})"
    return which + (text if text.endswith(place) else f"{text} {place}")


def error_place(error: BaseException) -> RawFrame | None:
    """The user's line that the text of such an error names, or from which it came; None where there is none."""
    found = user_stack(narrate.parse_stack(str(error)))
    if found is not None and is_user_file(found[0][0]):
        return found[0]
    place = user_place(error)
    return (*place, "") if place is not None else None
