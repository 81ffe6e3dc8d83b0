"""Save and set the random generators of each call: torch's, Python's and, if it is loaded, NumPy's."""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Generators:
    """The states at one moment."""

    torch: tuple[bytes, ...]
    others: tuple[Any, ...]
    """Those of Python, and of NumPy if it is loaded."""

    @staticmethod
    def now() -> Generators:
        numpy = sys.modules.get("numpy")
        legacy = numpy.random.get_state() if numpy else ()
        on_devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else ()
        return Generators(
            tuple(bytes(state.tolist()) for state in (torch.get_rng_state(), *on_devices)),
            (random.getstate(), *(part.tobytes() if hasattr(part, "tobytes") else part for part in legacy)),
        )

    def digest(self) -> str:
        """Return a hash of the states."""
        return hashlib.sha256(pickle.dumps((self.torch, self.others))).hexdigest()


@contextlib.contextmanager
def restore_generators() -> Iterator[None]:
    """Restore the states of all generators when the context ends."""
    python, cpu = random.getstate(), torch.get_rng_state()
    on_devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    numpy = sys.modules.get("numpy")
    legacy = numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        random.setstate(python)
        torch.set_rng_state(cpu)
        if on_devices is not None:
            torch.cuda.set_rng_state_all(on_devices)
        if numpy is not None and legacy is not None:
            numpy.random.set_state(legacy)
