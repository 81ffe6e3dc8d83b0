"""Make an Observation of what a run left: its stages, and where and why it ended early."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tcready.convention import find_convention
from tcready.dynamic.process import Ending, RunRequest
from tcready.dynamic.ranks import exit_words, without_a_word
from tcready.dynamic.worker.request import LEFT, NOT_OURS, State, read_state, stages_after
from tcready.schema.observation import Observation, Stage
from tcready.schema.paths import display_path
from tcready.schema.words import STAGES, StageReason
from tcready.target import Target

LONGEST_FAULT = 1 << 20
"""Bytes of what the fault handler wrote that are read."""
FAULT_LINE = re.compile(r'^\s*File "(.+)", line (\d+) in ', re.MULTILINE)
OF_COMPILING: tuple[StageReason, ...] = ("compile_error", "mismatch")
"""Reasons that say something of compiling: of several for one stage such a one stands."""


@dataclass(frozen=True)
class RankFailure:
    """The first stage that failed on another process than the observing one."""

    detail: str
    reason: StageReason | None
    first: bool
    """Whether that was before the observing one's last word."""


def observation_of(
    request: RunRequest,
    state: State | None,
    ending: Ending,
    place: str | None,
    other: RankFailure | None,
    seconds: float,
) -> Observation:
    """What the worker left behind; a stage it was in, or never came to, fails with the reason for its end.

    `seconds`: from the start of its process to the end.
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
            elif ending.reason == "crash":  # the others only tell that it is gone
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
    """What the other cases showed, with the stage failed in which each of these ended."""
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
    """Why another process than the observing one failed first; None where none says so.

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
    """The innermost line, outside of installed code, of what the fault handler wrote; None if there is none."""
    for path, line in FAULT_LINE.findall(_text(faults)):
        shown = display_path(path, root)
        if not path.startswith("<") and os.path.isfile(path) and not os.path.isabs(shown):
            installed = any(f"{os.sep}{name}{os.sep}" in path for name in ("site-packages", "dist-packages"))
            if not installed:
                return f"{shown}:{line}"
    return None


def _text(path: Path) -> str:
    """What is written in a file; nothing of a pipe, or of what is not there."""
    with contextlib.suppress(OSError):
        if stat.S_ISREG(path.stat().st_mode):
            with path.open("rb") as file:
                return file.read(LONGEST_FAULT).decode("utf-8", "replace")
    return ""


def _blank(request: RunRequest) -> Observation:
    """What there is to say where the worker never wrote."""
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
