"""Convert what a run left behind to an Observation: its stages, and where and why it ended early."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tcready.dynamic.ranks import exit_words, without_a_word
from tcready.dynamic.worker.core.request import LEFT, NOT_OURS, State, read_state, stages_after
from tcready.dynamic.worker_process import Ending, RunRequest
from tcready.portable.input_conventions import find_convention
from tcready.portable.target import Target
from tcready.schema.display_paths import display_path
from tcready.schema.enums import STAGES, StageReason
from tcready.schema.observation import Observation, Stage

LONGEST_FAULT = 1 << 20
"""The most bytes that are read from the output of the fault handler."""
FAULT_LINE = re.compile(r'^\s*File "(.+)", line (\d+) in ', re.MULTILINE)
OF_COMPILING: tuple[StageReason, ...] = ("compile_error", "mismatch")
"""Reasons that concern compiling. If a stage has several reasons, one of these takes precedence."""


@dataclass(frozen=True)
class RankFailure:
    """The first stage that failed on a process other than the observing one."""

    detail: str
    reason: StageReason | None
    first: bool
    """True if that was before the last message of the observing process."""


def observation_of(
    request: RunRequest,
    state: State | None,
    ending: Ending,
    place: str | None,
    other: RankFailure | None,
    seconds: float,
) -> Observation:
    """Return the observation that the worker left. A stage that was running, or never began, fails with the reason
    for the end of the process.

    `seconds`: from the start of the process to its end.
    """
    found = _blank(request) if state is None else state.observation
    found = replace(found, warnings=(*found.warnings, *ending.warnings), seconds=seconds)
    settled = state.settled if state is not None else ()
    done = {stage.stage: stage for stage in found.stages if stage.stage in settled}
    doing = state.doing if state is not None else "parse"
    if doing is None:
        if ending.code == 0:
            return found
        failed = next((stage for stage in done.values() if stage.state == "fail"), None)
        if (
            failed is not None and request.options.processes
        ):  # a rank that gives up ends with an error, to take the rest along
            if other is not None and other.first and not other.detail.endswith(failed.detail):
                failed = replace(failed, detail=other.detail, reason=other.reason)
            elif ending.reason == "crash":  # the others only report that it has ended
                failed = replace(failed, detail=f"{ending.detail}; then {failed.detail}", reason="crash")
            done[failed.stage] = failed
            return replace(found, stages=stages_after(done, *LEFT))
        doing = None if failed else next((name for name in STAGES if name not in done), None)
        if doing is None:
            end = f"behind its last stage the run ended: {ending.detail}"
            return replace(found, warnings=(*found.warnings, end))
    detail: str = ending.detail
    reason: StageReason | None = ending.reason
    if without_a_word(0, ending.exits):
        detail, reason = exit_words(0, 0), "exit"
    elif other is not None and not ending.limit:
        detail, reason = other.detail, other.reason
    if ending.limit and state is not None:
        detail += f", while in stage {doing}"
    if place:
        detail += f" ({place})"
    since = state.since if state is not None else None
    took = round(max(seconds - since, 0.0), 4) if since is not None else None
    done[doing] = Stage(doing, "fail", detail, took, reason)
    return replace(found, stages=stages_after(done, *LEFT))


def with_failed_cases(seen: Observation, failed_cases: Mapping[str, Stage]) -> Observation:
    """Return the observation of the other cases, with the stages failed in which each failed case ended."""
    stages = {stage.stage: stage for stage in seen.stages}
    for stage in failed_cases.values():
        known = stages[stage.stage]
        detail, reason = stage.detail, stage.reason
        if known.state == "fail":
            detail += f"; {known.detail}" if known.detail not in stage.detail else ""
            reason = known.reason if known.reason in OF_COMPILING else reason
        stages[stage.stage] = replace(stage, detail=detail, reason=reason)
    return replace(seen, stages=tuple(stages.values()))


def first_failure(room: Path) -> RankFailure | None:
    """Return why a process other than the observing one failed first; None if no process reports that.

    A rank that ends takes the others with it in their next collective.
    """
    found: list[tuple[int, str, StageReason | None]] = []
    for path in room.glob("state.json.rank*[0-9]"):
        with contextlib.suppress(*NOT_OURS):
            state = read_state(str(path))
            failed = [stage for stage in state.observation.stages if stage.state == "fail"] if state else []
            rank = path.suffix.removeprefix(".rank")
            when = path.stat().st_mtime_ns
            found += [(when, f"on rank {rank}: {stage.detail}", stage.reason) for stage in failed]
    if not found:
        return None
    when, detail, reason = min(found, key=lambda item: item[:2])
    with contextlib.suppress(OSError):
        return RankFailure(detail, reason, when < (room / "state.json").stat().st_mtime_ns)
    return RankFailure(detail, reason, False)


def fault_place(faults: Path, root: str) -> str | None:
    """Return the innermost line outside of installed code in the output of the fault handler; None if there is none."""
    for path, line in FAULT_LINE.findall(_text(faults)):
        shown = display_path(path, root)
        if not path.startswith("<") and os.path.isfile(path) and not os.path.isabs(shown):
            installed = any(f"{os.sep}{name}{os.sep}" in path for name in ("site-packages", "dist-packages"))
            if not installed:
                return f"{shown}:{line}"
    return None


def _text(path: Path) -> str:
    """Return the content of a file; empty for a pipe or a missing file."""
    with contextlib.suppress(OSError):
        if stat.S_ISREG(path.stat().st_mode):
            with path.open("rb") as file:
                return file.read(LONGEST_FAULT).decode("utf-8", "replace")
    return ""


def _blank(request: RunRequest) -> Observation:
    """Return an observation for a worker that never wrote one."""
    options = request.options
    if options.inputs:
        return Observation(
            request.target, "--inputs", options.mode, stages_after({}, *LEFT), None, inputs_from="option"
        )
    target = Target.parse(request.target)
    convention = find_convention(Path(os.path.join(request.root, target.place)), target.name)
    return Observation(
        request.target,
        convention.label if convention else None,
        options.mode,
        stages_after({}, *LEFT),
        None,
        inputs_from="convention" if convention else None,
    )
