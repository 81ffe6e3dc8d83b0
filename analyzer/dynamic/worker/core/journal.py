"""The results so far, written after every stage, so that a crash or a hang preserves them."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tcready.dynamic.worker.core.frames import is_user_file
from tcready.dynamic.worker.core.request import LEFT, State, Work, stages_after, write_json
from tcready.schema.display_paths import display_path
from tcready.schema.enums import InputsSource, StageName, StageReason, StageState
from tcready.schema.enums import counted as counted
from tcready.schema.observation import Observation, Stage

NOT_REQUESTED = "not asked for"
NOT_MEASURED = "not part of a check: `tcready bench` measures it"
NO_VALUES = "the device meta holds no values"
BUDGET_SPENT = "the budget was spent"
BUDGETED: frozenset[StageName] = frozenset({"fullgraph", "shapes", "plan", "backend"})
"""The stages that share a budget."""

SHORT = 200
"""The number of characters up to which a message of several lines is reported in full."""


class StageFailedError(Exception):
    """The current stage failed, and stages that require it cannot run. The journal already has it."""


class RunEndedError(Exception):
    """The run ends early without a failure; the journal has the reason."""


class Journal:
    """Records one stage at a time: `begin`, then `end`; `add` adds facts at any time.

    `state_path` None: it is not written, and its creator reads it.
    """

    def __init__(
        self, work: Work, label: str | None, state_path: str | None, source: InputsSource | None = None
    ) -> None:
        self.state_path = state_path
        self.done: dict[StageName, Stage] = {}
        self.doing: StageName | None = None
        self.began = time.perf_counter()
        """When the worker began."""
        self.started = 0.0
        """When the current stage began."""
        self.note = ""
        self.counted: tuple[int | None, int | None] = None, None
        self.ends: float | None = None
        """When the budget of the stages in BUDGETED is spent, by `time.monotonic`, once its clock runs."""
        self.case: str | None = None
        self.cases: tuple[str, ...] = ()
        self.arm: str | None = None
        self.failed_cases: dict[StageName, str] = {}
        self.news = ""
        """A first answer, which the launcher shows immediately."""
        self.rest: tuple[str, StageReason] = LEFT
        """The reason why stages that never began did not run."""
        self.observation = Observation(
            work.target,
            label,
            work.options.mode,
            stages_after({}, *self.rest),
            None,
            inputs_from=source,
            compiled_at=work.options.compile_call,
        )

    def begin(self, stage: StageName, note: str = "") -> None:
        self.doing, self.started = stage, time.perf_counter()
        self.write(note or stage)

    def end(self, state: StageState, detail: str = "", reason: StageReason | None = None) -> None:
        """End the current stage. `reason` is the code for why it failed or did not run."""
        assert self.doing is not None
        assert (state == "pass") == (reason is None), f"{self.doing} {state}: {reason}"
        seconds = None if state == "not_run" else round(time.perf_counter() - self.started, 4)
        stage = self.doing
        self.done[stage] = Stage(stage, state, detail, seconds, reason)
        self.doing = None
        if state == "fail" and self.case is not None:
            self.failed_cases[stage] = self.case
        self.case = None
        self.write("")

    def at(self, case: str | None) -> None:
        """Name the case of the next call in the state file, in case the process ends in it."""
        if case != self.case:
            self.case = case
            self.write(self.note, *self.counted)

    @contextlib.contextmanager
    def running(self, arm: str) -> Iterator[None]:
        """Context for code of an arm of a bench. The state file names the arm, in case the process ends in it."""
        before = self.arm
        self._of_arm(arm)
        try:
            yield
        except Exception:  # other exceptions, such as SystemExit, end the process, in that arm
            self._of_arm(before)
            raise
        self._of_arm(before)

    def _of_arm(self, arm: str | None) -> None:
        if arm != self.arm:
            self.arm = arm
            self.write(self.note, *self.counted)

    def skip(self, stage: StageName, detail: str, reason: StageReason) -> None:
        self.done[stage] = Stage(stage, "not_run", detail, reason=reason)

    def add(self, **facts: Any) -> None:
        self.observation = replace(self.observation, **facts)

    def warn(self, text: str) -> None:
        self.add(warnings=(*self.observation.warnings, text))

    def close(self) -> None:
        """Complete the journal: stages that never began become `not_run` for the reason `rest`."""
        self.doing = None
        self.write("")

    def write(self, note: str, done: int | None = None, of: int | None = None) -> None:
        """Write the current activity, and that `done` of `of` items are finished. A finished stage has no note."""
        self.note, self.counted = note, (done, of)
        seconds = round(time.perf_counter() - self.began, 4)
        stages = stages_after(self.done, *self.rest)
        self.observation = replace(self.observation, stages=stages, seconds=seconds)
        if self.state_path is not None:
            state = State(
                self.doing,
                note,
                self.observation,
                self.case,
                self.cases,
                tuple(self.done),
                tuple(self.failed_cases.items()),
                done,
                of,
                self.ends if self.doing in BUDGETED else None,
                self.arm,
                None if self.doing is None else round(self.started - self.began, 4),
                self.news,
            )
            write_json(self.state_path, state)


def one_line(error: BaseException, root: str) -> str:
    """Return an exception in one line, with the user's file and line if known. Of a long message of several lines only
    the first is used, since torch writes its advice and its stacks after it."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"SyntaxError: {error.msg} ({display_path(error.filename, root)}:{error.lineno or 1})"
    if isinstance(error, SystemExit):
        text = f"the code called sys.exit({'' if error.code is None else repr(error.code)})"
    else:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        name, whole = type(error).__name__, " ".join(lines)
        shown = whole if len(whole) <= SHORT else f"{lines[0]} ..." if len(lines) > 1 else lines[0]
        text = f"{name}: {shown}" if lines else name
    place = user_place(error)
    return f"{text} ({display_path(place[0], root)}:{place[1]})" if place else text


def user_place(error: BaseException) -> tuple[str, int] | None:
    """Return the innermost user line of the traceback, or of the exception that led to this one."""
    for link in (error, error.__cause__, error.__context__):
        frames = traceback.extract_tb(link.__traceback__) if link is not None else []
        for frame in reversed(frames):
            if frame.lineno and is_user_file(frame.filename):
                return frame.filename, frame.lineno
    return None
