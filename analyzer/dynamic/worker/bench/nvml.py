"""What NVIDIA's driver tells of a GPU, by its own library: torch has no name for energy or limits of power."""

from __future__ import annotations

import contextlib
import ctypes
from dataclasses import dataclass
from typing import Any

import torch

LIBRARY = "libnvidia-ml.so.1"
GRAPHICS, MEMORY = 0, 2
"""Kinds of clocks."""


class NvmlError(Exception):
    """Why the driver does not tell, in a few words."""


@dataclass(frozen=True)
class Gpu:
    """The GPU that torch has under a name."""

    library: Any
    handle: ctypes.c_void_p

    @classmethod
    def of(cls, device: str) -> Gpu:
        """Raises NvmlError if the library or the device is not found."""
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

    def energy(self) -> float:
        """Joules since the driver was loaded. Raises NvmlError if it does not count them."""
        value = ctypes.c_ulonglong()
        self._ask("nvmlDeviceGetTotalEnergyConsumption", self.handle, ctypes.byref(value))
        return value.value / 1000

    def settings(self) -> tuple[tuple[str, str], ...]:
        """Limit of power and clocks as they are now, as far as the driver tells them."""
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
            raise NvmlError(
                f"the driver answers {name} with {'nothing' if code is None else f'error {code}'}"
            )
