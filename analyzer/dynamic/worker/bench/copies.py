"""Measure an object of this process in copies of the process."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

import torch
from tcready.dynamic.worker.main import die_with_the_launcher
from tcready.dynamic.worker.torch_internals.placement import compile_callable

POLL = 0.02
"""Seconds between two looks at a copy: waiting for one has no time limit of its own."""
PATIENCE = 60.0
"""Seconds that a copy has for two sums, one of them captured."""


@dataclass(frozen=True)
class Ending:
    """How a copy came to its end."""

    why: str = ""
    """Why it did not do all; empty if it did."""
    late: bool = False
    """Whether that is since its time was over."""


def none_because(device: str) -> str:
    """Why nothing on this device can be measured in copies of this process; empty if it can. One copy is tried."""
    if sys.platform != "linux":
        return "forking a process that has used torch is reliable only on Linux"
    if torch.device(device).type != "cpu":
        return f"the object is on {device}, which a copy of this process cannot use"
    if torch.cuda.is_initialized():
        return "this process has initialized CUDA, which a forked process cannot use"
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return "this process belongs to a torch.distributed group, which a forked process cannot join"
    why = ran(_compute, PATIENCE).why
    return f"a copy of this process could not compute: {why}" if why else ""


def ran(work: Callable[[], None], seconds: float) -> Ending:
    """Does `work` in a copy of this process, for so many seconds at most.

    What it prints goes nowhere, and it ends with this process, as does all that it starts.
    """
    around = _Around()
    child = os.fork()
    if child == 0:
        _become(work, around)
    until = time.monotonic() + seconds
    try:
        while (status := _ended(child)) is None:
            if time.monotonic() > until:
                return Ending(f"stopped after {seconds:.0f} s: the time limit was reached", late=True)
            time.sleep(POLL)
    finally:  # Ctrl-C, too
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return Ending(f"it died by {signal.Signals(-code).name}")
    return Ending(f"it ended with code {code}" if code else "")


class _Around:
    """What torch keeps apart for each thread, as the thread that makes this has it."""

    def __init__(self) -> None:
        self.threads = torch.get_num_threads()
        self.device = torch.get_default_device()
        self.cast = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None

    @contextlib.contextmanager
    def put(self) -> Iterator[None]:
        """For the thread that calls it."""
        torch.set_num_threads(self.threads)
        if self.device != torch.get_default_device():
            torch.set_default_device(self.device)
        with torch.autocast("cpu", dtype=self.cast, enabled=self.cast is not None):
            yield


def _become(work: Callable[[], None], around: _Around) -> NoReturn:
    """In the copy: nothing of what called comes after it."""
    code = 1
    try:
        os.setsid()
        die_with_the_launcher()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        done = threading.Event()

        def run() -> None:
            with around.put():
                work()
            done.set()

        # GNU's OpenMP keeps its threads by the one that called it first. In a copy these are gone, and a call from the
        # thread that had them would wait for them for ever: a new thread starts its own.
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        code = 0 if done.is_set() else 1
    finally:
        os._exit(code)


def _ended(child: int) -> int | None:
    """How it ended, as `os.wait` gives it; None while it runs."""
    try:
        ended, status = os.waitpid(child, os.WNOHANG)
    except ChildProcessError:  # somebody has waited for it, or nobody can in this process
        return 0
    return status if ended else None


def _compute() -> None:
    """What several threads share, in torch itself and in its library of linear algebra."""
    rows = torch.ones(512, 512)
    torch.mm(rows, rows).add_(1.0).sum()
    compile_callable(torch.neg, backend="eager")(rows)  # Dynamo asks for the state of every device
