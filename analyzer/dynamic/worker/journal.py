"""What was established so far, written after every stage, so that a crash or a hang leaves it behind."""

from __future__ import annotations

import time
import traceback
from dataclasses import replace
from typing import Any

from tcready.dynamic.worker.frames import is_user_file
from tcready.dynamic.worker.request import State, Work, stages_after, write_json
from tcready.schema import Observation, Stage, StageName, StageState, display_path

EARLIER = "an earlier stage failed"
NOT_ASKED = "not asked for"
BUDGET_SPENT = "the budget was spent"


class StageFailedError(Exception):
    """The stage under way ended; the journal has it already."""


class Journal:
    """Stages climb one at a time: `begin`, then `end`; facts are added by `add` at any time.

    `state_path` None: it is written nowhere, and read by who made it.
    """

    def __init__(self, work: Work, label: str | None, state_path: str | None) -> None:
        self.state_path = state_path
        self.done: dict[StageName, Stage] = {}
        self.doing: StageName | None = None
        self.started = 0.0
        self.note = ""
        self.case: str | None = None
        self.cases: tuple[str, ...] = ()
        self.observation = Observation(work.target, label, work.options.mode, stages_after({}, EARLIER), None)

    def begin(self, stage: StageName, note: str = "") -> None:
        self.doing, self.started = stage, time.perf_counter()
        self.write(note or stage)

    def end(self, state: StageState, detail: str = "") -> None:
        assert self.doing is not None
        seconds = None if state == "not_run" else round(time.perf_counter() - self.started, 4)
        self.done[self.doing] = Stage(self.doing, state, detail, seconds)
        self.doing = None
        if state != "fail":
            self.case = None
        self.write("")

    def at(self, case: str | None) -> None:
        """A call of that case comes next: should the process end in it, the state file says which it was."""
        if case != self.case:
            self.case = case
            self.write(self.note)

    def skip(self, stage: StageName, detail: str) -> None:
        self.done[stage] = Stage(stage, "not_run", detail)

    def add(self, **facts: Any) -> None:
        self.observation = replace(self.observation, **facts)

    def warn(self, text: str) -> None:
        self.add(warnings=(*self.observation.warnings, text))

    def close(self, detail: str = EARLIER) -> None:
        """All is said: stages that never began are `not_run` for the reason `detail`."""
        self.doing = None
        self.write("", detail)

    def write(self, note: str, detail: str = EARLIER) -> None:
        self.note = note
        self.observation = replace(self.observation, stages=stages_after(self.done, detail))
        if self.state_path is not None:
            write_json(self.state_path, State(self.doing, note, self.observation, self.case, self.cases))


def counted(number: int, noun: str) -> str:
    """`1 graph`, `2 graphs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def told(error: BaseException, root: str) -> str:
    """An exception in one line, with the user's file and line where one is known."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"SyntaxError: {error.msg} ({display_path(error.filename, root)}:{error.lineno or 1})"
    if isinstance(error, SystemExit):
        text = f"the code called sys.exit({'' if error.code is None else repr(error.code)})"
    else:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        name = type(error).__name__
        text = f"{name}: {lines[0]}" if lines else name
    place = user_place(error)
    return f"{text} ({display_path(place[0], root)}:{place[1]})" if place else text


def user_place(error: BaseException) -> tuple[str, int] | None:
    """The innermost user line of the traceback, or of the exception that led to this one."""
    for link in (error, error.__cause__, error.__context__):
        frames = traceback.extract_tb(link.__traceback__) if link is not None else []
        for frame in reversed(frames):
            if frame.lineno and is_user_file(frame.filename):
                return frame.filename, frame.lineno
    return None
