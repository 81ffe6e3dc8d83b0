"""Runs a target in a worker of its own, with options by name."""

from __future__ import annotations

import atexit
import importlib.metadata
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tcready.dynamic import ForkServer, RunRequest, observe
from tcready.dynamic.worker.torch_internals.compile_calls import isolates_recompiles
from tcready.dynamic.worker_process import open_server
from tcready.merge import merge
from tcready.portable.options import RunOptions
from tcready.schema.observation import Observation
from tcready.schema.progress import Progress
from tcready.schema.report import Report, Tool
from tcready.schema.static import StaticResult

TORCH = tuple(int(part) for part in re.findall(r"\d+", importlib.metadata.version("torch"))[:2])


SERVER = ForkServer()
"""What the runs of one test process are copies of: importing torch takes longer than most of them."""
atexit.register(SERVER.close)


def opened(server: ForkServer) -> None:
    """Imports torch before the time of a run counts, which some tests make short."""
    open_server(RunRequest("model.py", RunOptions(), server=server), ".")


def torch_between(first: tuple[int, int], last: tuple[int, int], otherwise: str) -> pytest.MarkDecorator:
    """For what torch was measured to do from version `first` to `last` alone; `otherwise` is what others do."""
    return pytest.mark.skipif(not first <= TORCH <= last, reason=otherwise)


needs_isolation = pytest.mark.skipif(not isolates_recompiles(), reason="compiled models share one recompile limit")


def observe_target(
    target: str,
    *,
    root: str | Path = ".",
    own_packages: tuple[str, ...] = (),
    progress: Callable[[Progress], None] = lambda _: None,
    server: ForkServer | None = SERVER,
    **options: Any,
) -> Observation:
    """`options` are the fields of RunOptions. Without a `server` the worker is started afresh."""
    run = RunRequest(target, RunOptions(**options), str(root), own_packages, server)
    if server is SERVER:
        opened(server)
    return observe(run, progress)


def report_of(seen: Observation) -> Report:
    """The report of a run alone: no source was read."""
    return merge(StaticResult((), (), (), (), (), {}), (seen,), {}, Tool("tcready", "0"))
