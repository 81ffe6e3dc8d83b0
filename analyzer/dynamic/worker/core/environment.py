"""Describe the environment of the run: versions, hardware, the device."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import re
import sys
from collections.abc import Mapping
from typing import Any

import torch
from tcready.dynamic.worker.core.request import Work
from tcready.dynamic.worker.torch_internals import dynamo

LIBRARIES = ("transformers", "timm", "diffusers", "torchvision", "lightning", "numpy")


def device_of(name: str) -> str:
    """Return the requested device; for `auto` CUDA if available, else MPS, else the CPU."""
    if name != "auto":
        return name
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def missing_device(name: str) -> str | None:
    """Return why the device cannot be used here; None if it can."""
    kind, _, number = name.partition(":")
    if kind == "cpu" and number not in ("", "0"):
        return f"device {name} is not available here: there is one CPU"
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        first = str(error).split("\n")[0]
        return f"device {name} is not available here: {first}; --device auto takes one that is"
    return None


def environment(work: Work) -> dict[str, Any]:
    """Return versions and hardware, and the active Dynamo settings."""
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "threads": torch.get_num_threads(),
        "device": work.options.device,
        "dtype": work.options.dtype,
        "autocast": work.options.autocast,
        "dynamo": dynamo.flags(),
        "packages": {name: _version(name) for name in LIBRARIES if name in sys.modules},
    }
    if work.options.device.startswith("cuda") and missing_device(work.options.device) is None:
        found["cuda"] = torch.version.cuda
        found["gpu"] = torch.cuda.get_device_name(torch.device(work.options.device))
        found["driver"] = driver_version()
    return found


def with_peaks(found: Mapping[str, Any] | None, work: Work, before: int) -> Mapping[str, Any] | None:
    """Return the environment with the peak memory of the run so far, in bytes: of this process, and on the device;
    `before` is the device peak until its statistics were last reset."""
    if found is None:
        return None
    peaks: dict[str, int] = {}
    with contextlib.suppress(ImportError, OSError):  # Windows has no such module
        import resource

        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peaks["peak_host_bytes"] = kilobytes * (1 if sys.platform == "darwin" else 1024)
    if work.options.device.startswith("cuda") and torch.cuda.is_initialized():
        device = torch.device(work.options.device)
        peaks["peak_device_bytes"] = max(before, torch.cuda.max_memory_allocated(device))
    return {**found, **peaks}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def driver_version() -> str | None:
    """Return the version of the NVIDIA driver, from its kernel module."""
    with contextlib.suppress(OSError), open("/proc/driver/nvidia/version", encoding="utf-8") as file:
        match = re.search(r"Module\s+(?:for \S+\s+)?([\d.]+)", file.read())
        return match[1] if match else None
    return None


def cpu_name() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
