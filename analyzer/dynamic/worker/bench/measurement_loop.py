"""Run every arm in every case, from the first calls until the times have settled."""

from __future__ import annotations

import contextlib
import functools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tcready.dynamic.worker.bench import process_memory
from tcready.dynamic.worker.bench.loops import Loop, loop_of
from tcready.dynamic.worker.bench.state import Drift, drift
from tcready.dynamic.worker.bench.timed_inputs import Feed, Inputs, feed_of
from tcready.dynamic.worker.bench.variants import RunningVariant, build_arm, loss_for
from tcready.dynamic.worker.core.calling import compile_error, settle
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import one_line
from tcready.dynamic.worker.core.toolchain import compiler_cache, missing_toolchain, shared_folder
from tcready.dynamic.worker.inputs.loss import Loss, NotTrainedError
from tcready.dynamic.worker.torch_internals import compile_calls, dynamo
from tcready.dynamic.worker.torch_internals.recording import recording
from tcready.portable.events import to_schema
from tcready.portable.events.record import RecompileEvent, Record
from tcready.schema.bench import Arm, ArmMeasured, BenchRequest
from tcready.schema.enums import EAGER

FIRST_CALLS = 3
"""The number of calls that compile: a varying size appears in the second, which also records CUDA graphs."""
COPIED_CALLS = 10
"""The most consecutive calls if each changes its inputs, such as a growing cache."""
SETTLING = 5
"""The number of calls in a median that is compared with that of as many calls before them."""
SETTLED = 0.05
"""The relative difference up to which these medians count as settled."""
COMPILED_NOTHING = "compiled nothing"
GAVE_UP = "Dynamo reached its recompile limit: later calls run eagerly"
AGAIN = "compiled again"
"""The prefix of the note about recompilations."""
MOST_NAMED = 3
"""The most functions that this note names, and guards of each."""
OWN_PARTS = "the code compiles parts of itself: they stay compiled in `eager`, but not in the reference for parity"
ONE_ARM = "not run: in this torch, arms share one recompile limit, so only one arm is compiled in a process"


Missing = Callable[[], str | None]
"""Returns the reason why Inductor cannot compile anything here; None if it can."""


@dataclass
class Lane:
    """One arm in one case."""

    found: ArmMeasured
    """The measurements so far. A lane with an `error` is not measured any more."""
    arm: RunningVariant | None = None
    """None if it could not be built, or was dropped."""
    step: Callable[[Iterator[Inputs]], Any] | None = None
    feed: Feed | None = None
    accumulate: int = 1
    seconds: float = 0.0
    """The seconds of a warm step."""
    drifts: bool = False
    """True if calls change its model. All arms of a case are then called equally often."""
    again: list[RecompileEvent] = field(default_factory=list)
    """Every recompilation of its arm since the first call."""
    gave_up: bool = False
    """True if its arm reached the recompile limit, so that code runs eagerly."""

    @property
    def name(self) -> str:
        return self.found.arm + (f" (case {self.found.case})" if self.found.case else "")

    def add(self, **facts: Any) -> None:
        self.found = replace(self.found, **facts)

    def out(self, error: str) -> None:
        self.found = replace(self.found, error=error)
        self.arm = self.step = self.feed = None

    def inputs(self, steps: int) -> Iterator[Inputs]:
        """Return the inputs for the given number of steps."""
        assert self.feed is not None
        return self.feed.take(steps * self.accumulate)

    def calls_at_once(self, steps: int) -> int:
        """Return how many of these steps can run consecutively: fewer if they change their inputs."""
        assert self.feed is not None
        return steps if self.feed.anew == "never" else min(steps, COPIED_CALLS)

    def timed(self, context: Context, steps: int) -> list[float]:
        """Run steps consecutively and return the seconds of each. Raises what they raise."""
        assert self.arm is not None
        assert self.step is not None
        inputs = self.inputs(steps)
        found = []
        with self.arm.in_place():
            for _ in range(steps):
                settle(context)
                began = time.perf_counter()
                self.step(inputs)
                settle(context)
                found.append(time.perf_counter() - began)
        return found


@contextlib.contextmanager
def compiler(context: Context, request: BenchRequest) -> Iterator[Missing]:
    """Use a cache folder for everything that is compiled in the context. Yields a function that returns why Inductor
    cannot compile here; call it only after an error, because it takes up to ten seconds.

    Folders that were not given are created beside the state file, and the launcher removes them.
    """
    dynamo.reset()
    with shared_folder(context, request.cache) as folder:

        def missing() -> str | None:
            if request.works or not any(_names_inductor(arm.code) for arm in request.arms):
                return None
            return missing_toolchain(context.work.options.device, context)

        if request.kind in ("cold", "carry"):
            missing()  # a one-time cost of the machine is not part of a cold start
            dynamo.reset()
        with compiler_cache(context, folder):
            yield missing


def _names_inductor(code: str) -> bool:
    """Return whether the code compiles with Inductor: it names Inductor, or no backend."""
    return "compile" in code and ("inductor" in code or "backend" not in code)


def lanes_of(context: Context, request: BenchRequest, missing: Missing | None) -> list[Lane]:
    """Build every arm in every case; those that fail get an error. Raises NotTrainedError if nothing can be trained."""
    given = _given(context, request)
    lanes: list[Lane] = []
    drifting = given.drift.buffers
    compiled = 0
    for arm in request.arms:
        notes = given.notes if arm.name == EAGER else ()
        own = [
            Lane(ArmMeasured(arm.name, case.name, notes=notes), accumulate=request.accumulate, drifts=bool(given.drift))
            for case in context.cases
        ]
        lanes += own
        compiled += bool(arm.code.strip())
        if arm.code.strip() and compiled > 1 and not compile_calls.isolates_recompiles():
            running: RunningVariant | str = ONE_ARM
        else:
            running = built_or_why(context, arm, missing, forced=not given.compiles, drifting=drifting)
        for lane, each in zip(own, given.cases, strict=True):
            if isinstance(running, str):
                lane.out(running)
            elif isinstance(each, str):
                lane.out(each)
            else:
                loss, lane.feed = each
                lane.arm, lane.step = running, running.step(loss, request.accumulate, given.loop)
    return lanes


def built_or_why(
    context: Context, arm: Arm, missing: Missing | None, *, forced: bool = False, drifting: Sequence[str] = ()
) -> RunningVariant | str:
    """Build the arm as `built` does; if that fails, return the reason in one line."""
    try:
        return build_arm(context, arm, forced=forced, drifting=drifting)
    except Exception as error:
        return error_of(error, context, missing)


@dataclass
class _Given:
    """Results of calls of eager code, before any arm runs."""

    cases: list[tuple[Loss | None, Feed] | str]
    """For each case, the loss and the feed of inputs; or why it cannot be called."""
    drift: Drift
    compiles: bool
    """True if the code compiles parts of itself."""
    loop: Loop | None

    @property
    def notes(self) -> tuple[str, ...]:
        own = (OWN_PARTS,) if self.compiles else ()
        return (*own, self.drift.note) if self.drift.note else own


def _given(context: Context, request: BenchRequest) -> _Given:
    eager = build_arm(context, Arm(EAGER, ""))
    record = Record()
    found = _Given([], Drift(), False, loop_of(context, request))
    for case in context.cases:
        try:
            with recording(record), eager.in_place():
                loss = loss_for(context, eager.model, case) if found.loop is None else None
                step = eager.step(loss, request.accumulate, found.loop)
                feed = feed_of(case, step, request.accumulate, is_loop=found.loop is not None)
                found.drift |= drift(eager.model, functools.partial(step, feed.take(request.accumulate)))
                found.cases.append((loss, feed))
        except NotTrainedError:
            raise
        except Exception as error:
            found.cases.append(f"eager code raises {one_line(error, context.work.root)}")
    found.compiles = any(frame.ops for frame in record.compiled)
    return found


def error_of(error: BaseException, context: Context, missing: Missing | None) -> str:
    """Return the error of an arm in one line, or why Inductor cannot compile anything here."""
    return (missing() if missing is not None else None) or compile_error(error, context)


def first_calls(context: Context, lanes: list[Lane], missing: Missing | None) -> None:
    """Compile: run the first calls of each case, in order. Drop arms that compile nothing, and lanes that raise."""
    for arm in dict.fromkeys(lane.found.arm for lane in lanes):
        own = [lane for lane in lanes if lane.found.arm == arm]
        record = Record()
        before = process_memory.allocated(context)
        dynamo.forget_sizes()
        for lane in own:
            if lane.found.error:
                continue
            context.journal.write(f"bench: {lane.name}, first calls")
            try:
                with recording(record):
                    lane.timed(context, FIRST_CALLS)
            except Exception as error:
                lane.out(error_of(error, context, missing))
        for lane in own:
            if lane.arm is not None:
                lane.arm.retained_bytes = max(process_memory.allocated(context) - before, 0)
        _count_graphs(context, own, record)


def _count_graphs(context: Context, own: list[Lane], record: Record) -> None:
    """Count the graphs and breaks of an arm over all its cases, which share compiled code."""
    running = next((lane.arm for lane in own if lane.arm is not None), None)
    if running is None or running.eager:
        return
    graphs = sum(1 for frame in record.compiled if frame.ops)
    breaks = len(to_schema.break_sites(record, context.names, None))
    for lane in own:
        lane.add(graphs=graphs, breaks=breaks, recompiles=0)
        _note_again(context, lane, record)
        if not graphs and not lane.found.error:
            lane.out(COMPILED_NOTHING)
        lane.gave_up |= any_given_up(record)  # the case is not known


def warm_up(
    context: Context,
    lane: Lane,
    request: BenchRequest,
    seconds: float,
    missing: Missing | None,
    calls: int | None = None,
) -> None:
    """Run calls until the times have settled, within the requested minimum and maximum, for at most `seconds`; or
    exactly `calls` calls."""
    context.journal.write(f"bench: {lane.name}, warm-up")
    times: list[float] = []
    began = time.monotonic()
    settled = False
    least, most = (request.warm_least, request.warm_most) if calls is None else (calls, calls)
    try:
        while len(times) < most and not (settled and len(times) >= least):
            if calls is None and time.monotonic() - began > seconds and len(times) >= FIRST_CALLS:
                break
            slow = seconds / max(most, 1)
            at_once = 1 if times and times[-1] > slow else min(SETTLING, most - len(times))
            times += watched(context, lane, at_once)
            settled = _is_settled(times)
    except Exception as error:
        lane.out(error_of(error, context, missing))
        return
    lane.seconds = statistics.median(times[-SETTLING:])
    lane.add(warm_calls=len(times), settled=settled)


def watched(context: Context, lane: Lane, steps: int) -> list[float]:
    """Return the times of some steps, and count the recompilations in them."""
    record = Record()
    with recording(record):
        times = lane.timed(context, steps)
    count(context, lane, record)
    return times


def count(context: Context, lane: Lane, record: Record) -> None:
    """Add recompilations to the lane."""
    if lane.arm is not None and not lane.arm.eager:
        again = sum(1 for event in record.recompiles if event.recompiled)
        lane.add(recompiles=(lane.found.recompiles or 0) + again)
        _note_again(context, lane, record)
        lane.gave_up |= any_given_up(record)


def _note_again(context: Context, lane: Lane, record: Record) -> None:
    """Add the recompilations of a record to the lane, and name all of them in one note with the guards that failed."""
    lane.again += [event for event in record.recompiles if event.recompiled]
    if not lane.again or not record.recompiles:
        return
    every = Record(recompiles=lane.again)
    found = to_schema.join_recompiles(to_schema.recompiles(every, context.names, None, False))
    parts = [f"{each.path}:{each.line} {each.symbol} ({_few(each.reasons, '; ')})" for each in found if each.reasons]
    number = len(lane.again)
    times = f"{number} time{'' if number == 1 else 's'}"
    other = tuple(note for note in lane.found.notes if not note.startswith(AGAIN))
    lane.add(notes=(*other, *([f"{AGAIN}: {times}: {_few(parts, ', ')}"] if parts else [])))


def _few(parts: Sequence[str], between: str) -> str:
    more = f"{between}and {len(parts) - MOST_NAMED} more" if len(parts) > MOST_NAMED else ""
    return between.join(parts[:MOST_NAMED]) + more


def any_given_up(record: Record) -> bool:
    """Return whether code reached the recompile limit and was not recompiled."""
    return any(not event.recompiled for event in record.recompiles)


def _is_settled(times: list[float]) -> bool:
    if len(times) < 2 * SETTLING:
        return False
    before = statistics.median(times[-2 * SETTLING : -SETTLING])
    return abs(statistics.median(times[-SETTLING:]) / before - 1) <= SETTLED


def measured(lanes: list[Lane]) -> tuple[ArmMeasured, ...]:
    return tuple(lane.found for lane in lanes)


def alive(lanes: list[Lane]) -> list[Lane]:
    return [lane for lane in lanes if not lane.found.error]
