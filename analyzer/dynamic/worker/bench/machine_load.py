"""Measure what else uses the machine before measurements start."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from tcready.dynamic.worker.bench import process_memory
from tcready.dynamic.worker.bench.nvml import Gpu, NvmlError
from tcready.dynamic.worker.core.context import Context

LOOKED = 0.3
"""Seconds for which the processors are watched while this process sleeps."""
BUSY = 0.15
"""The share of the processors above which more than the system itself is running."""
TIMES = Path("/proc/stat")
IDLE = (3, 4)
"""The indices of the idle times (`idle`, `iowait`) among those of a processor."""


def load(context: Context) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Return entries of the stack, and notes if others use the machine. Values that the system does not provide are
    left out."""
    found = [("cpus", str(os.cpu_count()))]
    notes = []
    with contextlib.suppress(OSError, AttributeError):
        found.append(("load_average", ", ".join(f"{each:.2f}" for each in os.getloadavg())))
    busy, among = _busy()
    if busy is not None:
        found.append(("load_cpu", f"{busy:.1f} of {among} CPUs busy before it began"))
        notes += busy_note(busy, among)
    if process_memory.is_cuda(context):
        with contextlib.suppress(NvmlError):
            others = Gpu.of(context.work.options.device).others()
            found.append(("load_gpu", f"processes of others: {others}"))
            if others:
                notes.append(f"the GPU was shared: processes of others on it: {others}")
    return tuple(found), tuple(notes)


def others(context: Context) -> str:
    """Describe which other use of the machine distorts times, for a sentence; empty if there is none."""
    busy, among = _busy()
    if busy is not None and busy > BUSY * among:
        return f"others used {busy:.1f} of {among} CPUs"
    if process_memory.is_cuda(context):
        with contextlib.suppress(NvmlError):
            if processes := Gpu.of(context.work.options.device).others():
                return f"processes of others were on the GPU: {processes}"
    return ""


@dataclass(frozen=True)
class Moment:
    """The processors' times at a moment, in seconds."""

    at: float
    """By time.monotonic."""
    own: float
    """Processor time of this process."""
    busy: float
    """Time that the processors, which this process may use, were not idle."""
    among: int

    @classmethod
    def now(cls) -> Moment | None:
        """Return the current times; None if the system does not provide them."""
        try:
            ticks = os.sysconf("SC_CLK_TCK")
            times = _times(os.sched_getaffinity(0)).values()
        except (OSError, AttributeError, ValueError, IndexError):
            return None
        return cls(
            time.monotonic(), time.process_time(), sum(whole - idle for idle, whole in times) / ticks, len(times)
        )


def others_between(first: Moment | None, last: Moment | None) -> str:
    """Describe how others used the processors between two moments, as `others` does; empty if they did not, or if too
    little time passed."""
    if first is None or last is None or last.at - first.at < LOOKED:
        return ""
    used = ((last.busy - first.busy) - (last.own - first.own)) / (last.at - first.at)
    return f"others used {used:.1f} of {last.among} CPUs" if used > BUSY * last.among else ""


def busy_note(busy: float, among: int) -> list[str]:
    """Return the note for this number of busy processors."""
    if busy <= BUSY * among:
        return []
    return [
        f"the machine was busy: others used {busy:.1f} of {among} CPUs before a process began; intervals are wider"
        " then, and times may be shifted"
    ]


def _busy() -> tuple[float | None, int]:
    """Return how many of the processors that this process may use were busy with other work, on average over a moment."""
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
    """Return the idle time and the total time of each processor."""
    found = {}
    for line in TIMES.read_text().splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in wanted:
            times = [int(value) for value in values[:8]]
            found[int(name[3:])] = (sum(times[place] for place in IDLE), sum(times))
    return found
