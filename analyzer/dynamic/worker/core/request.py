"""The requests of the launcher to the worker, and the state file in which the worker answers."""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from tcready.portable.options import RunOptions
from tcready.schema.bench import ArmMeasured, BenchAnswer, BenchRequest
from tcready.schema.code_line import Frame
from tcready.schema.codec import as_json, from_json
from tcready.schema.display_paths import contents
from tcready.schema.enums import STAGES, StageName, StageReason, TcreadyError
from tcready.schema.observation import Observation, Stage
from tcready.schema.proof import ProofRequest

DROPPED_PREFIXES = ("TORCHDYNAMO_", "TORCH_COMPILE", "TORCH_LOGS", "TORCH_TRACE", "TORCHINDUCTOR_")
"""Environment variables that would change what Dynamo does or logs."""
DROPPED_IN_A_BENCH = ("TORCH_LOGS", "TORCH_TRACE", "TORCH_COMPILE_DEBUG")
"""Further variables that a bench does not see: they make torch write much more, which takes time."""
LATE = frozenset({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "PYTEST_CURRENT_TEST", "TCREADY_RUN"})
"""Variables that nothing reads while torch is imported: a copy may have other values than its original."""
LAUNCHER = "TCREADY_LAUNCHER"
"""Environment variable with the process with which a worker must end: its parent, if that still is the process that
started it."""
POLL = 0.02
"""Seconds between two checks for the next request."""
LARGEST = 1 << 30
"""The most bytes of a file from a worker; a larger file is not one of its files."""
LEFT: tuple[str, StageReason] = ("an earlier stage failed", "earlier_stage")
"""The default reason, as text and as a code, for a stage that was never begun."""
NOT_OURS = (OSError, ValueError, RecursionError, TcreadyError)
"""Exceptions from reading a file of a run to which other code wrote: the model knows its path."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Work:
    """One run, as the worker receives it. `root` is absolute."""

    target: str
    options: RunOptions
    root: str
    own_packages: tuple[str, ...] = ()
    """First segments below site-packages that count as own."""
    python_path: tuple[str, ...] = ()
    """The entries of PYTHONPATH: the worker starts without them, so that they hide nothing that it needs."""
    leave_out: tuple[str, ...] = ()
    """Named cases that ended an earlier worker of this run."""
    proof: ProofRequest | None = None
    """Changes to be tried, in place of the stages of a run."""
    bench: BenchRequest | None = None
    """The measurements to make, in place of the stages of a run."""
    waits: bool = False
    """True if the process imports torch and then waits for a request to measure (`bench.process.wait`)."""
    stays: bool = False
    """True if the process stays after its stages, to answer requests to measure (`bench.process.serve`)."""
    steps: int = 1
    """The number of consecutive calls that the bench will time as one, if the process stays for it."""


@dataclass(frozen=True)
class State:
    """The results so far, and the current stage (None once all are done)."""

    doing: StageName | None
    note: str
    observation: Observation
    case: str | None = None
    """The named case of the current call."""
    cases: tuple[str, ...] = ()
    """The named cases of this worker."""
    settled: tuple[StageName, ...] = ()
    """The stages that were ended or intentionally left out: for the others the observation only records that they did
    not begin."""
    failed_cases: tuple[tuple[StageName, str], ...] = ()
    """Stages that failed in a named case, with the case."""
    done: int | None = None
    """The number of finished items out of `of`, if the work in the note can be counted."""
    of: int | None = None
    ends: float | None = None
    """When the budget is spent, by `time.monotonic`, during a stage that has one."""
    arm: str | None = None
    """The arm of a bench that is running, if any."""
    since: float | None = None
    """Seconds from the start of the worker to the start of the current stage."""
    news: str = ""
    """A first answer of a bench."""


@dataclass(frozen=True)
class RankOperation:
    """One operation of a graph that a rank compiled."""

    text: str
    """The operation and the shapes of its results."""
    place: Frame | None
    """The user's line behind it."""
    collective: bool = False
    inputs: tuple[int, ...] = ()
    """The earlier operations that it takes as inputs, by their index in the graph, without the graph's own inputs."""


@dataclass(frozen=True)
class RankGraph:
    """One graph that a rank compiled; each rank writes its own as lines of a file beside its state."""

    case: str | None
    operations: tuple[RankOperation, ...]


def graphs_path(state_path: str) -> str:
    """Return the path of the graphs of a rank."""
    return f"{state_path}.graphs"


def read_graphs(path: str) -> tuple[RankGraph, ...]:
    """Return the graphs in order, as far as they were written: a rank may have been killed in the middle of a line."""
    found: list[RankGraph] = []
    with contextlib.suppress(*NOT_OURS):
        for line in contents(path, LARGEST)[0].splitlines():
            found.append(from_json(RankGraph, json.loads(line)))  # noqa: PERF401  lines before an incomplete one are used
    return tuple(found)


def with_device(work: Work, device: str) -> Work:
    return replace(work, options=replace(work.options, device=device))


def read_work(path: str) -> Work:
    with open(path, encoding="utf-8") as file:
        return from_json(Work, json.load(file))


def read_state(path: str) -> State | None:
    """Return the state; None if the worker has written nothing yet. Raises OSError, ValueError or TcreadyError for
    content that no worker writes."""
    try:
        return read_json(State, path)
    except FileNotFoundError:
        return None


def read_json(kind: type[_T], path: str) -> _T:
    """Return the value that `write_json` wrote; other code may have replaced the file.

    Raises OSError (also for a pipe, which may never answer), ValueError, RecursionError, or TcreadyError if it is
    invalid.
    """
    return from_json(kind, json.loads(contents(path, LARGEST)[0].decode("utf-8")))


def next_request(kind: type[_T], room: Path, number: int) -> _T:
    """Report in `room` that request `number` is answered, and wait for the next one."""
    (room / f"done-{number}").touch()
    following = room / f"request-{number + 1}.json"
    while not following.exists():
        time.sleep(POLL)
    return read_json(kind, str(following))


def write_json(path: str, value: object) -> None:
    """Write a value atomically: a reader sees the old file or the new one, never a part."""
    write_whole(path, json.dumps(as_json(value)).encode())


def write_whole(path: str, data: bytes) -> None:
    """Write bytes atomically."""
    partial = path + ".part"
    with open(partial, "wb") as file:
        file.write(data)
    os.replace(partial, path)


def ended_early(found: BenchAnswer, state: State | None, why: str, late: bool) -> BenchAnswer:
    """Return the answer of a bench process that ended early, with the reason `why`.

    `late`: its time was over. Otherwise it ended by itself, and that is an error of the arm that was running.
    """
    arm = state.arm if state is not None and not late else None
    if arm is None:
        return replace(found, failure=why, timed_out=late)
    words = f"{why}, in code of the arm {arm}"
    own = tuple(row for row in found.measured if row.arm == arm) or (ArmMeasured(arm),)
    others = tuple(row for row in found.measured if row.arm != arm)
    errors = tuple(replace(row, error=row.error or words) for row in own)
    return replace(found, measured=(*others, *errors), failure=words, ended_in=arm)


def stages_after(done: dict[StageName, Stage], detail: str, reason: StageReason) -> tuple[Stage, ...]:
    """Return all stages in order; those not in `done` are `not_run` for `reason`, with the text `detail`."""
    return tuple(done.get(name, Stage(name, "not_run", detail, reason=reason)) for name in STAGES)
