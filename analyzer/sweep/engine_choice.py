"""The interface of what carries out the tasks of a sweep."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from tcready.schema.enums import TcreadyError
from tcready.sweep.task import Result, Task

ENGINES: Mapping[str, str] = MappingProxyType({"local": "local_engine", "ray": "ray_engine"})
"""Name of an engine -> the module of this package with its `opened(workers, device)`."""


class Engine(Protocol):
    """Takes tasks, and returns the result of each once, in any order. Used from one thread."""

    @property
    def slots(self) -> int:
        """Return how many tasks it works on at a time; further ones wait."""

    def submit(self, task: Task) -> None:
        """Submit a task. Whatever happens to it, it gets one result with its key."""

    def completed(self, seconds: float) -> Result | None:
        """Return the next result; None if there is none within this many seconds."""

    def close(self) -> None:
        """Stop current work, and return no more results."""


def opened(name: str, workers: int | None, devices: tuple[str, ...]) -> Engine:
    """Open the engine of that name.

    Args:
        name: One of ENGINES.
        workers: How many tasks it works on at a time; None: as many as it has cores, or GPUs if `devices` are all CUDA.
        devices: The devices of the runs of the sweep.

    Raises:
        TcreadyError: There is no such engine, or its requirements are not installed.
    """
    if name not in ENGINES:
        raise TcreadyError(f"--engine {name}: use one of {', '.join(ENGINES)}")
    module = importlib.import_module(f"tcready.sweep.{ENGINES[name]}")
    engine: Engine = module.opened(workers, devices)
    return engine
