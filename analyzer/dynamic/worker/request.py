"""What the launcher asks of the worker, and the state file through which the worker answers."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field

from tcready.schema import STAGES, Mode, Observation, Stage, StageName, as_json, from_json

DROPPED_PREFIXES = ("TORCHDYNAMO_", "TORCH_COMPILE", "TORCH_LOGS", "TORCH_TRACE", "TORCHINDUCTOR_")
"""Environment variables that would change what Dynamo does or says."""


@dataclass(frozen=True)
class Extra:
    """Phases that cost more than the run itself: each is done where it is asked for."""

    fullgraph: bool = False
    """Try `fullgraph=True` though the default run has breaks."""
    shapes: bool = False
    """Vary the sizes of the inputs and record what recompiles, under each setting of `dynamic`."""
    backend: bool = False
    """Compile with Inductor."""
    budget: float | None = None
    """Seconds for all of these together; what it cuts is told. None: only the time limit of the run."""


@dataclass(frozen=True)
class Work:
    """One run, as the worker is told it. `root` is absolute; so is the path in a `path.py::Name`."""

    target: str
    inputs: str | None
    mode: Mode
    device: str
    dtype: str | None
    root: str
    own_packages: tuple[str, ...]
    python_path: tuple[str, ...]
    """PYTHONPATH's entries: the worker starts without them, so that they shadow nothing it needs."""
    autocast: str | None = None
    """The dtype of `torch.autocast` around every call; None: no autocast."""
    extra: Extra = field(default_factory=Extra)
    weights: tuple[tuple[str, float], ...] = ()
    """Weights of named cases; they win over those that the inputs give."""
    synthesise: bool = False
    """Make inputs up where nothing gives them."""
    processes: int | None = None
    """How many of these run together, each knowing its rank by the environment; None: this one alone."""
    leave_out: tuple[str, ...] = ()
    """Named cases that ended an earlier worker of this run."""


@dataclass(frozen=True)
class State:
    """What was established so far, and the stage under way (None once all is done)."""

    doing: StageName | None
    note: str
    observation: Observation
    case: str | None = None
    """The named case under way, or the one that the stage which failed was in."""
    cases: tuple[str, ...] = ()
    """The named cases of this worker."""


def read_work(path: str) -> Work:
    with open(path, encoding="utf-8") as file:
        return from_json(Work, json.load(file))


def read_state(path: str) -> State | None:
    """None where the worker wrote nothing yet."""
    try:
        with open(path, encoding="utf-8") as file:
            return from_json(State, json.load(file))
    except FileNotFoundError:
        return None


def write_json(path: str, value: object) -> None:
    """Atomically: a reader sees the old file or the new one, never a part."""
    partial = path + ".part"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(as_json(value), file)
    os.replace(partial, path)


def stages_after(done: dict[StageName, Stage], detail: str) -> tuple[Stage, ...]:
    """All nine stages in order; those not in `done` are `not_run` for the reason `detail`."""
    return tuple(done.get(name, Stage(name, "not_run", detail)) for name in STAGES)
