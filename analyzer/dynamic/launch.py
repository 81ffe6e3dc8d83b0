"""Send requests to a worker: run a target, try changes, measure. Each answer is complete, whatever the target does."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tcready.dynamic.bundle import build_bundle
from tcready.dynamic.ranks import combine_ranks, describe_places, ended_by, left_in, suffix
from tcready.dynamic.recovery import fault_place, first_failure, observation_of, with_failed_cases
from tcready.dynamic.worker.core.request import (
    DROPPED_IN_A_BENCH,
    DROPPED_PREFIXES,
    NOT_OURS,
    State,
    Work,
    ended_early,
    read_json,
    write_json,
)
from tcready.dynamic.worker_process import (
    POLL,
    Ending,
    RunningWorker,
    RunRequest,
    end_process,
    is_plain,
    open_server,
    run_process,
    signals_wait,
    start_process,
    state_in,
    watch_process,
    with_detail,
)
from tcready.portable.target import Target
from tcready.schema.bench import BenchAnswer, BenchKind, BenchRequest
from tcready.schema.display_paths import origin_of
from tcready.schema.enums import Origin, StageName, StageReason, TcreadyError
from tcready.schema.observation import Observation, Stage
from tcready.schema.progress import Progress
from tcready.schema.proof import ProofRequest, ProofResult

OF_A_CASE: tuple[StageName, ...] = ("eager", "capture", "backend", "parity")
"""Stages that call the model: the failure of one case does not affect the others. `fullgraph` may fail legitimately."""
_T = TypeVar("_T", ProofResult, BenchAnswer)
WITHOUT: tuple[StageReason, ...] = ("no_torch", "device_missing")
"""Reasons for which a run does not begin although no stage fails."""
TIMING: frozenset[BenchKind] = frozenset({"steady", "soak"})
"""Kinds of bench processes that are not copies: differences between processes are part of the measurement, and copies
have the same memory layout."""


def observe(
    request: RunRequest, progress: Callable[[Progress], None] = lambda _: None, stays: StayingWorker | None = None
) -> Observation:
    """Run the target in a separate process. Whatever the target does, the answer is an Observation. If the run ends
    well, `stays` takes over its process.

    If one of several named cases fails or ends the process, another process runs the others; the stage in which it
    failed remains failed. `progress` gets a short description of the current step. Raises TcreadyError if the text of
    the target names nothing, and OSError if the temporary folder cannot be written.
    """
    Target.parse(request.target)
    root = os.path.realpath(request.root)
    deadline = time.monotonic() + request.options.timeout
    failed_cases: dict[str, Stage] = {}
    seconds = 0.0
    while True:
        work = replace(_work(request, root), leave_out=tuple(failed_cases))
        once = request
        if failed_cases:
            options = replace(request.options, timeout=max(deadline - time.monotonic(), POLL))
            once = replace(request, options=options)
        seen, state = _run_once(once, work, progress, stays)
        seconds += seen.seconds or 0.0
        seen = replace(seen, seconds=round(seconds, 4))
        failed = next((stage for stage in seen.stages if stage.state == "fail" and stage.stage in OF_A_CASE), None)
        case = _case_of(failed, state) if failed is not None and state is not None else None
        if failed is None or state is None or case is None or len(state.cases) < 2:
            return with_failed_cases(seen, failed_cases)
        if stays is not None:
            stays.close()
        failed_cases[case] = replace(failed, detail=f"case {case}: {failed.detail}")
        if deadline - time.monotonic() <= 0:
            return with_failed_cases(seen, failed_cases)


def refuse_trace_folder(folder: Path, named: str) -> None:
    """Raise TcreadyError if the folder for torch's trace is not empty or cannot be written."""
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise TcreadyError(f"--trace-out {named}: the folder is not empty, and traces would mix: name another")
        there = next(each for each in (folder, *folder.parents) if each.exists())
        if not there.is_dir() or not os.access(there, os.W_OK):
            raise TcreadyError(f"--trace-out {named}: it cannot be written there")
    except OSError as error:
        raise TcreadyError(f"--trace-out {named}: {error.strerror or error}") from None


def prove(
    request: RunRequest, proof: ProofRequest, progress: Callable[[Progress], None] = lambda _: None
) -> ProofResult:
    """Try changes in separate processes. Whatever they do, the answer is a ProofResult.

    Raises TcreadyError if the text of the target names nothing, and OSError if the temporary folder cannot be written.
    """
    with Prover(request, progress) as prover:
        return prover.prove(proof)


class _Requested:
    """A process that answers one request after the other, in a folder of its own. A context manager, which ends it."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._running: RunningWorker | None = None
        self._request_number = 0

    def __enter__(self: _R) -> _R:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process, if there is one, and remove its folder."""
        self._end()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _end(self) -> None:
        if self._running is not None:
            running, self._running = self._running, None
            end_process(running)

    def _new_room(self) -> Path:
        """Return a new folder, in place of the process and the folder that there are."""
        self.close()
        self._request_number = 0
        self._folder = tempfile.TemporaryDirectory(prefix="tcready-", ignore_cleanup_errors=True)
        return Path(self._folder.name)

    def _start(self, request: RunRequest, root: str, room: Path, benched: bool = False) -> RunningWorker | Ending:
        with signals_wait():
            started = start_process(request, root, room, benched=benched)
            self._running = started if isinstance(started, RunningWorker) else None
        return started

    def _send(self, room: Path, wanted: ProofRequest | BenchRequest) -> None:
        """Send one more request to the process."""
        self._request_number += 1
        (room / "result.json").unlink(missing_ok=True)
        write_json(str(room / f"request-{self._request_number}.json"), wanted)


_R = TypeVar("_R", bound=_Requested)


class Prover(_Requested):
    """A process that tries changes, one request after the other, so that torch is loaded once.

    It starts with the first request, and again after a request that ended it. Raises TcreadyError if the text of the
    target names nothing, and OSError if the temporary folder cannot be written.
    """

    def __init__(self, request: RunRequest, progress: Callable[[Progress], None] = lambda _: None) -> None:
        super().__init__()
        Target.parse(request.target)
        self._request = request
        self._progress = progress

    def prove(self, proof: ProofRequest) -> ProofResult:
        """Try these changes. Whatever they do, the answer is a ProofResult."""
        if not hasattr(os, "fork"):
            return ProofResult(failure="not run: this system cannot copy a process (os.fork)")
        proof = replace(proof, stays=True)
        if self._running is None or self._folder is None:
            room = self._new_room()
            work = replace(_work(self._request, os.path.realpath(self._request.root)), proof=proof)
            build_bundle(room / "worker.pyz")
            write_json(str(room / "request.json"), work)
            late = open_server(self._request, work.root)
            if late is not None:
                return ProofResult(failure=late.detail)
            started = self._start(self._request, work.root, room)
            if isinstance(started, Ending):
                return ProofResult(failure=started.detail)
        else:
            room = Path(self._folder.name)
            self._send(room, proof)
        assert self._running is not None
        done = room / f"done-{self._request_number}"
        ending = watch_process(
            self._running.process, self._request, room, self._running.mark, self._progress, done.exists
        )
        result = _read_answer(ProofResult, room / "result.json")
        if ending is None and result is not None:
            return result
        state, running = state_in(room), self._running
        self._running = None
        end_process(running)
        if result is not None and (result.failure or len(result.trials) == len(proof.variants)):
            return result
        ending = ending or Ending("no answer was left", "error")
        return replace(result or ProofResult(), failure=_explain_ending(state, with_detail(ending, running)))


def bench(
    request: RunRequest, wanted: BenchRequest, progress: Callable[[Progress], None] = lambda _: None
) -> BenchAnswer:
    """Measure in a separate process, within the limits of the request's options.

    Environment variables that set up Dynamo and Inductor are part of the measurement, unlike in a run.

    Whatever happens, the answer is a BenchAnswer: the measurements so far, and in `failure` why there are no more. Raises
    TcreadyError if the text of the target names nothing, and OSError if the temporary folder cannot be written.
    """
    Target.parse(request.target)
    if request.options.processes:
        return BenchAnswer(wanted.kind, failure="not run: a model over several processes is not measured")
    if wanted.kind in TIMING:
        request = replace(request, server=None)
    work = replace(_work(request, os.path.realpath(request.root)), bench=wanted)
    answer, state, ending = _run_worker(BenchAnswer, request, work, progress)
    found = answer or BenchAnswer(wanted.kind)
    if dropped := sorted(name for name in os.environ if name.startswith(DROPPED_IN_A_BENCH)):
        words = f"not passed on, since what it makes torch write would be timed: {', '.join(dropped)}"
        found = replace(found, notes=(*found.notes, words))
    done = state is not None and state.doing is None
    if answer is not None and (answer.failure or (ending.code == 0 and done)):
        return found
    if ending.limit and ending.reason != "timeout":
        return replace(found, failure=_explain_ending(state, ending))
    return ended_early(found, state, _explain_ending(state, ending), late=ending.limit)


class StayingWorker(_Requested):
    """The process of a finished run, which measures with what it imported and built.

    Use it as a context manager. `steps` is the number of consecutive calls that the bench times as one.
    """

    def __init__(self, steps: int = 1) -> None:
        super().__init__()
        self.steps = steps
        self._request: RunRequest | None = None

    def is_of(self, request: RunRequest) -> bool:
        """Return whether the process is alive and has the model of this request."""
        return (
            self._running is not None
            and self._request is not None
            and (self._request.target, self._request.options.mode) == (request.target, request.options.mode)
        )

    @staticmethod
    def suits(request: RunRequest) -> bool:
        """Return whether the process of this run can serve a bench: a bench does not hide environment variables that
        set up Dynamo and Inductor."""
        hidden = {name for name in os.environ if name.startswith(DROPPED_PREFIXES)}
        return is_plain(request) and not any(not name.startswith(DROPPED_IN_A_BENCH) for name in hidden)

    def begin(
        self,
        request: RunRequest,
        folder: tempfile.TemporaryDirectory[str],
        root: str,
        progress: Callable[[Progress], None],
    ) -> Ending:
        """Run the stages in a new process and return how they ended. The process stays if they ended well."""
        self.close()
        self._folder, self._request_number = folder, 0
        self._request = request = replace(request, server=None)  # a copy would have its memory laid out like others
        room = Path(folder.name)
        started = self._start(request, root, room)
        if isinstance(started, Ending):
            return started
        done = room / "done-0"
        ending = watch_process(started.process, request, room, started.mark, progress, done.exists)
        if ending is None:
            return Ending("", "exit", 0)
        self._end()
        return with_detail(ending, started)

    def prepare(self, request: RunRequest) -> None:
        """Start a process that imports torch and waits for one request. It builds what it measures itself."""
        room = self._new_room()
        self._request = request = replace(request, server=None)
        work = replace(_work(request, os.path.realpath(request.root)), waits=True)
        build_bundle(room / "worker.pyz")
        write_json(str(room / "request.json"), work)
        self._start(request, work.root, room, benched=True)

    def bench(self, wanted: BenchRequest, seconds: float, progress: Callable[[Progress], None]) -> BenchAnswer:
        """Like the function `bench`, in this process. Whatever happens, the answer is a BenchAnswer."""
        assert self._request is not None
        assert self._folder is not None
        assert self._running is not None
        room, running = Path(self._folder.name), self._running
        self._send(room, wanted)
        limited = replace(self._request, options=replace(self._request.options, timeout=seconds))
        done = room / f"done-{self._request_number}"
        ending = watch_process(running.process, limited, room, running.mark, progress, done.exists)
        found = _read_answer(BenchAnswer, room / "result.json") or BenchAnswer(wanted.kind)
        if ending is None:
            return found
        state = state_in(room)
        self._end()
        ending = with_detail(ending, running)
        return ended_early(found, state, _explain_ending(state, ending), late=ending.limit)


def _run_worker(
    kind: type[_T], request: RunRequest, work: Work, progress: Callable[[Progress], None]
) -> tuple[_T | None, State | None, Ending]:
    """Run one worker from start to end. Return the answer that it left, its state, and how it ended."""
    with tempfile.TemporaryDirectory(prefix="tcready-", ignore_cleanup_errors=True) as folder:
        room = Path(folder)
        build_bundle(room / "worker.pyz")
        write_json(str(room / "request.json"), work)
        ending = run_process(request, work.root, room, progress, work.bench is not None)
        answer = _read_answer(kind, room / "result.json")
        return answer, state_in(room), ending


def _explain_ending(state: State | None, ending: Ending) -> str:
    """Explain in one line why a process did not give a complete answer."""
    stages = state.observation.stages if state is not None else ()
    why = next((stage.detail for stage in stages if stage.state == "fail"), "")
    if not why and state is not None and state.doing is None:
        why = next((stage.detail for stage in stages if stage.reason in WITHOUT), "")
    return why or ending.detail


def _case_of(failed: Stage, state: State) -> str | None:
    """Return the named case in which that stage failed, or in which the process ended."""
    return state.case if failed.stage == state.doing else dict(state.failed_cases).get(failed.stage)


def _run_once(
    request: RunRequest, work: Work, progress: Callable[[Progress], None], stays: StayingWorker | None = None
) -> tuple[Observation, State | None]:
    """Run one worker from start to end, or until its run is over and it stays."""
    if stays is not None and not stays.suits(request):
        stays = None
    with contextlib.ExitStack() as stack:
        folder = tempfile.TemporaryDirectory(prefix="tcready-", ignore_cleanup_errors=True)
        room = Path(stack.enter_context(folder) if stays is None else folder.name)
        build_bundle(room / "worker.pyz")
        write_json(
            str(room / "request.json"), replace(work, stays=stays is not None, steps=stays.steps if stays else 1)
        )
        began = time.monotonic()
        if stays is None:
            ending = run_process(request, work.root, room, progress)
        else:
            ending = stays.begin(request, folder, work.root, progress)
        seconds = round(time.monotonic() - began, 4)
        state = state_in(room)
        processes = request.options.processes
        if not processes:
            place = fault_place(room / "faults.txt", work.root)
            return observation_of(request, state, ending, place and f"at {place}", None, seconds), state
        endings = {suffix(rank): rank for rank in range(processes)}
        places = {end: fault_place(room / f"faults.txt{end}", work.root) for end in endings}
        place = describe_places([(rank, places[end]) for end, rank in endings.items()])
        ended = ending.detail if ending.limit or ending.code else ""
        left = left_in(room, processes, places)
        dead = left[ending.dead].state if ending.dead is not None else None
        if (cut := ended_by(dead, state)) is not None:
            seen = observation_of(request, cut, ending, place, None, seconds)
        else:
            seen = observation_of(request, state, ending, place, first_failure(room), seconds)

    def origin(path: str) -> Origin:
        return origin_of(path, work.root, request.own_packages)

    kind = request.options.parallel or "ddp"
    return combine_ranks(seen, left, ended, ending.reason, origin, kind, ending.exits), state


def _work(request: RunRequest, root: str) -> Work:
    entries = tuple(entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry)
    options = request.options
    if options.trace_out is not None:
        options = replace(options, trace_out=os.path.join(root, options.trace_out))
    return Work(request.target, options, root, request.own_packages, tuple(os.path.abspath(entry) for entry in entries))


def _read_answer(kind: type[_T], path: Path) -> _T | None:
    """Read the answer that a worker left at `path`; None if there is none."""
    with contextlib.suppress(*NOT_OURS):
        return read_json(kind, str(path))
    return None
