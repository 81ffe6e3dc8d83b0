"""A unit of a sweep's work as a value, and the code that carries it out. Input and output are JSON, so any machine
may do it."""

from __future__ import annotations

import errno
import gc
import json
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from tcready.portable.options import ReadOptions, ReportOptions, RunOptions
from tcready.schema.codec import as_json
from tcready.schema.enums import TcreadyError
from tcready.schema.observation import Observation

if TYPE_CHECKING:
    from tcready.dynamic import ForkServer

StageOfSweep = Literal["list", "read", "run"]
"""`list`: find the models in a module of a package; `read`: read the source; `run`: run a target."""


@dataclass(frozen=True)
class SourceOptions:
    """How sources are read: those of ReadOptions that affect the findings in one unit."""

    mode: Literal["infer", "train", "both"] | None = "infer"
    torch: tuple[int, int] | None = None
    low: bool = False
    plain_call: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    cache: bool = False
    """Use and write `.tcready_cache`."""

    def options(self, root: str) -> ReadOptions:
        return ReadOptions(Path(root), mode=self.mode, torch=self.torch, low=self.low, plain_call=self.plain_call)

    @property
    def report(self) -> ReportOptions:
        return ReportOptions(self.select, self.ignore, self.per_file_ignores)


@dataclass(frozen=True)
class Task:
    """One stage of one target. It can be pickled, and `as_json` and `from_json` turn it to JSON and back."""

    stage: StageOfSweep
    key: str
    """The key of its result: it changes if any input of the result changes."""
    target: str
    """`path.py`, `path.py::Name` or `pkg.mod::Name`; for `list` a dotted module."""
    root: str
    """The working folder, absolute."""
    source_options: SourceOptions = field(default_factory=SourceOptions)
    run: RunOptions = field(default_factory=RunOptions)
    given_by: str | None = None
    """The table with the inputs of a run, if there is one."""


@dataclass(frozen=True)
class Result:
    """The result of a task."""

    key: str
    value: str
    """JSON: the names of models for `list`, a report for `read`, an observation for `run`; empty if `failure` is not."""
    began: float
    """Seconds since the epoch."""
    seconds: float
    failure: str = ""
    """Why there is no value, in one line: the task can be tried again."""
    passing: bool = False
    """Nothing was run for a reason of the machine, not of the model: the result is not stored for later sweeps."""


def refusal(task: Task, why: str, began: float | None = None) -> Result:
    """Return the result of a task that gave no value."""
    now = time.time()
    return Result(task.key, "", now if began is None else began, now - (began or now), why)


def prepare() -> None:
    """Prepare a process to carry out tasks of `list` and `read`, one after the other."""
    from tcready.pipeline.registry import load_rules

    load_rules()
    gc.collect()
    gc.freeze()  # what is loaded stays: collecting after each task does not walk it


def source_task(task: Task) -> Result:
    """Carry out a task of `list` or `read`, in this process: nothing of the target is executed."""
    began, clock = time.time(), time.monotonic()
    try:
        value = _listed(task) if task.stage == "list" else _read(task)
    except TcreadyError as error:
        return refusal(task, str(error), began)
    finally:
        gc.collect()
    return Result(task.key, value, began, time.monotonic() - clock)


def _listed(task: Task) -> str:
    from tcready.static.diagnostics.model_classes import module_classes

    return json.dumps(module_classes(task.target, task.source_options.options(task.root)))


def _read(task: Task) -> str:
    from tcready.merge import merge
    from tcready.pipeline.registry import rule_set
    from tcready.static import driver

    options = task.source_options
    found = driver.read(
        (task.target,), options.options(task.root), rule_set(), options.report, cache=options.cache, jobs=1
    )
    return json.dumps(as_json(merge(found.result, (), found.rules, found.tool)), separators=(",", ":"))


OF_THE_MACHINE = ("no_torch", "device_missing")
"""Reasons of a stage that say nothing about the model."""


class TaskPlace:
    """Carries out tasks of `run`: each run is forked from a process that has imported torch, one for each
    interpreter and set of variables. It may be used by several threads, each of which must live as long as it does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: dict[tuple[str | None, tuple[tuple[str, str], ...]], ForkServer] = {}
        self._alive: weakref.WeakSet[ForkServer] = weakref.WeakSet()
        self._closed = False

    def __enter__(self) -> TaskPlace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the servers, and with them the remaining runs."""
        with self._lock:
            self._closed = True
        for server in self._alive:  # nobody adds to them any more
            server.close()

    def run(self, task: Task, variables: Mapping[str, str] = MappingProxyType({})) -> Result:
        """Run one target. There always is a result. `variables` are added to its environment."""
        began, clock = time.time(), time.monotonic()
        around = tuple(sorted(variables.items()))
        try:
            server = self._server(task.run.python, around)
            seen = self._observed(task, server, around)
            if server.is_lost and any(stage.reason == "crash" for stage in seen.stages):
                # some run killed what all are copies of: which one shows when each has a server of its own
                with self._lock:
                    alone = self._new_server()
                with alone:
                    seen = self._observed(task, alone, around)
        except (TcreadyError, OSError) as error:
            return refusal(task, str(error), began)
        passing = any(stage.reason in OF_THE_MACHINE for stage in seen.stages)
        value = json.dumps(as_json(seen), separators=(",", ":"))
        return Result(task.key, value, began, time.monotonic() - clock, passing=passing)

    def _observed(self, task: Task, server: ForkServer, variables: tuple[tuple[str, str], ...]) -> Observation:
        from tcready.pipeline import observations

        return observations.one_of_many(task.target, task.run, Path(task.root), task.given_by, server, variables)

    def _server(self, python: str | None, variables: tuple[tuple[str, str], ...]) -> ForkServer:
        with self._lock:
            known = self._servers.get((python, variables))
            if known is None or known.is_lost:
                known = self._servers[python, variables] = self._new_server()
            return known

    def _new_server(self) -> ForkServer:
        """Start a server, with the lock held. Raises OSError after `close`, because no more runs are wanted."""
        from tcready.dynamic import ForkServer

        if self._closed:
            raise OSError(errno.ECANCELED, "the work was ended")
        server = ForkServer()
        self._alive.add(server)
        return server
