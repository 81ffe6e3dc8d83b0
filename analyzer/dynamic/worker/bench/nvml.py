"""Read values of a GPU from NVIDIA's driver library: torch provides neither energy nor power limits."""

from __future__ import annotations

import contextlib
import ctypes
import os
from dataclasses import dataclass
from typing import Any

import torch

LIBRARY = "libnvidia-ml.so.1"
GRAPHICS, MEMORY = 0, 2
"""Kinds of clocks."""


MOST_PROCESSES = 256


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class NvmlError(Exception):
    """The reason why the driver does not answer, in a few words."""


@dataclass(frozen=True)
class Gpu:
    """The GPU that torch has under a name."""

    library: Any
    handle: ctypes.c_void_p

    @classmethod
    def of(cls, device: str) -> Gpu:
        """Return the GPU of a torch device. Raises NvmlError if the library or the device is not found."""
        if torch.device(device).type != "cuda" or torch.version.cuda is None:
            raise NvmlError(f"no NVIDIA GPU: the device is {device}")
        try:
            library = ctypes.CDLL(LIBRARY)
        except OSError:
            raise NvmlError(f"{LIBRARY} is not found") from None
        gpu = cls(library, ctypes.c_void_p())
        gpu._ask("nvmlInit_v2")
        identity = getattr(torch.cuda.get_device_properties(torch.device(device)), "uuid", None)
        if identity is None:
            raise NvmlError("this torch does not say which GPU it is")
        gpu._ask("nvmlDeviceGetHandleByUUID", f"GPU-{identity}".encode(), ctypes.byref(gpu.handle))
        return gpu

    def others(self) -> int:
        """Return other processes that compute on it, as far as this process may see them. Raises NvmlError if the
        driver does not answer."""
        count = ctypes.c_uint(MOST_PROCESSES)
        rows = (_Process * MOST_PROCESSES)()
        self._ask("nvmlDeviceGetComputeRunningProcesses_v3", self.handle, ctypes.byref(count), rows)
        pids = [row.pid for row in rows[: count.value]]
        # Inside a container the driver returns process ids of the host: one of them is then this process.
        own = os.getpid() in pids or torch.cuda.is_initialized()
        return max(0, len(pids) - own)

    def energy(self) -> float:
        """Return the joules since the driver was loaded. Raises NvmlError if it does not count them."""
        value = ctypes.c_ulonglong()
        self._ask("nvmlDeviceGetTotalEnergyConsumption", self.handle, ctypes.byref(value))
        return value.value / 1000

    def settings(self) -> tuple[tuple[str, str], ...]:
        """Return the current power limit and clocks, as far as the driver provides them."""
        found = []
        value = ctypes.c_uint()
        with contextlib.suppress(NvmlError):
            self._ask("nvmlDeviceGetPowerManagementLimit", self.handle, ctypes.byref(value))
            found.append(("power_limit", f"{value.value / 1000:.0f} W"))
        for name, kind in (("clock_sm", GRAPHICS), ("clock_memory", MEMORY)):
            with contextlib.suppress(NvmlError):
                self._ask("nvmlDeviceGetClockInfo", self.handle, kind, ctypes.byref(value))
                now = value.value
                self._ask("nvmlDeviceGetMaxClockInfo", self.handle, kind, ctypes.byref(value))
                found.append((name, f"{now} MHz of {value.value} MHz"))
        return tuple(found)

    def _ask(self, name: str, *arguments: Any) -> None:
        function = getattr(self.library, name, None)
        code = function(*arguments) if function is not None else None
        if code != 0:
            raise NvmlError(f"the driver answers {name} with {'nothing' if code is None else f'error {code}'}")
