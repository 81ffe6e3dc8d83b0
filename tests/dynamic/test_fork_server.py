"""Runs that are copies of one process which has imported torch: they show what a process of its own shows."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from observing import observe_target, opened
from tcready.dynamic import ForkServer, RunRequest, bench
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker_process import interpreter
from tcready.portable.options import RunOptions
from tcready.schema.bench import Arm, BenchKind, BenchRequest
from tcready.schema.observation import Observation

pytestmark = [pytest.mark.torch, pytest.mark.skipif(sys.platform != "linux", reason="runs are copied on Linux alone")]
MODEL = """\
import os
import random
import signal
import time

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, x):
        if x.sum() > 0:
            return self.net(x)
        return x


{extra}


def get_inputs():
    {first}
    return [torch.ones(2, 4)]
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer() as started:
        opened(started)
        yield started


def write(folder: Path, first: str = "pass", extra: str = "") -> Path:
    (folder / "model.py").write_text(MODEL.format(first=first, extra=extra))
    return folder


def shown(seen: Observation) -> object:
    """What does not hang on the clock."""
    stages = [(stage.stage, stage.state, stage.detail) for stage in seen.stages]
    cover = seen.coverage
    return (
        stages,
        [replace(site, cost=None) for site in seen.break_sites],
        cover and (cover.ops_total, cover.ops_captured),
        {name: value for name, value in (seen.environment or {}).items() if not name.startswith("peak_")},
        seen.traced,
        seen.recompiles,
    )


def alive(pid: int) -> bool:
    try:
        return "Z (zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pid)


def server_pid(server: ForkServer) -> int:
    assert server._process is not None
    return server._process.pid


def test_a_copy_shows_what_a_process_of_its_own_shows(tmp_path: Path, server: ForkServer) -> None:
    folder = write(tmp_path)
    copied = [observe_target("model.py", root=folder, server=server) for _ in range(2)]
    alone = observe_target("model.py", root=folder, server=None)
    assert alone.break_sites
    assert shown(copied[0]) == shown(copied[1]) == shown(alone)
    assert server_pid(server)


def test_copies_run_side_by_side(tmp_path: Path, server: ForkServer) -> None:
    """Each waits for the other: one after the other they would run out of time."""
    meet = "open(f'there-{os.getpid()}', 'w').close()\n"
    meet += "    while sum(name.startswith('there-') for name in os.listdir()) < 2: time.sleep(0.01)"
    folder = write(tmp_path, meet)
    seen: list[Observation] = []

    def run() -> None:
        seen.append(observe_target("model.py", root=folder, server=server, timeout=60))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert shown(seen[0]) == shown(seen[1])
    assert seen[0].coverage is not None


def test_a_server_that_is_being_opened_can_be_closed(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nsleep 60\n")
    program.chmod(0o755)
    server = ForkServer()
    opening = threading.Thread(target=server.open, args=(str(program), dict(os.environ), 60.0))
    opening.start()
    until = time.monotonic() + 10
    while server._process is None and time.monotonic() < until:
        time.sleep(0.01)
    began = time.monotonic()
    server.close()
    opening.join()
    assert time.monotonic() - began < 10
    with pytest.raises(OSError, match="the work was ended"):
        server.start(str(program), [], tmp_path, {}, ("A", "b"))


def test_a_copy_that_dies_takes_nothing_along(tmp_path: Path, server: ForkServer) -> None:
    seen = observe_target("model.py", root=write(tmp_path, "os.abort()"), server=server)
    failed = next(stage for stage in seen.stages if stage.state == "fail")
    assert failed.reason == "crash"
    assert "SIGABRT" in failed.detail
    first = server_pid(server)
    again = observe_target("model.py", root=write(tmp_path), server=server)
    assert again.coverage is not None
    assert server_pid(server) == first


def test_a_copy_that_hangs_is_ended_and_says_where(tmp_path: Path, server: ForkServer) -> None:
    seen = observe_target("model.py", root=write(tmp_path, "time.sleep(99)"), server=server, timeout=3)
    failed = next(stage for stage in seen.stages if stage.state == "fail")
    assert failed.reason == "timeout"
    assert f"model.py:{MODEL[: MODEL.index('{first}')].count(chr(10)) + 1}" in failed.detail


def test_a_copy_that_stops_the_server_stops_no_run(tmp_path: Path, server: ForkServer) -> None:
    """SIGSTOP: the server is alive, and would answer nobody."""
    folder = write(tmp_path, "os.kill(os.getppid(), signal.SIGSTOP)")
    began = time.monotonic()
    for _ in range(2):
        seen = observe_target("model.py", root=folder, server=server, timeout=30)
        assert seen.coverage is not None
    assert time.monotonic() - began < 60
    assert not server.is_lost


def test_what_a_copy_forks_ends_with_it(tmp_path: Path, server: ForkServer) -> None:
    """A process that leaves the group, of which /proc shows the environment of the server."""
    extra = dedent("""\
        def leave():
            pid = os.fork()
            if pid:
                return pid
    """)
    extra += "    os.setsid()\n    time.sleep(300)\n"
    folder = write(tmp_path, "open('left', 'w').write(str(leave()))", extra)
    observe_target("model.py", root=folder, server=server)
    assert gone(int((tmp_path / "left").read_text()))


def test_another_environment_means_a_process_of_its_own(
    tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some variables are read once, while torch is imported."""
    folder = write(tmp_path, "open('parent', 'w').write(str(os.getppid()) + os.environ.get('OTHER', ''))")
    observe_target("model.py", root=folder, server=server)
    assert (tmp_path / "parent").read_text() == str(server_pid(server))
    monkeypatch.setenv("OTHER", "here")
    observe_target("model.py", root=folder, server=server)
    assert (tmp_path / "parent").read_text() == f"{os.getpid()}here"


def test_copies_end_with_a_server_that_dies_and_the_next_run_starts_afresh(tmp_path: Path) -> None:
    kill = "os.kill(os.getppid(), signal.SIGKILL) if not os.path.exists('killed') else None\n"
    kill += "    time.sleep(0 if os.path.exists('killed') else 300)"
    with ForkServer() as server:
        seen = observe_target("model.py", root=write(tmp_path, kill), server=server, timeout=60)
        failed = next(stage for stage in seen.stages if stage.state == "fail")
        assert (failed.reason, "SIGKILL" in failed.detail, server.is_lost) == ("crash", True, True)
        (tmp_path / "killed").touch()
        again = observe_target("model.py", root=tmp_path, server=server)
        assert again.coverage is not None


def test_a_server_that_is_closed_leaves_nothing(tmp_path: Path) -> None:
    with ForkServer() as server:
        observe_target("model.py", root=write(tmp_path), server=server)
        pid = server_pid(server)
        assert alive(pid)
    assert gone(pid)
    assert not server.is_lost
    with pytest.raises(OSError, match="ended"):  # a run afresh is not what was wanted
        server.start(sys.executable, [], tmp_path, dict(os.environ), ("A", "b"))


def test_an_interpreter_that_cannot_serve(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    for each in (str(python), str(tmp_path / "nowhere")):
        with ForkServer() as server:
            server.open(each, dict(os.environ), 30)
            assert server.start(each, [], tmp_path, dict(os.environ), ("A", "b")) is None
    assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL


def test_importing_torch_counts_as_time_of_the_run(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 60\n")
    python.chmod(0o755)
    began = time.monotonic()
    with ForkServer() as server:
        seen = observe_target("model.py", root=write(tmp_path), server=server, python=str(python), timeout=1)
    assert time.monotonic() - began < 20
    failed = next(stage for stage in seen.stages if stage.state == "fail")
    assert failed.reason == "timeout"


def test_an_interpreter_is_named_from_the_working_folder(tmp_path: Path) -> None:
    """The server starts in a folder of its own."""
    run = RunRequest("model.py", RunOptions(python="../env/bin/python"), str(tmp_path))
    assert interpreter(run, str(tmp_path)) == f"{tmp_path}/../env/bin/python"
    assert interpreter(replace(run, options=RunOptions(python="python3")), str(tmp_path)) == "python3"


def test_what_is_loaded_for_copies_asks_nothing_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once CUDA was asked anything, no copy of the process can use it, and Dynamo asks in each compilation."""
    asked: list[str] = []

    def noting(function: Callable[[], object]) -> Callable[[], object]:
        def called() -> object:
            asked.append("".join(traceback.format_stack(limit=6)))
            return function()

        return called

    monkeypatch.setattr(torch.cuda, "is_available", noting(torch.cuda.is_available))
    # What every question about "the accelerator" comes to; it leaves no mark that torch's own check would see.
    monkeypatch.setattr(torch._C, "_accelerator_getAccelerator", noting(torch._C._accelerator_getAccelerator))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    dynamo.loaded()
    assert asked == []
    monkeypatch.setattr(torch.version, "cuda", None)
    dynamo.loaded()
    assert asked, "a compilation asks no longer: it could be made where there is a GPU too"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_copy_asks_the_driver_whether_it_can_use_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a driver that answers as CUDA's does: in a copy of a process that had called it, it is not initialised."""
    source = tmp_path / "driver.c"
    source.write_text(
        dedent("""\
            #include <unistd.h>
            static int first;
            int cuInit(unsigned f) { if (!first) first = getpid(); return first == getpid() ? 0 : 3; }
        """)
    )
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    driver = ctypes.CDLL(str(library))
    opened = ctypes.CDLL
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver if name == "libcuda.so.1" else opened(name))
    monkeypatch.setattr(torch._C, "_cuda_isInBadFork", lambda: False, raising=False)  # set by other tests

    def lacks() -> bool:
        pid = os.fork()
        if pid == 0:
            os._exit(int(dynamo.copies_lack_the_gpu()))
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1

    assert not lacks()
    driver.cuInit(0)
    assert lacks()


def test_processes_of_a_bench_are_copies_unless_they_time_calls(tmp_path: Path) -> None:
    write(tmp_path, "import os; open('parent', 'w').write(str(os.getppid()))")
    arms = (Arm("eager", ""), Arm("captured", 'model = torch.compile(model, backend="aot_eager")'))

    def parent_of(kind: BenchKind, server: ForkServer) -> int:
        request = RunRequest("model.py", root=str(tmp_path), server=server)
        found = bench(request, BenchRequest(kind, arms, seconds=1.0, blocks=3, latencies=10))
        assert not found.failure
        return int((tmp_path / "parent").read_text())

    with ForkServer() as server:  # of its own: what a bench sees of the environment is not what a run sees
        assert parent_of("parity", server) == server_pid(server)
        assert parent_of("steady", server) == os.getpid()
