"""The interface of an engine, which executes the tasks of a sweep."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from tcready.schema.words import TcreadyError
from tcready.sweeping.task import Result, Task

ENGINES: Mapping[str, str] = MappingProxyType({"local": "local", "ray": "on_ray"})
"""Name of an engine -> the module of this package whose `opened(workers, device)` gives it."""


class Engine(Protocol):
    """Takes tasks, and gives each one's result once, in any order. It is asked from one thread."""

    @property
    def slots(self) -> int:
        """How many tasks it works on at a time; more that were submitted wait."""

    def submit(self, task: Task) -> None:
        """Takes a task. Whatever happens to it, one result with its key comes of it."""

    def completed(self, seconds: float) -> Result | None:
        """The next result; None if there is none within so many seconds."""

    def close(self) -> None:
        """Ends what is under way, and gives no more results."""


def opened(name: str, workers: int | None, devices: tuple[str, ...]) -> Engine:
    """The engine of that name.

    Args:
        name: One of ENGINES.
        workers: How many tasks it works on at a time; None: as many as it has cores, or GPUs if `devices` are all CUDA.
        devices: What the runs of the sweep are on.

    Raises:
        TcreadyError: There is no such engine, or what it needs is not installed.
    """
    if name not in ENGINES:
        raise TcreadyError(f"--engine {name}: use one of {', '.join(ENGINES)}")
    module = importlib.import_module(f"tcready.sweeping.{ENGINES[name]}")
    engine: Engine = module.opened(workers, devices)
    return engine
