"""Call a model, eager or compiled. Every call of a run uses this module."""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from tcready.dynamic.worker.core import distributed
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.frames import is_user_file, user_stack
from tcready.dynamic.worker.core.journal import one_line, user_place
from tcready.dynamic.worker.inputs.loading import dtype_of, fresh
from tcready.dynamic.worker.measure.coverage import coverage
from tcready.dynamic.worker.measure.dispatch_counts import CountingBackend
from tcready.portable.events import to_schema
from tcready.portable.events.to_schema import RawFrame

SEED_CALL = 1
CALLS = ("cold", "second", "warm")
"""The calls of the compiled callable, with identical inputs; the dispatches of the last one are counted."""


def call(
    context: Context,
    function: Callable[..., Any],
    case: Case,
    *watchers: contextlib.AbstractContextManager[Any],
    seed: bool = True,
) -> Any:
    """Call once with fresh inputs and the seed of every call. The watchers see only the call.

    Without `seed`, the random generators continue from the previous call.
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
    """Seed the random generators of torch, of Python, and of numpy if it is loaded."""
    if torch.accelerator.is_available():
        torch.manual_seed(SEED_CALL)
    else:  # torch.manual_seed keeps a stack for each device that may come, which takes longer than a small model
        torch.default_generator.manual_seed(SEED_CALL)
    random.seed(SEED_CALL)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(SEED_CALL)


def autocast(context: Context) -> contextlib.AbstractContextManager[Any]:
    """Return the context for the requested `torch.autocast`."""
    options = context.work.options
    if not options.autocast:
        return contextlib.nullcontext()
    cast: contextlib.AbstractContextManager[Any] = torch.autocast(
        torch.device(options.device).type, dtype_of(options.autocast)
    )
    return cast


def without_autocast(context: Context, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, called without autocast if the run has none, even inside another autocast."""
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
    """Measure the times of a counted call a few times more, and if they do not agree, more often. If a call raises, the
    times of the counted call remain."""
    began = time.perf_counter()

    def timed() -> None:
        call(context, function, case, backend.adopting(), backend.timing())

    if distributed.agree_on_seconds(backend.counts.total.seconds_in_all, context.work) > QUICK / 2:
        return
    with contextlib.suppress(Exception):  # it ran before
        timed()
        once = distributed.agree_on_seconds(time.perf_counter() - began, context.work)
        for _ in range(min(TIMED_CALLS, int(QUICK / max(once, QUICK / TIMED_CALLS))) - 1):
            timed()
        varies = coverage(backend.counts, context.work.options.device)
        # Ranks of a run make the same calls, whatever each of them measured.
        if varies is not None and not varies.times_agree and not context.work.options.processes:
            for _ in range(min(2 * TIMED_CALLS, int(2 * QUICK / max(once, QUICK / TIMED_CALLS)))):
                timed()


def settle(context: Context) -> None:
    """Wait until the device has done its work, so that its errors are raised here."""
    if context.work.options.device.startswith("cuda"):
        torch.cuda.synchronize(context.work.options.device)


def compile_error(error: BaseException, context: Context, name: str = CALLS[0]) -> str:
    """The error if compiled code raised and eager code did not: the reason, and the user's line if one is named."""
    found = user_stack(to_schema.parse_stack(str(error)))
    which = "" if name == CALLS[0] else f"the {name} compiled call raised "
    text = one_line(error, context.work.root)
    if found is None:
        return which + text
    path, line, symbol = found[0]
    frame = context.names.frame(path, line, symbol)
    place = f"({frame.path}:{frame.line})"
    return which + (text if text.endswith(place) else f"{text} {place}")


def error_place(error: BaseException) -> RawFrame | None:
    """Return the user's line that the text of such an error names, or from which it was raised; None if there is none."""
    found = user_stack(to_schema.parse_stack(str(error)))
    if found is not None and is_user_file(found[0][0]):
        return found[0]
    place = user_place(error)
    return (*place, "") if place is not None else None
