"""The request of the launcher to the worker, and the state file with the worker's answer."""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from tcready.options import RunOptions
from tcready.schema.bench import ArmMeasured, BenchAnswer, BenchRequest
from tcready.schema.codec import as_json, from_json
from tcready.schema.frame import Frame
from tcready.schema.observation import Observation, Stage
from tcready.schema.paths import contents
from tcready.schema.proof import ProofRequest
from tcready.schema.words import STAGES, StageName, StageReason, TcreadyError

DROPPED_PREFIXES = ("TORCHDYNAMO_", "TORCH_COMPILE", "TORCH_LOGS", "TORCH_TRACE", "TORCHINDUCTOR_")
"""Environment variables that would change what Dynamo does or says."""
DROPPED_IN_A_BENCH = ("TORCH_LOGS", "TORCH_TRACE", "TORCH_COMPILE_DEBUG")
"""Those that a bench does not see either: they have torch write much more, which takes time."""
LATE = frozenset({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "PYTEST_CURRENT_TEST", "TCREADY_RUN"})
"""Variables that nothing reads while torch is imported: a copy may have others than what it is a copy of."""
LAUNCHER = "TCREADY_LAUNCHER"
"""Environment variable with the process that a worker is to die with: its parent, if that still is who started it."""
POLL = 0.02
"""Seconds between two looks for the next request."""
LARGEST = 1 << 30
"""Bytes of a file that a worker leaves; what is larger is none of its."""
LEFT: tuple[str, StageReason] = ("an earlier stage failed", "earlier_stage")
"""Why a stage that was never begun did not run, in words and as a word, where nothing else is known."""
NOT_OURS = (OSError, ValueError, RecursionError, TcreadyError)
"""What reading a file of a run raises into which somebody else wrote: the model knows where it is."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Work:
    """One run, as the worker gets it. `root` is absolute."""

    target: str
    options: RunOptions
    root: str
    own_packages: tuple[str, ...] = ()
    """First segments below site-packages that count as own."""
    python_path: tuple[str, ...] = ()
    """PYTHONPATH's entries: the worker starts without them, so that they shadow nothing it needs."""
    leave_out: tuple[str, ...] = ()
    """Named cases that ended an earlier worker of this run."""
    proof: ProofRequest | None = None
    """Changes to be tried, in place of the stages of a run."""
    bench: BenchRequest | None = None
    """What to measure, in place of the stages of a run."""
    waits: bool = False
    """Whether the process imports torch and waits then for what it is to measure (`bench.process.wait`)."""
    stays: bool = False
    """Whether the process stays after its stages, to measure what it is asked for then (`bench.process.serve`)."""
    steps: int = 1
    """Consecutive calls that the bench will time as one, if the process stays for it."""


@dataclass(frozen=True)
class State:
    """What was established so far, and the stage under way (None once all is done)."""

    doing: StageName | None
    note: str
    observation: Observation
    case: str | None = None
    """The named case under way."""
    cases: tuple[str, ...] = ()
    """The named cases of this worker."""
    settled: tuple[StageName, ...] = ()
    """The stages that were ended or left out on purpose: of the others the observation only says that none began."""
    failed_cases: tuple[tuple[StageName, str], ...] = ()
    """Stages that failed in a named case, and which it was."""
    done: int | None = None
    """So many of `of` are done of what the note says, if that can be counted."""
    of: int | None = None
    ends: float | None = None
    """When the budget is spent, by `time.monotonic`, while a stage that has one is under way."""
    arm: str | None = None
    """The arm of a bench whose code is under way."""
    since: float | None = None
    """Seconds from the start of the worker to that of the stage under way."""
    news: str = ""
    """A first answer of a bench."""


@dataclass(frozen=True)
class RankOperation:
    """One operation of a graph that a rank compiled."""

    text: str
    """What it is and the shapes that it gives."""
    place: Frame | None
    """The user's line behind it."""
    collective: bool = False
    inputs: tuple[int, ...] = ()
    """The operations before it that it takes, by their places in the graph; what the graph is given is left out."""


@dataclass(frozen=True)
class RankGraph:
    """One graph that a rank compiled; each rank leaves its own as lines of a file beside its state."""

    case: str | None
    operations: tuple[RankOperation, ...]


def graphs_path(state_path: str) -> str:
    """Where a rank leaves its graphs."""
    return f"{state_path}.graphs"


def read_graphs(path: str) -> tuple[RankGraph, ...]:
    """The graphs in order, as far as they were written: a rank may have been killed in the middle of a line."""
    found: list[RankGraph] = []
    with contextlib.suppress(*NOT_OURS):
        for line in contents(path, LARGEST)[0].splitlines():
            found.append(from_json(RankGraph, json.loads(line)))  # noqa: PERF401  what came before a torn line stays
    return tuple(found)


def with_device(work: Work, device: str) -> Work:
    return replace(work, options=replace(work.options, device=device))


def read_work(path: str) -> Work:
    with open(path, encoding="utf-8") as file:
        return from_json(Work, json.load(file))


def read_state(path: str) -> State | None:
    """None where the worker wrote nothing yet. Raises OSError, ValueError or TcreadyError for what no worker writes."""
    try:
        return read_json(State, path)
    except FileNotFoundError:
        return None


def read_json(kind: type[_T], path: str) -> _T:
    """The value that `write_json` left there; the code that was run may have put anything else in its place.

    Raises OSError (of a pipe too, which may never answer), ValueError, RecursionError, or TcreadyError if it is none.
    """
    return from_json(kind, json.loads(contents(path, LARGEST)[0].decode("utf-8")))


def next_request(kind: type[_T], room: Path, number: int) -> _T:
    """Say in `room` that request `number` is answered, and wait for the one after it."""
    (room / f"done-{number}").touch()
    following = room / f"request-{number + 1}.json"
    while not following.exists():
        time.sleep(POLL)
    return read_json(kind, str(following))


def write_json(path: str, value: object) -> None:
    """Atomically: a reader sees the old file or the new one, never a part."""
    write_whole(path, json.dumps(as_json(value)).encode())


def write_whole(path: str, data: bytes) -> None:
    """Atomically, too."""
    partial = path + ".part"
    with open(partial, "wb") as file:
        file.write(data)
    os.replace(partial, path)


def ended_early(found: BenchAnswer, state: State | None, why: str, late: bool) -> BenchAnswer:
    """What a process of a bench left, and `why` it did not do all.

    `late`: since its time was over. Else it ended by itself, and that is an error of the arm whose code was under way.
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
    """All stages in order; those not in `done` are `not_run`, for `reason`, in words `detail`."""
    return tuple(done.get(name, Stage(name, "not_run", detail, reason=reason)) for name in STAGES)
