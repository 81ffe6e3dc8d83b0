"""Measure the memory of this process and of those that it started."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from types import TracebackType

import torch
from tcready.dynamic.worker.core.context import Context

STATUS = Path("/proc/self/status")
EVERY = 0.05
"""Seconds between two reads of the resident memory: a read takes a fraction of a millisecond."""


def is_cuda(context: Context) -> bool:
    """Return whether the device has an allocator that counts."""
    return bool(torch.device(context.work.options.device).type == "cuda")


def device_peak(context: Context) -> int | None:
    """Return the most bytes of the device in use since the last `forget_device_peak`; None without such a device."""
    return torch.cuda.max_memory_allocated(context.work.options.device) if is_cuda(context) else None


def allocated(context: Context) -> int:
    """Return the bytes of the device in use now; 0 without such a device."""
    return torch.cuda.memory_allocated(context.work.options.device) if is_cuda(context) else 0


def highest_device_peak(context: Context) -> int | None:
    """Return the most bytes of the device in use since the process began; None without such a device."""
    peak = device_peak(context)
    return None if peak is None else max(peak, context.peak_bytes)


def forget_device_peak(context: Context) -> None:
    if is_cuda(context):
        torch.cuda.synchronize(context.work.options.device)
        context.peak_bytes = highest_device_peak(context) or 0
        torch.cuda.reset_peak_memory_stats(context.work.options.device)


def resident() -> int | None:
    """Return the resident bytes of this process and those below it; None without /proc."""
    try:
        return sum(_resident(pid) for pid in (os.getpid(), *_child_processes(os.getpid())))
    except OSError:
        return None


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if pid == os.getpid():
        raise OSError("no /proc")
    return 0  # it ended meanwhile


def _child_processes(pid: int) -> list[int]:
    """Return the processes that this one started, directly or not; none if the system does not list them."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError, ValueError):
            for child in map(int, task.read_text().split()):
                found += [child, *_child_processes(child)]
    return found


class ResidentPeak:
    """Record the peak resident memory within the context by polling, since compiler processes come and go."""

    def __init__(self) -> None:
        self.bytes: int | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> ResidentPeak:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        own = _own_peak()
        if self.bytes is not None and own is not None:
            self.bytes = max(self.bytes, own)

    def _look(self) -> None:
        while True:
            now = resident()
            if now is None:
                return
            self.bytes = max(self.bytes or 0, now)
            if self._ended.wait(EVERY):
                return


def _own_peak() -> int | None:
    """Return VmHWM of this process, which includes short peaks; None if the system does not provide it."""
    with contextlib.suppress(OSError, ValueError):
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None
