"""Runs a target in a worker of its own, with options by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tcready.dynamic import RunRequest, observe
from tcready.merge import merge
from tcready.options import RunOptions
from tcready.schema import Observation, Report, StaticResult, Tool


def observe_target(
    target: str,
    *,
    root: str | Path = ".",
    own_packages: tuple[str, ...] = (),
    progress: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> Observation:
    """`options` are the fields of RunOptions."""
    return observe(RunRequest(target, RunOptions(**options), str(root), own_packages), progress)


def report_of(seen: Observation) -> Report:
    """The report of a run alone: no source was read."""
    return merge(StaticResult((), (), (), (), (), {}), (seen,), (), Tool("tcready", "0"))
