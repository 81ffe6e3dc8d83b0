"""Models that do to their process what they should not: the answer is an Observation all the same."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from observing import observe_target
from tcready import check
from tcready.schema.observation import Observation, Stage

pytestmark = pytest.mark.torch

HEAD = """\
import os
import sys

import torch
from torch import nn


def get_inputs():
    return [torch.ones(2)]


"""


def run(root: Path, body: str, **options: object) -> Observation:
    (root / "model.py").write_text(HEAD + body, "utf-8")
    return observe_target("model.py", root=str(root), **options)


def stage(seen: Observation, name: str) -> Stage:
    return next(stage for stage in seen.stages if stage.stage == name)


def carried(mark: str) -> list[int]:
    """Live processes whose command line holds `mark`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="processes are found through /proc")
@pytest.mark.release
def test_a_flood_of_children_is_ended_with_the_run(tmp_path: Path) -> None:
    mark = f"flood-{os.getpid()}-{time.monotonic_ns()}"
    body = f"""
class Model(nn.Module):
    def forward(self, x):
        import subprocess
        code = (
            "import os, subprocess, sys, time\\n"
            "depth = int(sys.argv[2])\\n"
            "for _ in range(2 if depth else 0):\\n"
            "    subprocess.Popen([sys.executable, '-c', sys.argv[3], sys.argv[1], str(depth - 1), sys.argv[3]],"
            " start_new_session=depth % 2 == 0)\\n"
            "time.sleep(300)\\n"
        )
        subprocess.Popen([sys.executable, "-c", code, "{mark}", "4", code])
        while True:
            pass
"""
    seen = run(tmp_path, body, timeout=15)
    assert stage(seen, "eager").state == "fail"
    assert stage(seen, "eager").detail.startswith("no answer within 15 s")
    deadline = time.monotonic() + 5
    while carried(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert carried(mark) == []


def test_a_model_that_replaces_parts_of_torch_is_told_and_does_not_hide_its_break(tmp_path: Path) -> None:
    body = """
torch.compile = lambda model=None, **_: model
torch._dynamo.explain = None
real = torch.relu
torch.relu = lambda x: real(x)


class Model(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        if y.sum() > 0:
            y = y + 1
        return y
"""
    seen = run(tmp_path, body)
    assert stage(seen, "capture").state == "pass"
    assert [site.gb_id for site in seen.break_sites] == ["GB0170"]
    told = next(w for w in seen.warnings if "replaces" in w)
    assert "torch.compile" in told
    assert "torch.relu" in told


@pytest.mark.parametrize(
    ("how", "name", "state"),
    [
        # torch 2.13 itself asks a closed sys.stdout whether it is a terminal, and a bare torch.compile raises too
        ("sys.stdout.close()", "capture", "fail"),
        ("os.close(1); os.close(2)", "parity", "pass"),
        ("sys.stdout = open(os.devnull, 'w')", "parity", "pass"),
    ],
)
def test_a_model_that_closes_its_output(tmp_path: Path, how: str, name: str, state: str) -> None:
    seen = run(tmp_path, f"{how}\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n        return x + 1\n")
    assert stage(seen, name).state == state


def test_a_model_that_changes_the_folder_and_takes_the_arguments(tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    body = f"""
os.chdir({str(away)!r})
sys.argv[:] = []


class Model(nn.Module):
    def forward(self, x):
        os.chdir("/")
        if x.sum() > 0:
            x = x + 1
        return x
"""
    seen = run(tmp_path, body)
    assert stage(seen, "capture").state == "pass"
    assert "model.py" in {site.path for site in seen.break_sites}
    assert dict(seen.sources)["model.py"] == str(tmp_path / "model.py")


@pytest.mark.release
def test_endless_recursion_is_an_error_of_the_model(tmp_path: Path) -> None:
    body = """
class Model(nn.Module):
    def forward(self, x):
        return self.forward(x + 1)
"""
    seen = run(tmp_path, body)
    assert stage(seen, "eager").state == "fail"
    assert stage(seen, "eager").detail.startswith("RecursionError")
    assert "model.py:" in stage(seen, "eager").detail


def test_a_model_that_asks_for_more_memory_than_there_is(tmp_path: Path) -> None:
    body = """
class Model(nn.Module):
    def forward(self, x):
        held = []
        while True:
            held.append(torch.ones(25_000_000))
"""
    seen = run(tmp_path, body, memory_gb=1.5)
    assert stage(seen, "eager").state == "fail"
    assert "1.5 GB allowed" in stage(seen, "eager").detail


@pytest.mark.parametrize(
    "switch",
    [
        'torch.compiler.set_stance("force_eager")',
        pytest.param("torch._dynamo.config.disable = True", marks=pytest.mark.release),
    ],
)
def test_a_file_that_switches_compilation_off_is_never_ready(tmp_path: Path, switch: str) -> None:
    body = f"""
{switch}


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        return y
"""
    (tmp_path / "model.py").write_text(HEAD + body, "utf-8")
    report = check(["model.py"], root=tmp_path)
    (target,) = report.targets
    assert target.verdict == "unknown"
    assert "does the code switch compilation off?" in target.verdict_reason
    assert {finding.status for finding in report.findings} == {"predicted"}


@pytest.mark.parametrize(
    "switch",
    [
        "logging.config.dictConfig({'version': 1})",  # disables the loggers that are there, as the default is
        "logging.disable(logging.CRITICAL)",
    ],
)
def test_a_file_that_switches_logging_off_does_not_hide_its_break(tmp_path: Path, switch: str) -> None:
    body = f"""
import logging.config

{switch}


class Model(nn.Module):
    def forward(self, x):
        y = x + 1
        return y * y.sum().item()
"""
    seen = run(tmp_path, body)
    assert [(site.line, site.action) for site in seen.break_sites] == [(21, "resume")]


ROOM = """
import gc
import time


def room():
    return os.path.dirname(next(o.state_path for o in gc.get_objects() if type(o).__name__ == "Journal"))


class Model(nn.Module):
    def forward(self, x):
        if not torch.compiler.is_compiling() and not os.environ.get("DONE"):
            os.environ["DONE"] = "1"
            act()
        return x + 1


def act():
"""
"""A model that finds the folder through which its process answers."""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_model_that_writes_into_its_own_answer(tmp_path: Path) -> None:
    """benchmarks/abuse.py has models that do worse, each for longer."""
    body = ROOM + (
        "    state = os.path.join(room(), 'state.json')\n"
        "    for each in (b'', b'[]', b'{}', b'\\xff', b'[' * 100_000, b'{\"doing\": 3}'):\n"
        "        open(state, 'wb').write(each)\n"
        "        time.sleep(0.15)\n"
        "    os.unlink(state)\n"
        "    os.mkfifo(state)\n"
        "    time.sleep(0.5)\n"
        "    for fd in range(3, 256):\n"
        "        try:\n"
        '            os.write(fd, b\'{"pid": 1, "status": 0}\\nx\\n\')\n'
        "        except OSError:\n"
        "            pass\n"
        "    os.closerange(0, 256)\n"
    )
    seen = run(tmp_path, body)
    assert stage(seen, "parity").state == "pass"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.release
def test_a_model_that_hangs_behind_a_pipe_is_ended_in_time(tmp_path: Path) -> None:
    body = ROOM + (
        "    for name in ('state.json', 'faults.txt'):\n"
        "        path = os.path.join(room(), name)\n"
        "        if os.path.exists(path):\n"
        "            os.unlink(path)\n"
        "        os.mkfifo(path)\n"
        "    while True:\n"
        "        pass\n"
    )
    began = time.monotonic()
    seen = run(tmp_path, body, timeout=8)
    assert time.monotonic() - began < 30
    (failed,) = [each for each in seen.stages if each.state == "fail"]
    assert failed.detail.startswith("no answer within 8 s")


def test_threads_and_children_of_the_model_are_not_waited_for(tmp_path: Path) -> None:
    body = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        import multiprocessing, threading, time
        threading.Thread(target=time.sleep, args=(90,)).start()
        multiprocessing.Process(target=time.sleep, args=(90,)).start()

    def forward(self, x):
        return x + 1
"""
    began = time.monotonic()
    seen = run(tmp_path, body)
    assert time.monotonic() - began < 60
    assert stage(seen, "parity").state == "pass"
