"""Runs the worker: one process group with a time limit and a memory limit, ended whole.

What leaves the group is found by a mark in its environment; only a process that both leaves the group and drops
its environment gets away.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import IO, TypeAlias, TypeVar

from tcready.convention import find_convention
from tcready.dynamic.bundle import build_bundle
from tcready.dynamic.fork_server import NAME_LENGTH, Copy, ForkServer
from tcready.dynamic.ranks import (
    ended_by,
    exit_words,
    exits_in,
    first_dead,
    left_in,
    signal_name,
    suffix,
    together,
    where,
    without_a_word,
)
from tcready.dynamic.worker.request import (
    DROPPED_IN_A_BENCH,
    DROPPED_PREFIXES,
    LAUNCHER,
    LEFT,
    NOT_OURS,
    State,
    Work,
    ended_early,
    read_json,
    read_state,
    stages_after,
    write_json,
)
from tcready.options import RunOptions
from tcready.schema.bench import BenchAnswer, BenchKind, BenchRequest
from tcready.schema.observation import Observation, Stage
from tcready.schema.paths import display_path, origin_of
from tcready.schema.progress import Progress
from tcready.schema.proof import ProofRequest, ProofResult
from tcready.schema.words import STAGES, Origin, StageName, StageReason, TcreadyError
from tcready.target import Target

POLL = 0.1
"""Seconds between two looks at the worker."""
GRACE = 0.5
"""Seconds the worker has to say where it hangs before it is killed."""
AGAIN = 1.0
"""Seconds after which progress that has not changed is told again, to who might want to end the run."""
TAIL = 65536
"""Bytes of the worker's output that are kept."""
MARK = "TCREADY_RUN"
"""Environment variable by which every process of a run is known, even one that left its group."""
DROPPED = (
    "PYTHONPATH",
    "PYTHONWARNINGS",
    "PYTHONSTARTUP",
    "PYTHONINSPECT",
    "PYTHONSAFEPATH",
    "PYTHONHASHSEED",
)
FOLLOW = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.environ.pop("TCREADY_LAUNCHER") != str(os.getppid()):
    sys.exit(1)
try:
    os.execvp(sys.argv[1], sys.argv[1:])
except OSError as error:
    sys.exit(f"{sys.argv[1]} cannot be started: {error.strerror}")
"""
"""Becomes the command that follows, to be killed when its parent dies (PR_SET_PDEATHSIG, which execve keeps)."""
LONGEST_FAULT = 1 << 20
"""Bytes of what the fault handler wrote that are read."""
FAULT_LINE = re.compile(r'^\s*File "(.+)", line (\d+) in ', re.MULTILINE)
OF_A_CASE: tuple[StageName, ...] = ("eager", "capture", "backend", "parity")
"""Stages that call the model: one case's failure says nothing of the others. `fullgraph` fails for good reason."""
_T = TypeVar("_T", ProofResult, BenchAnswer)
WITHOUT: tuple[StageReason, ...] = ("no_torch", "device_missing")
"""Reasons that keep a run from beginning, though no stage fails."""
TIMING: frozenset[BenchKind] = frozenset({"steady", "soak"})
"""Processes of a bench that are no copies: how they differ is part of what is measured, and copies have their memory laid
out alike."""
OF_COMPILING: tuple[StageReason, ...] = ("compile_error", "mismatch")
"""Reasons that say something of compiling: of several for one stage such a one stands."""


@dataclass(frozen=True)
class RunRequest:
    """What to run, how, and seen from where."""

    target: str
    """`path.py`, `path.py::Name` or `pkg.mod::Name`."""
    options: RunOptions = field(default_factory=RunOptions)
    root: str = "."
    """The working folder: display paths and origin are relative to it."""
    own_packages: tuple[str, ...] = ()
    """First segments below site-packages that count as own."""
    toolchain: str | None = None
    """Folder of what Inductor makes once for all models, for several runs; None: each makes it anew."""
    server: ForkServer | None = None
    """What several runs are copies of; None: each imports torch anew, as a process of a bench that times calls does
    always."""
    variables: tuple[tuple[str, str], ...] = ()
    """What its environment has beside, or in place of, what this process has."""


@dataclass(frozen=True)
class Ending:
    """How the worker ended."""

    detail: str
    """In one line: what to say of a stage that it left unfinished."""
    reason: StageReason
    """The same as a word."""
    code: int | None = None
    """The exit code; None where the launcher ended it, or could not start it."""
    limit: bool = False
    """Whether the launcher ended it."""
    warnings: tuple[str, ...] = ()
    dead: int | None = None
    """The rank that died of a signal."""
    exits: Mapping[int, int] = field(default_factory=dict)
    """Of several processes, those that ended with an error: the rank and its exit code (negative: the signal)."""


@dataclass(frozen=True)
class RankFailure:
    """The first stage that failed on another process than the observing one."""

    detail: str
    reason: StageReason | None
    first: bool
    """Whether that was before the observing one's last word."""


def observe(
    request: RunRequest,
    progress: Callable[[Progress], None] = lambda _: None,
    stays: StayingWorker | None = None,
) -> Observation:
    """Run the target in a process of its own. Whatever the target does, the answer is an Observation. If the run ends
    well, its process is left to `stays`.

    Where one of several named cases fails or ends the process, another process runs the others; the stage in which
    it failed stays failed. `progress` is given in a few words what is under way. Raises TcreadyError if the target's
    text names nothing, and OSError if the temporary folder cannot be written.
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
        seen, state = _once(once, work, progress, stays)
        seconds += seen.seconds or 0.0
        seen = replace(seen, seconds=round(seconds, 4))
        failed = next(
            (stage for stage in seen.stages if stage.state == "fail" and stage.stage in OF_A_CASE), None
        )
        case = _case_of(failed, state) if failed is not None and state is not None else None
        if failed is None or state is None or case is None or len(state.cases) < 2:
            return _with_failed_cases(seen, failed_cases)
        if stays is not None:
            stays.close()
        failed_cases[case] = replace(failed, detail=f"case {case}: {failed.detail}")
        if deadline - time.monotonic() <= 0:
            return _with_failed_cases(seen, failed_cases)


def refuse_trace_folder(folder: Path, named: str) -> None:
    """Raises TcreadyError if what torch traces would not be alone in a folder, or cannot be left there."""
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise TcreadyError(
                f"--trace-out {named}: the folder is not empty, and traces would mix: name another"
            )
        there = next(each for each in (folder, *folder.parents) if each.exists())
        if not there.is_dir() or not os.access(there, os.W_OK):
            raise TcreadyError(f"--trace-out {named}: it cannot be written there")
    except OSError as error:
        raise TcreadyError(f"--trace-out {named}: {error.strerror or error}") from None


def prove(
    request: RunRequest, proof: ProofRequest, progress: Callable[[Progress], None] = lambda _: None
) -> ProofResult:
    """Try changes in processes of their own. Whatever they do, the answer is a ProofResult.

    Raises TcreadyError if the target's text names nothing, and OSError if the temporary folder cannot be written.
    """
    with Prover(request, progress) as prover:
        return prover.prove(proof)


class Prover:
    """A process that tries changes, one request after the other: torch is loaded once for all of them.

    It is started with the first request, and anew after one that it did not survive. Raises TcreadyError if the target's
    text names nothing, and OSError if the temporary folder cannot be written.
    """

    def __init__(self, request: RunRequest, progress: Callable[[Progress], None] = lambda _: None) -> None:
        Target.parse(request.target)
        self._request = request
        self._progress = progress
        self._room: tempfile.TemporaryDirectory[str] | None = None
        self._running: _Running | None = None
        self._asked = 0

    def __enter__(self) -> Prover:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def prove(self, proof: ProofRequest) -> ProofResult:
        """Try these changes. Whatever they do, the answer is a ProofResult."""
        if not hasattr(os, "fork"):
            return ProofResult(failure="not run: this system cannot copy a process (os.fork)")
        proof = replace(proof, stays=True)
        if self._running is None or self._room is None:
            self._end()
            self._room = tempfile.TemporaryDirectory(prefix="tcready-", ignore_cleanup_errors=True)
            self._asked = 0
        room = Path(self._room.name)
        if self._running is None:
            work = replace(_work(self._request, os.path.realpath(self._request.root)), proof=proof)
            build_bundle(room / "worker.pyz")
            write_json(str(room / "request.json"), work)
            late = _opened(self._request, work.root)
            if late is not None:
                return ProofResult(failure=late.detail)
            with signals_wait():
                started = _started(self._request, work.root, room)
                self._running = started if isinstance(started, _Running) else None
            if isinstance(started, Ending):
                return ProofResult(failure=started.detail)
        else:
            self._asked += 1
            _ask(room, self._asked, proof)
        assert self._running is not None
        done = room / f"done-{self._asked}"
        ending = _watch(
            self._running.process, self._request, room, self._running.mark, self._progress, done.exists
        )
        result = _left(ProofResult, room / "result.json")
        if ending is None and result is not None:
            return result
        state, running = _state(room), self._running
        self._running = None
        _end(running)
        if result is not None and (result.failure or len(result.trials) == len(proof.variants)):
            return result
        ending = ending or Ending("no answer was left", "error")
        return replace(result or ProofResult(), failure=_why(state, _with_detail(ending, running)))

    def _end(self) -> None:
        if self._running is not None:
            _end(self._running)
            self._running = None
        if self._room is not None:
            self._room.cleanup()
            self._room = None


def bench(
    request: RunRequest, wanted: BenchRequest, progress: Callable[[Progress], None] = lambda _: None
) -> BenchAnswer:
    """Measure in one process of its own, within the limits of the request's options.

    Variables of the environment that set up Dynamo and Inductor are part of what is measured, unlike in a run.

    Whatever happens in it, the answer is a BenchAnswer: what was measured until then, and in `failure` why there is no
    more. Raises TcreadyError if the target's text names nothing, and OSError if the temporary folder cannot be written.
    """
    Target.parse(request.target)
    if request.options.processes:
        return BenchAnswer(wanted.kind, failure="not run: a model over several processes is not measured")
    if wanted.kind in TIMING:
        request = replace(request, server=None)
    work = replace(_work(request, os.path.realpath(request.root)), bench=wanted)
    answer, state, ending = _answered(BenchAnswer, request, work, progress)
    found = answer or BenchAnswer(wanted.kind)
    if dropped := sorted(name for name in os.environ if name.startswith(DROPPED_IN_A_BENCH)):
        words = f"not passed on, since what it makes torch write would be timed: {', '.join(dropped)}"
        found = replace(found, notes=(*found.notes, words))
    done = state is not None and state.doing is None
    if answer is not None and (answer.failure or (ending.code == 0 and done)):
        return found
    if ending.limit and ending.reason != "timeout":
        return replace(found, failure=_why(state, ending))
    return ended_early(found, state, _why(state, ending), late=ending.limit)


def _ask(room: Path, number: int, wanted: ProofRequest | BenchRequest) -> None:
    """Ask a process that stays for one thing more."""
    (room / "result.json").unlink(missing_ok=True)
    write_json(str(room / f"request-{number}.json"), wanted)


class StayingWorker:
    """The process of a run that is over, which measures with what it imported and built.

    Enter it as a context. `toolchain` is a folder of what Inductor makes once for all processes of a bench, and `steps`
    the number of consecutive calls that the bench times as one.
    """

    def __init__(self, steps: int = 1) -> None:
        self.steps = steps
        self._tools = tempfile.TemporaryDirectory(prefix="tcready-", ignore_cleanup_errors=True)
        self.toolchain = self._tools.name
        self._request: RunRequest | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._running: _Running | None = None
        self._asked = 0

    def __enter__(self) -> StayingWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._tools.cleanup()

    def is_of(self, request: RunRequest) -> bool:
        """Whether the process is alive and its model that of this request."""
        return (
            self._running is not None
            and self._request is not None
            and (self._request.target, self._request.options.mode) == (request.target, request.options.mode)
        )

    @staticmethod
    def suits(request: RunRequest) -> bool:
        """Whether a process of this run could be one of a bench: a bench does not hide variables of the environment that
        set up Dynamo and Inductor."""
        hidden = {name for name in os.environ if name.startswith(DROPPED_PREFIXES)}
        return _is_plain(request) and not any(not name.startswith(DROPPED_IN_A_BENCH) for name in hidden)

    def begin(
        self,
        request: RunRequest,
        folder: tempfile.TemporaryDirectory[str],
        root: str,
        progress: Callable[[Progress], None],
    ) -> Ending:
        """Run the stages in a fresh process; how they ended. The process stays if they ended well."""
        self.close()
        self._folder, self._asked = folder, 0
        self._request = request = replace(
            request, server=None
        )  # a copy would have its memory laid out like others
        room = Path(folder.name)
        with signals_wait():
            started = _started(request, root, room)
            self._running = started if isinstance(started, _Running) else None
        if isinstance(started, Ending):
            return started
        done = room / "done-0"
        ending = _watch(started.process, request, room, started.mark, progress, done.exists)
        if ending is None:
            return Ending("", "exit", 0)
        self._end()
        return _with_detail(ending, started)

    def prepare(self, request: RunRequest) -> None:
        """Start a process that imports torch and waits for one request: what it measures it builds itself."""
        self.close()
        self._folder = folder = tempfile.TemporaryDirectory(prefix="tcready-", ignore_cleanup_errors=True)
        self._asked = 0
        self._request = request = replace(request, server=None)
        room = Path(folder.name)
        work = replace(_work(request, os.path.realpath(request.root)), waits=True)
        build_bundle(room / "worker.pyz")
        write_json(str(room / "request.json"), work)
        with signals_wait():
            started = _started(request, work.root, room, benched=True)
            self._running = started if isinstance(started, _Running) else None

    def bench(
        self, wanted: BenchRequest, seconds: float, progress: Callable[[Progress], None]
    ) -> BenchAnswer:
        """As `bench`, in this process. Whatever happens in it, the answer is a BenchAnswer."""
        assert self._request is not None
        assert self._folder is not None
        assert self._running is not None
        room, running = Path(self._folder.name), self._running
        self._asked += 1
        _ask(room, self._asked, wanted)
        limited = replace(self._request, options=replace(self._request.options, timeout=seconds))
        done = room / f"done-{self._asked}"
        ending = _watch(running.process, limited, room, running.mark, progress, done.exists)
        found = _left(BenchAnswer, room / "result.json") or BenchAnswer(wanted.kind)
        if ending is None:
            return found
        state = _state(room)
        self._end()
        ending = _with_detail(ending, running)
        return ended_early(found, state, _why(state, ending), late=ending.limit)

    def close(self) -> None:
        """End the process, and remove its folder. Nothing happens if there is none."""
        self._end()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _end(self) -> None:
        if self._running is not None:
            running, self._running = self._running, None
            _end(running)


def _answered(
    kind: type[_T], request: RunRequest, work: Work, progress: Callable[[Progress], None]
) -> tuple[_T | None, State | None, Ending]:
    """One worker from its start to its end: the answer that it left, its state, and how it ended."""
    with tempfile.TemporaryDirectory(prefix="tcready-", ignore_cleanup_errors=True) as folder:
        room = Path(folder)
        build_bundle(room / "worker.pyz")
        write_json(str(room / "request.json"), work)
        ending = _run(request, work.root, room, progress, work.bench is not None)
        answer = _left(kind, room / "result.json")
        return answer, _state(room), ending


def _why(state: State | None, ending: Ending) -> str:
    """Why a process gave no whole answer, in one line."""
    stages = state.observation.stages if state is not None else ()
    why = next((stage.detail for stage in stages if stage.state == "fail"), "")
    if not why and state is not None and state.doing is None:
        why = next((stage.detail for stage in stages if stage.reason in WITHOUT), "")
    return why or ending.detail


def _case_of(failed: Stage, state: State) -> str | None:
    """The named case in which that stage failed, or in which the process ended."""
    return state.case if failed.stage == state.doing else dict(state.failed_cases).get(failed.stage)


def _once(
    request: RunRequest,
    work: Work,
    progress: Callable[[Progress], None],
    stays: StayingWorker | None = None,
) -> tuple[Observation, State | None]:
    """One worker from its start to its end, or until its run is over and it stays."""
    if stays is not None and not stays.suits(request):
        stays = None
    with contextlib.ExitStack() as stack:
        folder = tempfile.TemporaryDirectory(prefix="tcready-", ignore_cleanup_errors=True)
        room = Path(stack.enter_context(folder) if stays is None else folder.name)
        build_bundle(room / "worker.pyz")
        write_json(
            str(room / "request.json"),
            replace(work, stays=stays is not None, steps=stays.steps if stays else 1),
        )
        began = time.monotonic()
        if stays is None:
            ending = _run(request, work.root, room, progress)
        else:
            ending = stays.begin(request, folder, work.root, progress)
        seconds = round(time.monotonic() - began, 4)
        state = _state(room)
        processes = request.options.processes
        if not processes:
            place = _fault_place(room / "faults.txt", work.root)
            return _observation(request, state, ending, place and f"at {place}", None, seconds), state
        endings = {suffix(rank): rank for rank in range(processes)}
        places = {end: _fault_place(room / f"faults.txt{end}", work.root) for end in endings}
        place = where([(rank, places[end]) for end, rank in endings.items()])
        ended = ending.detail if ending.limit or ending.code else ""
        left = left_in(room, processes, places)
        dead = left[ending.dead].state if ending.dead is not None else None
        if (cut := ended_by(dead, state)) is not None:
            seen = _observation(request, cut, ending, place, None, seconds)
        else:
            seen = _observation(request, state, ending, place, _first_failure(room), seconds)

    def origin(path: str) -> Origin:
        return origin_of(path, work.root, request.own_packages)

    kind = request.options.parallel or "ddp"
    return together(seen, left, ended, ending.reason, origin, kind, ending.exits), state


def _with_failed_cases(seen: Observation, failed_cases: Mapping[str, Stage]) -> Observation:
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


def _work(request: RunRequest, root: str) -> Work:
    entries = tuple(entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry)
    options = request.options
    if options.trace_out is not None:
        options = replace(options, trace_out=os.path.join(root, options.trace_out))
    return Work(
        request.target,
        options,
        root,
        request.own_packages,
        tuple(os.path.abspath(entry) for entry in entries),
        toolchain=request.toolchain,
    )


def _environment(request: RunRequest, dropped: tuple[str, ...]) -> dict[str, str]:
    """`dropped`: how the names begin that the worker is not to see."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in DROPPED and not name.startswith(dropped)
    }
    kept |= {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}
    if not request.options.allow_downloads:
        kept |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    return kept | dict(request.variables)


def _run(
    request: RunRequest, root: str, room: Path, progress: Callable[[Progress], None], benched: bool = False
) -> Ending:
    """Start the worker, watch it to its end, leave none of its processes alive."""
    running: _Running | Ending | None = None
    late = _opened(request, root, benched)
    if late is not None:
        return late
    try:
        with signals_wait():
            running = _started(request, root, room, benched)
        if isinstance(running, Ending):
            return running
        ending = _watch(running.process, request, room, running.mark, progress)
        assert ending is not None
    finally:
        if isinstance(running, _Running):
            _end(running)
    return _with_detail(ending, running)


_Process: TypeAlias = "subprocess.Popen[bytes] | Copy"


@dataclass(frozen=True)
class _Running:
    """A worker that was started."""

    process: _Process
    mark: str
    tail: bytearray
    """The end of what it printed."""
    drain: threading.Thread


@contextlib.contextmanager
def signals_wait() -> Iterator[None]:
    """Signals that Python handles are answered once this block is left.

    An exception raised inside of Popen would leave a child that nobody knows, and one raised while processes are ended
    would leave the others.
    """
    arrived: list[int] = []
    try:
        with _signals(lambda number, _: arrived.append(number)):
            yield
    finally:
        for number in arrived:
            signal.raise_signal(number)


@contextlib.contextmanager
def first_signal_alone() -> Iterator[None]:
    """Of the signals that Python handles the first is answered; one behind it could come before the work is ended."""
    answered: list[int] = []

    def handle(number: int, handler: Callable[[], object]) -> None:
        if not answered:
            answered.append(number)
            handler()

    with _signals(handle):
        yield


@contextlib.contextmanager
def _signals(handle: Callable[[int, Callable[[], object]], object]) -> Iterator[None]:
    """What is done, in the main thread, with signals that Python handles: `handle` is given the number of each, and what
    would have been done."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are handled in the main thread alone
        return
    before = {
        number: signal.getsignal(number)
        for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
    }
    handled = {number: handler for number, handler in before.items() if callable(handler)}

    def received(number: int, frame: FrameType | None) -> None:
        handle(number, lambda: handled[signal.Signals(number)](number, frame))

    for number in handled:
        signal.signal(number, received)
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)


def _dropped(benched: bool) -> tuple[str, ...]:
    return DROPPED_IN_A_BENCH if benched else DROPPED_PREFIXES


def _opened(request: RunRequest, root: str, benched: bool = False) -> Ending | None:
    """Opens the server of a run, if it has one; how the run ended if that took all of its time."""
    began = time.monotonic()
    options = request.options
    if request.server is not None and _is_plain(request):
        python = _python(request, root)
        request.server.open(python, _environment(request, _dropped(benched)), options.timeout)
    if time.monotonic() - began >= options.timeout:
        words = f"no answer within {options.timeout:g} s, while torch is imported"
        return Ending(words, "timeout", limit=True)
    return None


def _is_plain(request: RunRequest) -> bool:
    """Whether the run is one process of an interpreter, with nothing before it."""
    return not (request.options.launcher or request.options.processes)


def _python(request: RunRequest, root: str) -> str:
    """The interpreter; a path counts from the working folder."""
    python = request.options.python or sys.executable
    return os.path.join(root, python) if os.path.dirname(python) else python


def _started(request: RunRequest, root: str, room: Path, benched: bool = False) -> _Running | Ending:
    mark = uuid.uuid4().hex
    command = _command(request, room)
    environment = _environment(request, _dropped(benched))
    process: _Process | None = None
    if request.server is not None and _is_plain(request):
        process = request.server.start(_python(request, root), command[2:], root, environment, (MARK, mark))
    try:
        process = process or subprocess.Popen(  # noqa: S603  running what the user asked to run is the point
            command,
            # `python -m` puts the folder it starts in before everything else; each worker goes to `root` by itself.
            cwd=room if request.options.processes else root,
            env={**environment, MARK: mark, LAUNCHER: str(os.getpid())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return Ending(f"{command[0]} cannot be started: {error.strerror or error}", "error", limit=True)
    assert process.stdout is not None
    tail = bytearray()
    drain = threading.Thread(target=_drain, args=(process.stdout, tail), daemon=True)
    drain.start()
    return _Running(process, mark, tail, drain)


def _end(running: _Running) -> None:
    """Leave none of its processes alive."""
    _kill(running.process, running.mark)
    running.process.wait()
    running.drain.join(GRACE)


def _with_detail(ending: Ending, running: _Running) -> Ending:
    """How a worker ended, with what it says of that itself."""
    if ending.limit:
        return ending
    output = bytes(running.tail).decode("utf-8", "replace")
    detail, reason = _by_itself(running.process.wait(), output)
    rank, code = first_dead(output) or (0, 0)
    dead = rank if code < 0 else None
    return replace(ending, detail=detail, reason=reason, dead=dead, exits=exits_in(output))


def _command(request: RunRequest, room: Path) -> list[str]:
    python = request.options.python or sys.executable
    worker = [str(room / name) for name in ("worker.pyz", "request.json", "state.json", "faults.txt")]
    agent: list[str] = []
    if request.options.processes:
        agent = [
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={request.options.processes}",
        ]
        agent.append(f"--log-dir={room / 'ranks'}")
    command = [*request.options.launcher, python, *agent, *worker]
    # The worker asks to die with its parent, which here is somebody between: that one asks too.
    between = bool(request.options.launcher or request.options.processes) and sys.platform == "linux"
    return [sys.executable, "-I", "-c", FOLLOW, *command] if between else command


def _drain(pipe: IO[bytes], tail: bytearray) -> None:
    """Read all there is, keep the end of it. A process that left the run may hold the other end for longer."""
    with contextlib.suppress(OSError, ValueError), pipe:
        while chunk := os.read(pipe.fileno(), TAIL):
            tail += chunk
            del tail[:-TAIL]


def _watch(
    process: _Process,
    request: RunRequest,
    room: Path,
    mark: str,
    progress: Callable[[Progress], None],
    answered: Callable[[], bool] = lambda: False,
) -> Ending | None:
    """Wait for the end or a limit; None once the worker has `answered` and stays."""
    options = request.options
    deadline = time.monotonic() + options.timeout
    shown, again = Progress("", "start of the model's process"), time.monotonic() + AGAIN
    case: str | None = None
    before = _state(room)
    news = before.news if before is not None else ""
    since = time.monotonic()
    watches_memory = options.memory_gb is not None and Path("/proc/self/statm").exists()
    warnings: tuple[str, ...] = ()
    if options.memory_gb is not None and not watches_memory:
        warnings = ("the memory limit is not watched: this system has no /proc",)

    def ended(detail: str, reason: StageReason) -> Ending:
        _ask_where(process, request, mark)
        return Ending(detail, reason, limit=True, warnings=warnings)

    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL)
            return Ending("", "exit", process.returncode, warnings=warnings)
        if answered():
            return None
        state = _state(room)
        is_new = False
        if state is not None and state.note:
            left = None if state.ends is None else max(state.ends - time.monotonic(), 0.0)
            now = Progress(state.doing or "", state.note, state.done, state.of, left)
            is_new, shown = (now.doing, now.done) != (shown.doing, shown.done), now
        if state is not None and state.news and state.news != news:
            news = state.news
            progress(replace(shown, news=news))
        if is_new or time.monotonic() >= again:
            again = time.monotonic() + AGAIN
            progress(shown)
        if state is not None and state.case != case:
            case, since = state.case, time.monotonic()
        if time.monotonic() >= deadline:
            return ended(f"no answer within {options.timeout:g} s", "timeout")
        share = options.timeout / max(len(state.cases), 1) if state is not None else options.timeout
        if case is not None and time.monotonic() - since >= share:
            return ended(f"no answer within {share:g} s, its share of {options.timeout:g} s", "timeout")
        if watches_memory and options.memory_gb is not None:
            used = resident_bytes(mark, process.pid) / 1e9
            if used > options.memory_gb:
                words = f"memory: {used:.2f} GB resident, {options.memory_gb:g} GB allowed"
                return ended(words, "memory")


def _ask_where(process: _Process, request: RunRequest, mark: str) -> None:
    """Have the worker write where it stands; one too deep in foreign code to answer is not waited for."""
    if hasattr(signal, "SIGUSR1"):
        below = [pid for pid in _marked(mark) if pid != process.pid]
        # Behind a launcher the worker is one of these; the others die of the signal a moment before their time.
        for pid in below if request.options.launcher or request.options.processes else [process.pid]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGUSR1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)


def _marked(mark: str) -> Iterator[int]:
    """Every live process that carries the mark of this run: in its environment, or as its name if it is a copy."""
    wanted, name = f"{MARK}={mark}".encode(), mark[:NAME_LENGTH].encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes() or (entry / "comm").read_bytes().strip() == name:
                yield int(entry.name)


def resident_bytes(mark: str, leader: int) -> int:
    """Resident memory of the run's processes together: those of the leader's group and those marked."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = 0
    for pid in {leader, *_marked(mark)}:
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page
    return total


def _kill(process: _Process, mark: str) -> None:
    """End the group, then whatever of this run left it."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    for _ in range(3):
        left = [pid for pid in _marked(mark) if pid != process.pid]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _state(room: Path) -> State | None:
    with contextlib.suppress(*NOT_OURS):
        return read_state(str(room / "state.json"))
    return None


def _left(kind: type[_T], path: Path) -> _T | None:
    """What a worker left there as its answer; None if there is none."""
    with contextlib.suppress(*NOT_OURS):
        return read_json(kind, str(path))
    return None


def _text(path: Path) -> str:
    """What is written in a file; nothing of a pipe, or of what is not there."""
    with contextlib.suppress(OSError):
        if stat.S_ISREG(path.stat().st_mode):
            with path.open("rb") as file:
                return file.read(LONGEST_FAULT).decode("utf-8", "replace")
    return ""


def _first_failure(room: Path) -> RankFailure | None:
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


def _fault_place(faults: Path, root: str) -> str | None:
    """The innermost line, outside of installed code, of what the fault handler wrote; None if there is none."""
    for path, line in FAULT_LINE.findall(_text(faults)):
        shown = display_path(path, root)
        if not path.startswith("<") and os.path.isfile(path) and not os.path.isabs(shown):
            installed = any(f"{os.sep}{name}{os.sep}" in path for name in ("site-packages", "dist-packages"))
            if not installed:
                return f"{shown}:{line}"
    return None


def _observation(
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


def _by_itself(code: int, output: str) -> tuple[str, StageReason]:
    """How a worker ended that nobody ended, in one line and as a word."""
    if code < 0:
        return f"the process died by {signal_name(-code)}", "crash"
    if (dead := first_dead(output)) is not None:
        return exit_words(*dead), "crash" if dead[1] < 0 else "exit"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = f": {lines[-1][:300]}" if lines else ""
    early = " before it was done" if code == 0 else ""
    return f"the process exited with code {code}{early}{last}", "exit"


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
