"""A run behind a launcher, and one of several processes with real gloo."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch
from observing import observe_target, report_of
from tcready import exit_code
from tcready.api import check
from tcready.dynamic import RunRequest, observe
from tcready.portable.options import RunOptions
from tcready.reports.shared.wording import ddp_sentence
from tcready.schema.codec import from_json
from tcready.schema.enums import TcreadyError
from tcready.schema.observation import Observation
from tcready.schema.progress import Progress

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.platform != "linux", reason="torchrun and its children are watched through /proc"),
]
gloo = pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")

HEAD = """\
import os
import torch
from torch import distributed, nn


def get_inputs():
    return [torch.ones(2, 512)]


"""
NET = """\
class Net(nn.Module):
    def __init__(self, *parts):
        super().__init__()
        self.net = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4)))

    def forward(self, x):
        return self.net(x)


"""


def run(root: Path, source: str, target: str = "model.py", **options: object) -> Observation:
    (root / "model.py").write_text(HEAD + source)
    return observe_target(target, root=str(root), **options)


def import_seconds() -> int:
    """How long a process takes to import torch here and now, rounded up: a build for CUDA takes several times as long."""
    start = time.monotonic()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return int(time.monotonic() - start) + 1


def failures(seen: Observation) -> list[str]:
    return [f"{stage.stage}: {stage.detail}" for stage in seen.stages if stage.state == "fail"]


def alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "Z (zombie)" not in status.read_text()


def pids(root: Path) -> list[int]:
    return [int(path.read_text()) for path in root.glob("pid*") if path.read_text()]


def gone(found: list[int]) -> bool:
    deadline = time.monotonic() + 15
    while any(map(alive, found)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not any(map(alive, found))


def test_the_interpreter_is_started_by_the_launcher(tmp_path: Path) -> None:
    source = NET + 'assert os.environ["TOLD"] == "a word"\n'
    seen = run(tmp_path, source, launcher=("env", "TOLD=a word"))
    assert failures(seen) == []
    assert seen.ddp is None


def test_a_launcher_that_fails_is_told(tmp_path: Path) -> None:
    (failure,) = failures(run(tmp_path, NET, launcher=("sh", "-c", "echo no node is free; exit 7")))
    assert failure == "parse: the process exited with code 7: no node is free"


@pytest.mark.parametrize(
    ("launcher", "message"),
    [("no_such_launcher -n1", "--launcher no_such_launcher: no such program"), ("env 'a", "No closing quotation")],
)
def test_a_launcher_that_is_not_there(tmp_path: Path, launcher: str, message: str) -> None:
    (tmp_path / "model.py").write_text(HEAD + NET)
    with pytest.raises(TcreadyError, match=message):
        check(["model.py"], root=tmp_path, launcher=launcher)


@gloo
def test_two_processes_and_what_ddp_parts(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('shadowed')\n")
    seen = run(tmp_path, NET + "assert int(os.environ['WORLD_SIZE']) == 2\n", processes=2, mode="train")
    assert failures(seen) == []
    assert seen.ddp is not None
    assert (seen.ddp.processes, seen.ddp.backend, seen.ddp.wrapped) == (2, "gloo", "here")
    (split,) = seen.ddp.splits
    layer = 4 * (512 * 512 + 512)
    # The first bucket, that of the last layers, is full at 1 MiB; the next one holds 25 MiB.
    assert split.buckets == (3 * layer, layer)
    first, second = split.parts
    assert [name.removesuffix(".weight") for name in first.parameters[::2]] == ["net.0", "net.1", "net.2"]
    assert second.parameters == ("net.3.weight", "net.3.bias")
    assert first.start is not None
    assert first.start.symbol == "Net.forward"
    assert seen.parallel is not None
    assert [(rank.state, rank.graphs, rank.share) for rank in seen.parallel.ranks] == [("pass", 1, 1.0)] * 2
    assert seen.parallel.differences == ()
    assert ddp_sentence(seen.ddp) == (
        "2 processes over gloo; put into DistributedDataParallel; DDPOptimizer saw a graph in 2 parts of 3,151,872, "
        "1,050,624 bytes of parameters"
    )
    assert len(seen.graphs) == 1
    assert not seen.break_sites, "DDP's own forward is no break of the model"
    assert seen.coverage is not None
    assert seen.coverage.share == 1
    assert (
        from_json(
            Observation, {"target": "t", "convention": None, "mode": "infer", "stages": [], "environment": None}
        ).ddp
        is None
    )


@gloo
@pytest.mark.release
def test_a_target_that_brings_its_own_collectives_and_ddp(tmp_path: Path) -> None:
    source = NET + (
        dedent("""\
            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.inner = nn.parallel.DistributedDataParallel(Net(), bucket_cap_mb=1)
                def forward(self, x):
                    total = x.clone()
                    distributed.all_reduce(total)
                    assert total[0, 0] == 2
                    return self.inner(total)
        """)
    )
    seen = run(tmp_path, source, "model.py::Model", processes=2)
    assert [failure.partition(":")[0] for failure in failures(seen)] == []
    assert seen.ddp is not None
    assert seen.ddp.wrapped == "target"
    assert any(len(split.buckets) == 4 for split in seen.ddp.splits), seen.ddp
    (site,) = seen.break_sites
    assert (site.path, site.symbol) == ("model.py", "Model.forward"), "DDP inside of a module parts its forward"


@gloo
def test_a_rank_that_fails_is_told(tmp_path: Path) -> None:
    source = NET.replace("return self.net(x)", "return self.fail(x)") + (
        "    def fail(self, x):\n"
        "        if distributed.get_rank() == 1:\n            raise ValueError('no luck here')\n"
        "        distributed.barrier()\n        return x\n"
    )
    (failure,) = failures(run(tmp_path, source, "model.py::Net", processes=2))
    assert failure.startswith("eager: on rank 1: ValueError: no luck here (model.py:")


@gloo
@pytest.mark.release
def test_a_hang_ends_every_process_and_says_where(tmp_path: Path) -> None:
    body = (
        "open(f'pid{os.getpid()}', 'w').write(str(os.getpid()))\n"
        "        while distributed.get_rank() == 0: x = x + 1\n        while True: x = x - 1"
    )
    limit = 12 + 4 * import_seconds()
    seen = run(tmp_path, NET.replace("return self.net(x)", body), processes=2, timeout=limit)
    (failure,) = failures(seen)
    assert failure == (
        f"eager: no answer within {limit} s, while in stage eager (rank 0 at model.py:17, rank 1 at model.py:18)"
    )
    assert seen.parallel is not None
    assert [rank.detail for rank in seen.parallel.ranks] == [
        "it ended in stage eager, at model.py:17",
        "it ended in stage eager, at model.py:18",
    ]
    found = pids(tmp_path)
    assert len(found) == 2
    assert gone(found)


@gloo
@pytest.mark.slow
@pytest.mark.release
def test_a_rank_that_hangs_while_it_compiles_says_nothing_of_compiling(tmp_path: Path) -> None:
    body = (
        "if torch.compiler.is_compiling() and int(os.environ['RANK']) == 1:\n            "
        "__import__('time').sleep(999)\n        return self.net(x)"
    )
    seen = run(tmp_path, NET.replace("return self.net(x)", body), processes=2, timeout=45)
    (failure,) = failures(seen)
    assert failure.startswith("capture: no answer within 45 s")
    assert [stage.reason for stage in seen.stages if stage.state == "fail"] == ["timeout"]
    report = report_of(seen)
    assert [target.verdict for target in report.targets] == ["unknown"]
    assert exit_code(report) == 2


@gloo
def test_a_killed_launcher_takes_every_process_along(tmp_path: Path) -> None:
    body = "open(f'pid{os.getpid()}', 'w').write(str(os.getpid()))\n        while True: x = x + 1"
    (tmp_path / "model.py").write_text(HEAD + NET.replace("return self.net(x)", body))
    code = (
        "from tcready.dynamic import RunRequest, observe; from tcready.portable.options import RunOptions;"
        "observe(RunRequest('model.py', RunOptions(processes=2)))"
    )
    launcher = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    try:
        deadline = time.monotonic() + 60
        while len(pids(tmp_path)) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        os.kill(launcher.pid, signal.SIGKILL)
        launcher.wait()
    found = pids(tmp_path)
    assert len(found) == 2
    assert gone(found)


def test_an_interrupt_while_the_worker_starts_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised when the process exists and nobody has it yet: a loaded machine meets this."""
    started: list[subprocess.Popen[bytes]] = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr("tcready.dynamic.worker_process.subprocess.Popen", Interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, NET, server=None)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(started) == 1
    assert started[0].poll() == -signal.SIGKILL


def test_a_run_whose_launcher_waits_can_be_ended(tmp_path: Path) -> None:
    """As one of a cluster that has no machine free: no process of the model has begun, and nothing was written yet."""
    (tmp_path / "model.py").write_text(HEAD + NET)
    heard: list[Progress] = []

    def enough(now: Progress) -> None:
        heard.append(now)
        raise TcreadyError("cancelled")

    began = time.monotonic()
    request = RunRequest("model.py", RunOptions(launcher=("sh", "-c", "sleep 60"), timeout=40), root=str(tmp_path))
    with pytest.raises(TcreadyError, match="cancelled"):
        observe(request, enough)
    assert time.monotonic() - began < 20
    assert [str(now) for now in heard] == ["start of the model's process"]
