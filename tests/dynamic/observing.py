"""Runs a target in a worker of its own, with options by name."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tcready.dynamic import RunRequest, observe
from tcready.merge import merge
from tcready.options import RunOptions
from tcready.schema import Observation, Progress, Report, StaticResult, Tool

TORCH = tuple(int(part) for part in re.findall(r"\d+", importlib.metadata.version("torch"))[:2])


def torch_between(first: tuple[int, int], last: tuple[int, int], otherwise: str) -> pytest.MarkDecorator:
    """For what torch was measured to do from version `first` to `last` alone; `otherwise` is what others do."""
    return pytest.mark.skipif(not first <= TORCH <= last, reason=otherwise)


def observe_target(
    target: str,
    *,
    root: str | Path = ".",
    own_packages: tuple[str, ...] = (),
    progress: Callable[[Progress], None] = lambda _: None,
    tools: Path | None = None,
    **options: Any,
) -> Observation:
    """`options` are the fields of RunOptions; `tools` is the fixture: what Inductor makes once is made once for all
    tests."""
    toolchain = str(tools) if tools else None
    return observe(RunRequest(target, RunOptions(**options), str(root), own_packages, toolchain), progress)


def report_of(seen: Observation) -> Report:
    """The report of a run alone: no source was read."""
    return merge(StaticResult((), (), (), (), (), {}), (seen,), (), Tool("tcready", "0"))
