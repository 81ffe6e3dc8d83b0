"""Run one worker process: start it, limit its time and memory, and end it with all processes that it started.

Processes that leave its process group are found by a mark in their environment. Only a process that both leaves the
group and drops its environment escapes.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import IO, TypeAlias

from tcready.dynamic.fork_client import NAME_LENGTH, Copy, ForkServer
from tcready.dynamic.ranks import exit_words, exits_in, first_dead, signal_name
from tcready.dynamic.worker.core.request import (
    DROPPED_IN_A_BENCH,
    DROPPED_PREFIXES,
    LAUNCHER,
    NOT_OURS,
    State,
    read_state,
)
from tcready.portable.options import RunOptions
from tcready.schema.enums import StageReason
from tcready.schema.progress import Progress

POLL = 0.1
"""Seconds between two checks of the worker."""
GRACE = 0.5
"""Seconds that the worker has to report where it hangs before it is killed."""
AGAIN = 1.0
"""Seconds after which unchanged progress is reported again, so that the caller can end the run."""
TAIL = 65536
"""The number of bytes of the worker's output that are stored."""
MARK = "TCREADY_RUN"
"""Environment variable that identifies every process of a run, even one that left its group."""
DROPPED = ("PYTHONPATH", "PYTHONWARNINGS", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONSAFEPATH", "PYTHONHASHSEED")
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
"""Replaces itself with the command that follows, to be killed when its parent dies (PR_SET_PDEATHSIG, which execve
preserves)."""


@dataclass(frozen=True)
class RunRequest:
    """The target, its options, and the working folder."""

    target: str
    """`path.py`, `path.py::Name` or `pkg.mod::Name`."""
    options: RunOptions = field(default_factory=RunOptions)
    root: str = "."
    """The working folder: display paths and origin are relative to it."""
    own_packages: tuple[str, ...] = ()
    """First segments below site-packages that count as own."""
    server: ForkServer | None = None
    """The process that several runs are copies of. None: each imports torch itself, as a bench process that times calls
    always does."""
    variables: tuple[tuple[str, str], ...] = ()
    """Environment variables that are added to, or replace, those of this process."""


@dataclass(frozen=True)
class Ending:
    """The end of a worker."""

    detail: str
    """The message, in one line, for a stage that the worker left unfinished."""
    reason: StageReason
    """The same as a reason code."""
    code: int | None = None
    """The exit code; None if the launcher ended the worker or could not start it."""
    limit: bool = False
    """True if the launcher ended it."""
    warnings: tuple[str, ...] = ()
    dead: int | None = None
    """The rank that died of a signal."""
    exits: Mapping[int, int] = field(default_factory=dict)
    """For several processes, the ranks that ended with an error and their exit codes (negative: the signal)."""


_Process: TypeAlias = "subprocess.Popen[bytes] | Copy"


@dataclass(frozen=True)
class RunningWorker:
    """A worker that was started."""

    process: _Process
    mark: str
    tail: bytearray
    """The end of the output."""
    drain: threading.Thread


def run_process(
    request: RunRequest, root: str, room: Path, progress: Callable[[Progress], None], benched: bool = False
) -> Ending:
    """Start the worker, watch it until its end, and leave none of its processes alive."""
    running: RunningWorker | Ending | None = None
    late = open_server(request, root, benched)
    if late is not None:
        return late
    try:
        with signals_wait():
            running = start_process(request, root, room, benched)
        if isinstance(running, Ending):
            return running
        ending = watch_process(running.process, request, room, running.mark, progress)
        assert ending is not None
    finally:
        if isinstance(running, RunningWorker):
            end_process(running)
    return with_detail(ending, running)


def start_process(request: RunRequest, root: str, room: Path, benched: bool = False) -> RunningWorker | Ending:
    mark = uuid.uuid4().hex
    command = _command(request, room)
    environment = _environment(request, _dropped_prefixes(benched))
    process: _Process | None = None
    if request.server is not None and is_plain(request):
        process = request.server.start(interpreter(request, root), command[2:], root, environment, (MARK, mark))
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
    return RunningWorker(process, mark, tail, drain)


def watch_process(
    process: _Process,
    request: RunRequest,
    room: Path,
    mark: str,
    progress: Callable[[Progress], None],
    answered: Callable[[], bool] = lambda: False,
) -> Ending | None:
    """Wait for the end or a limit. Return None once the worker has `answered` and stays."""
    options = request.options
    deadline = time.monotonic() + options.timeout
    shown, again = Progress("", "start of the model's process"), time.monotonic() + AGAIN
    case: str | None = None
    before = state_in(room)
    news = before.news if before is not None else ""
    since = time.monotonic()
    watches_memory = options.memory_gb is not None and Path("/proc/self/statm").exists()
    warnings: tuple[str, ...] = ()
    if options.memory_gb is not None and not watches_memory:
        warnings = ("the memory limit is not watched: this system has no /proc",)

    def ended(detail: str, reason: StageReason) -> Ending:
        _request_position(process, request, mark)
        return Ending(detail, reason, limit=True, warnings=warnings)

    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL)
            return Ending("", "exit", process.returncode, warnings=warnings)
        if answered():
            return None
        state = state_in(room)
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
            return ended(f"no answer within {round(options.timeout, 1):g} s", "timeout")
        share = options.timeout / max(len(state.cases), 1) if state is not None else options.timeout
        if case is not None and time.monotonic() - since >= share:
            return ended(f"no answer within {round(share, 1):g} s, its share of {options.timeout:g} s", "timeout")
        if watches_memory and options.memory_gb is not None:
            used = resident_bytes(mark, process.pid) / 1e9
            if used > options.memory_gb:
                words = f"memory: {used:.2f} GB resident, {options.memory_gb:g} GB allowed"
                return ended(words, "memory")


def end_process(running: RunningWorker) -> None:
    """End all processes of a run."""
    _kill(running.process, running.mark)
    running.process.wait()
    running.drain.join(GRACE)


def with_detail(ending: Ending, running: RunningWorker) -> Ending:
    """Return how a worker ended, with the details that it reports itself."""
    if ending.limit:
        return ending
    output = bytes(running.tail).decode("utf-8", "replace")
    detail, reason = describe_exit(running.process.wait(), output)
    rank, code = first_dead(output) or (0, 0)
    dead = rank if code < 0 else None
    return replace(ending, detail=detail, reason=reason, dead=dead, exits=exits_in(output))


def open_server(request: RunRequest, root: str, benched: bool = False) -> Ending | None:
    """Open the server of a run, if it has one. Return how the run ended if opening took all of its time."""
    began = time.monotonic()
    options = request.options
    if request.server is not None and is_plain(request):
        python = interpreter(request, root)
        request.server.open(python, _environment(request, _dropped_prefixes(benched)), options.timeout)
    if time.monotonic() - began >= options.timeout:
        words = f"no answer within {round(options.timeout, 1):g} s, while torch is imported"
        return Ending(words, "timeout", limit=True)
    return None


def is_plain(request: RunRequest) -> bool:
    """Return whether the run is one process of an interpreter, with no other command before it."""
    return not (request.options.launcher or request.options.processes)


def interpreter(request: RunRequest, root: str) -> str:
    """Return the interpreter. A path is relative to the working folder."""
    python = request.options.python or sys.executable
    return os.path.join(root, python) if os.path.dirname(python) else python


def _dropped_prefixes(benched: bool) -> tuple[str, ...]:
    return DROPPED_IN_A_BENCH if benched else DROPPED_PREFIXES


def _environment(request: RunRequest, dropped: tuple[str, ...]) -> dict[str, str]:
    """Return the environment of the worker, without variables that begin with one of the prefixes `dropped`."""
    inherited = {
        name: value for name, value in os.environ.items() if name not in DROPPED and not name.startswith(dropped)
    }
    inherited |= {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}
    if not request.options.allow_downloads:
        inherited |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    return inherited | dict(request.variables)


def _command(request: RunRequest, room: Path) -> list[str]:
    python = request.options.python or sys.executable
    worker = [str(room / name) for name in ("worker.pyz", "request.json", "state.json", "faults.txt")]
    agent: list[str] = []
    if request.options.processes:
        agent = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={request.options.processes}"]
        agent.append(f"--log-dir={room / 'ranks'}")
    command = [*request.options.launcher, python, *agent, *worker]
    # The worker requests to die with its parent, which is an intermediate process here: that one does the same.
    between = bool(request.options.launcher or request.options.processes) and sys.platform == "linux"
    return [sys.executable, "-I", "-c", FOLLOW, *command] if between else command


def _drain(pipe: IO[bytes], tail: bytearray) -> None:
    """Read all output and store its end. A process that left the run may hold the other end open for longer."""
    with contextlib.suppress(OSError, ValueError), pipe:
        while chunk := os.read(pipe.fileno(), TAIL):
            tail += chunk
            del tail[:-TAIL]


def _request_position(process: _Process, request: RunRequest, mark: str) -> None:
    """Have the worker report where it is. If it is too deep in foreign code to answer, do not wait for it."""
    if hasattr(signal, "SIGUSR1"):
        below = [pid for pid in _marked_processes(mark) if pid != process.pid]
        # Behind a launcher the worker is one of these; the others die of the signal a moment before their time.
        for pid in below if request.options.launcher or request.options.processes else [process.pid]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGUSR1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)


def _marked_processes(mark: str) -> Iterator[int]:
    """Return every live process that carries the mark of this run: in its environment, or as its name if it is a copy."""
    wanted, name = f"{MARK}={mark}".encode(), mark[:NAME_LENGTH].encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes() or (entry / "comm").read_bytes().strip() == name:
                yield int(entry.name)


def resident_bytes(mark: str, leader: int) -> int:
    """Return the resident memory of the run's processes: those in the group of the leader and those with the mark."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = 0
    for pid in {leader, *_marked_processes(mark)}:
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page
    return total


def _kill(process: _Process, mark: str) -> None:
    """End the process group, then whatever left it."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    for _ in range(3):
        left = [pid for pid in _marked_processes(mark) if pid != process.pid]
        if not left:
            return
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


LOG_LINE = re.compile(
    r"(\[rank\d+\]:)?\s*\[?[VDIWEC]\d{4} \d\d:\d\d:\d\d"  # torch, Python and C++: W1129 20:51:16.816000
    r"|.{0,60}\b(DEBUG|INFO|WARN|WARNING)\b"  # logging, and libraries with formats of their own
    r"|.{0,60}\b[IW] \S+\.(cc|cpp|py):\d+"  # Abseil, as TensorFlow uses it
    r"|\S+:\d+: \w*Warning: |\s*warnings\.warn\("
)
"""Lines that do not explain why a process ended."""


def describe_exit(code: int, output: str) -> tuple[str, StageReason]:
    """Describe how a worker ended that was not ended from outside, in one line and as a reason code."""
    if code < 0:
        return f"the process died by {signal_name(-code)}", "crash"
    if (dead := first_dead(output)) is not None:
        return exit_words(*dead), "crash" if dead[1] < 0 else "exit"
    lines = [line.strip() for line in output.splitlines() if line.strip() and not LOG_LINE.match(line)]
    last = f": {lines[-1][:300]}" if lines else ""
    early = " before it was done" if code == 0 else ""
    return f"the process exited with code {code}{early}{last}", "exit"


def state_in(room: Path) -> State | None:
    with contextlib.suppress(*NOT_OURS):
        return read_state(str(room / "state.json"))
    return None


@contextlib.contextmanager
def signals_wait() -> Iterator[None]:
    """Delay the handling of signals that Python handles until the end of this block.

    An exception raised inside Popen would leave an unknown child, and one raised while processes are ended would
    leave the others.
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
    """Handle only the first of the signals that Python handles: a second one could arrive before the work is ended."""
    answered: list[int] = []

    def handle(number: int, handler: Callable[[], object]) -> None:
        if not answered:
            answered.append(number)
            handler()

    with _signals(handle):
        yield


@contextlib.contextmanager
def _signals(handle: Callable[[int, Callable[[], object]], object]) -> Iterator[None]:
    """In the main thread, replace the handlers of signals that Python handles: `handle` gets the number of each signal
    and its previous handler."""
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
