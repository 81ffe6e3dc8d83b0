"""Measure how much other programs use the machine before measuring begins."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from tcready.dynamic.worker.bench import memory
from tcready.dynamic.worker.bench.nvml import Gpu, NvmlError
from tcready.dynamic.worker.context import Context

LOOKED = 0.3
"""Seconds for which the processors are watched, this process asleep."""
BUSY = 0.15
"""Of the processors: what is more than the system itself needs."""
TIMES = Path("/proc/stat")
IDLE = (3, 4)
"""Places of the idle times (`idle`, `iowait`) among those of a processor."""


def load(context: Context) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Entries of the stack, and notes if others use the machine. What the system does not tell is left out."""
    found = [("cpus", str(os.cpu_count()))]
    notes = []
    with contextlib.suppress(OSError, AttributeError):
        found.append(("load_average", ", ".join(f"{each:.2f}" for each in os.getloadavg())))
    busy, among = _busy()
    if busy is not None:
        found.append(("load_cpu", f"{busy:.1f} of {among} CPUs busy before it began"))
        notes += busy_note(busy, among)
    if memory.is_cuda(context):
        with contextlib.suppress(NvmlError):
            others = Gpu.of(context.work.options.device).others()
            found.append(("load_gpu", f"processes of others: {others}"))
            if others:
                notes.append(f"the GPU was shared: processes of others on it: {others}")
    return tuple(found), tuple(notes)


def others(context: Context) -> str:
    """What others use so much that times are shifted, for a sentence; empty if nothing."""
    busy, among = _busy()
    if busy is not None and busy > BUSY * among:
        return f"others used {busy:.1f} of {among} CPUs"
    if memory.is_cuda(context):
        with contextlib.suppress(NvmlError):
            if processes := Gpu.of(context.work.options.device).others():
                return f"processes of others were on the GPU: {processes}"
    return ""


def busy_note(busy: float, among: int) -> list[str]:
    """Given how many of the processors were busy."""
    if busy <= BUSY * among:
        return []
    return [
        f"the machine was busy: others used {busy:.1f} of {among} CPUs before a process began; intervals are wider"
        " then, and times may be shifted"
    ]


def _busy() -> tuple[float | None, int]:
    """How many processors others kept busy on average for a moment, of those that this process may use."""
    try:
        own = os.sched_getaffinity(0)
        before = _times(own)
        time.sleep(LOOKED)
        after = _times(own)
    except (OSError, AttributeError, ValueError, IndexError):
        return None, 0
    share = 0.0
    for number, (idle, whole) in after.items():
        passed = whole - before[number][1]
        share += 1 - (idle - before[number][0]) / passed if passed > 0 else 0.0
    return share, len(after)


def _times(wanted: set[int]) -> dict[int, tuple[int, int]]:
    """Of each processor its idle time and all of it."""
    found = {}
    for line in TIMES.read_text().splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in wanted:
            times = [int(value) for value in values[:8]]
            found[int(name[3:])] = (sum(times[place] for place in IDLE), sum(times))
    return found
