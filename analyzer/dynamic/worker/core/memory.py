"""Compare the memory that a model needs with the memory of a device."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.request import Work
from torch.nn.parameter import is_lazy

COPIES_IN_TRAINING = 3
"""In a training run there are the original model, a copy, and the gradients of the copy."""


@dataclass(frozen=True)
class Size:
    """The size of a model."""

    parameters: int
    bytes: int

    @classmethod
    def of(cls, model: torch.nn.Module) -> Size:
        every = [each for each in model.parameters() if not is_lazy(each)]
        return cls(sum(p.numel() for p in every), sum(p.numel() * p.element_size() for p in every))

    def __str__(self) -> str:
        return f"{self.parameters:,} parameters, {format_bytes(self.bytes)}"


def format_bytes(count: int) -> str:
    """Format a number of bytes, such as `14.5 GB`, in powers of 1000."""
    units = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
    return next((f"{count / of:.1f} {unit}" for of, unit in units if count >= of), f"{count} bytes")


def free_bytes(device: str) -> int | None:
    """Return the memory that is still available on the device; None if not known."""
    kind = torch.device(device).type
    if kind == "cuda":
        free, _ = torch.cuda.mem_get_info(torch.device(device))
        return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    if kind != "cpu":
        return None
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


@contextlib.contextmanager
def measured_call(context: Context) -> Iterator[None]:
    """Measure one call: record in `context` the peak device memory that it adds (CUDA only)."""
    device = torch.device(context.work.options.device)
    if device.type != "cuda":
        yield
        return
    context.peak_bytes = max(context.peak_bytes, torch.cuda.max_memory_allocated(device))
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    yield
    taken = torch.cuda.max_memory_allocated(device) - before
    context.call_bytes = max(context.call_bytes or 0, taken)


def times_needed(work: Work) -> int:
    """Return how many times the size of the model a run needs at least, without activations."""
    return COPIES_IN_TRAINING if work.options.mode == "train" else 1


def fits(size: Size, work: Work) -> bool:
    """Return whether the device has enough memory for a run of a model of that size; True if not known."""
    free = free_bytes(work.options.device)
    return free is None or size.bytes * times_needed(work) <= free


def too_large(size: Size, work: Work, layers: str = "") -> str:
    """Return the message for a model that does not fit; `layers` is a `--config` with which it does."""
    needed = format_bytes(size.bytes * times_needed(work))
    free = free_bytes(work.options.device)
    has = f", which has {format_bytes(free)} free" if free is not None else ""
    instead = ["--tiny builds a small one of the same code"] if work.options.model else []
    instead += [f"--config {layers} fits"] if layers else []
    instead.append("--device meta needs no memory")
    return (
        f"the model has {size.parameters:,} parameters and needs {needed} on {work.options.device}{has}: "
        f"{', '.join(instead)}"
    )
