"""Measure an object of this process in copies of it, which are separate processes."""

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
from tcready.dynamic.worker.core.main import die_with_the_launcher
from tcready.dynamic.worker.torch_internals.compile_calls import compile_callable

POLL = 0.02
"""Seconds between two checks of a copy: waiting for one has no time limit of its own."""
PATIENCE = 60.0
"""Seconds that a copy has for two sums, one of them captured."""


@dataclass(frozen=True)
class CopyEnding:
    """The end of a copy."""

    why: str = ""
    """The reason why it did not do everything; empty if it did."""
    late: bool = False
    """True if it ran out of time."""


def none_because(device: str) -> str:
    """Return why nothing on this device can be measured in copies of this process; empty if it can. This tries one
    copy."""
    if sys.platform != "linux":
        return "forking a process that has used torch is reliable only on Linux"
    if torch.device(device).type != "cpu":
        return f"the object is on {device}, which a copy of this process cannot use"
    if torch.cuda.is_initialized():
        return "this process has initialized CUDA, which a forked process cannot use"
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return "this process belongs to a torch.distributed group, which a forked process cannot join"
    why = run_in_copy(_compute, PATIENCE).why
    return f"a copy of this process could not compute: {why}" if why else ""


def run_in_copy(work: Callable[[], None], seconds: float) -> CopyEnding:
    """Do `work` in a copy of this process, for at most the given seconds.

    Its output is discarded. It ends with this process, as do all processes that it starts.
    """
    around = _Around()
    child = os.fork()
    if child == 0:
        _run_in_child(work, around)
    until = time.monotonic() + seconds
    try:
        while (status := _poll_child(child)) is None:
            if time.monotonic() > until:
                return CopyEnding(f"stopped after {seconds:.0f} s: the time limit was reached", late=True)
            time.sleep(POLL)
    finally:  # Ctrl-C, too
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return CopyEnding(f"it died by {signal.Signals(-code).name}")
    return CopyEnding(f"it ended with code {code}" if code else "")


class _Around:
    """State that torch stores per thread, as in the thread that creates this."""

    def __init__(self) -> None:
        self.threads = torch.get_num_threads()
        self.device = torch.get_default_device()
        self.cast = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None

    @contextlib.contextmanager
    def put(self) -> Iterator[None]:
        """Apply the state to the calling thread."""
        torch.set_num_threads(self.threads)
        if self.device != torch.get_default_device():
            torch.set_default_device(self.device)
        with torch.autocast("cpu", dtype=self.cast, enabled=self.cast is not None):
            yield


def _run_in_child(work: Callable[[], None], around: _Around) -> NoReturn:
    """Run `work` in the copy and then exit, without returning to the caller."""
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


def _poll_child(child: int) -> int | None:
    """Return how the child ended, as in `os.wait`; None while it runs."""
    try:
        ended, status = os.waitpid(child, os.WNOHANG)
    except ChildProcessError:  # other code has waited for it, or no code can in this process
        return 0
    return status if ended else None


def _compute() -> None:
    """Run an operation with several threads, both of torch itself and of its library of linear algebra."""
    rows = torch.ones(512, 512)
    torch.mm(rows, rows).add_(1.0).sum()
    compile_callable(torch.neg, backend="eager")(rows)  # Dynamo asks for the state of every device
