"""Whatever a target does, the answer is an Observation with one clear line at the stage that failed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest
from observing import observe_target
from tcready.dynamic.bundle import build_bundle
from tcready.dynamic.worker.core.request import LAUNCHER
from tcready.schema.enums import STAGES
from tcready.schema.observation import Observation, Stage

pytestmark = pytest.mark.torch

HEAD = dedent("""\
    import torch
    from torch import nn

    def get_inputs():
        return [torch.ones(2)]

""")


def run(root: Path, source: str | None, target: str = "model.py", **options: object) -> Observation:
    if source is not None:
        (root / "model.py").write_text(source)
    return observe_target(target, root=str(root), **options)


def failed(seen: Observation) -> Stage:
    """The one failed stage; all before it passed, all after it did not run."""
    assert [stage.stage for stage in seen.stages] == list(STAGES)
    states = [stage.state for stage in seen.stages]
    index = states.index("fail")
    assert states == ["pass"] * index + ["fail"] + ["not_run"] * (len(STAGES) - index - 1)
    assert all(stage.detail == "an earlier stage failed" for stage in seen.stages[index + 1 :])
    assert "\n" not in seen.stages[index].detail
    return seen.stages[index]


def forward(*body: str) -> str:
    lines = "".join(f"        {line}\n" for line in body)
    return f"{HEAD}class Model(nn.Module):\n    def forward(self, x):\n{lines}"


def test_a_target_that_hangs(tmp_path: Path) -> None:
    seen = run(tmp_path, forward("while True:", "    x = x + 1"), timeout=20)
    stage = failed(seen)
    assert stage.stage == "eager"
    assert stage.detail.startswith("no answer within 20 s, while in stage eager")
    assert "model.py:" in stage.detail, "where it hangs is told"
    assert seen.environment is not None, "what was established is kept"


def test_a_target_that_dies_by_a_signal(tmp_path: Path) -> None:
    seen = run(tmp_path, forward("import ctypes", "ctypes.string_at(0)", "return x"))
    assert failed(seen).stage == "eager"
    assert failed(seen).detail == "the process died by SIGSEGV (at model.py:10)"


def test_exit_without_a_word(tmp_path: Path) -> None:
    seen = run(tmp_path, forward("import os", "print('the last words', flush=True)", "os._exit(3)"))
    assert failed(seen).detail == "the process exited with code 3: the last words"


def test_sys_exit_at_import(tmp_path: Path) -> None:
    stage = failed(
        run(
            tmp_path,
            dedent("""\
        import sys
        sys.exit(4)
        def get_inputs(): ...
        class Model: ...
    """),
        )
    )
    assert (stage.stage, stage.detail) == ("import", "the code called sys.exit(4) (model.py:2)")


def test_import_error(tmp_path: Path) -> None:
    stage = failed(run(tmp_path, "import no_such_thing\n", "model.py::Model", inputs="model.py::x"))
    assert stage.stage == "import"
    assert stage.detail == "ModuleNotFoundError: No module named 'no_such_thing' (model.py:1)"


def test_syntax_error(tmp_path: Path) -> None:
    stage = failed(run(tmp_path, "import torch\ndef f(:\n", "model.py::f", inputs="model.py::x"))
    assert stage.stage == "parse"
    assert stage.detail.endswith("(model.py:2)")


def test_missing_file(tmp_path: Path) -> None:
    stage = failed(run(tmp_path, None, "absent.py::Model", inputs="absent.py::x"))
    assert (stage.stage, stage.detail) == ("parse", "absent.py: no such file")


def test_missing_class_names_those_there_are(tmp_path: Path) -> None:
    stage = failed(run(tmp_path, forward("return x"), "model.py::Modle", inputs="model.py::get_inputs"))
    assert stage.stage == "import"
    assert stage.detail == "model.py has no 'Modle'; did you mean Model? It defines get_inputs, Model"


def test_inputs_that_are_not_there_name_values_too(tmp_path: Path) -> None:
    text = forward("return x") + "\n\nSAMPLE = [torch.ones(2)]\n"
    stage = failed(run(tmp_path, text, "model.py::Model", inputs="model.py::nope"))
    assert stage.detail == "model.py has no 'nope'; it defines get_inputs, Model, SAMPLE"


def test_inputs_that_raise_are_not_taken_for_the_model(tmp_path: Path) -> None:
    text = forward("return x").replace("return [", "raise ValueError('no data here')\n    return [")
    asked = failed(run(tmp_path, text, "model.py::Model", inputs="model.py::get_inputs"))
    assert asked.stage == "build"
    assert asked.detail.startswith("--inputs model.py::get_inputs raises ValueError: no data here (model.py:")
    by_name = failed(run(tmp_path, text, "model.py::Model"))
    assert "raises ValueError: no data here" in by_name.detail
    assert by_name.detail.endswith("; --inputs names others")


def test_build_error_and_eager_error_say_where(tmp_path: Path) -> None:
    source = forward("return x") + "    def __init__(self, width):\n        super().__init__()\n"
    stage = failed(run(tmp_path, source))
    assert stage.stage == "build"
    assert stage.detail.startswith("TypeError: ")
    assert "width" in stage.detail
    stage = failed(run(tmp_path, forward("return x @ torch.ones(3)")))
    assert stage.stage == "eager"
    assert stage.detail.startswith("RuntimeError: ")
    assert stage.detail.endswith("(model.py:9)")


def test_megabytes_of_prints_and_warnings_disturb_nothing(tmp_path: Path) -> None:
    body = (
        "import sys, warnings",
        "if not torch.compiler.is_compiling():",
        "    sys.stdout.write('x' * 3_000_000)",
        "    sys.stderr.write('y' * 3_000_000)",
        "warnings.warn('careful')",
        "return x + 1",
    )
    seen = run(tmp_path, forward(*body))
    assert not [stage for stage in seen.stages if stage.state == "fail"], seen.stages
    assert seen.coverage is not None


def test_a_sleeping_child_does_not_survive(tmp_path: Path) -> None:
    body = (
        "import os, subprocess",
        "if not os.path.exists('child'):",
        "    child = subprocess.Popen(['sleep', '300'], start_new_session=True)",
        "    open('child', 'w').write(str(child.pid))",
        "return x",
    )
    start = time.monotonic()
    run(tmp_path, forward(*body))
    assert time.monotonic() - start < 120, "the child's open pipe is not waited for"
    pid = int((tmp_path / "child").read_text())
    assert not alive(pid)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is watched through /proc")
def test_memory_limit_counts_children(tmp_path: Path) -> None:
    body = (
        "import subprocess, sys",
        "hog = 'import time; x = bytearray(1_500_000_000); time.sleep(60)'",
        "subprocess.run([sys.executable, '-c', hog])",
        "return x",
    )
    stage = failed(run(tmp_path, forward(*body), memory_gb=1.5))
    assert stage.stage == "eager"
    assert stage.detail.startswith("memory: ")
    assert "1.5 GB allowed, while in stage eager" in stage.detail


def test_interpreter_without_torch(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    seen = run(tmp_path, forward("return x"), python=str(tmp_path / "bare" / "bin" / "python"))
    assert seen.stages[0].state == "pass"
    assert {stage.state for stage in seen.stages[1:]} == {"not_run"}
    assert seen.stages[1].detail == f"torch is not installed in {tmp_path / 'bare' / 'bin' / 'python'}"
    assert seen.environment is None
    assert seen.convention == "get_inputs() with Model"


def test_interpreter_that_is_not_there(tmp_path: Path) -> None:
    stage = failed(run(tmp_path, forward("return x"), python=str(tmp_path / "nowhere")))
    assert "nowhere cannot be started: No such file" in stage.detail


def test_device_that_is_not_there_is_not_run(tmp_path: Path) -> None:
    seen = run(tmp_path, forward("return x"), device="cuda:7")
    assert seen.stages[0].state == "pass"
    assert {stage.state for stage in seen.stages[1:]} == {"not_run"}
    assert seen.stages[1].detail.startswith("device cuda:7 is not available here: ")
    assert "\n" not in seen.stages[1].detail


@pytest.mark.skipif(sys.platform != "linux", reason="the worker follows its launcher on Linux alone")
def test_a_killed_launcher_takes_the_worker_along(tmp_path: Path) -> None:
    body = ("import os", "open('worker', 'w').write(str(os.getpid()))", "while True:", "    x = x + 1")
    (tmp_path / "model.py").write_text(forward(*body))
    code = "from tcready.dynamic import RunRequest, observe; observe(RunRequest('model.py'))"
    launcher = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    try:
        worker = wait_for(tmp_path / "worker")
    finally:
        launcher.kill()
        launcher.wait()
    deadline = time.monotonic() + 20
    while alive(worker) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive(worker)


@pytest.mark.skipif(sys.platform != "linux", reason="the worker follows its launcher on Linux alone")
@pytest.mark.parametrize("how", [["request.json", "state.json", "faults.txt"], ["--fork-server", "0"]])
def test_a_worker_whose_launcher_is_gone_already_does_nothing(tmp_path: Path, how: list[str]) -> None:
    """One that was killed between starting it and its first line; it ran on then. A script that stands between looks alike,
    and is told so."""
    build_bundle(tmp_path / "worker.pyz")
    gone = {**os.environ, LAUNCHER: str(2**22 + 1)}
    command = [sys.executable, str(tmp_path / "worker.pyz"), *how]
    done = subprocess.run(command, cwd=tmp_path, env=gone, capture_output=True, text=True, timeout=60)
    why = "an interpreter that is a script has to become Python: `exec python`\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", why)
    assert [path.name for path in tmp_path.iterdir()] == ["worker.pyz"]


def wait_for(path: Path) -> int:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if path.exists() and path.read_text():
            return int(path.read_text())
        time.sleep(0.1)
    raise AssertionError(f"{path} was never written")


def alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "Z (zombie)" not in status.read_text()


TRACEBACK = """\
Traceback (most recent call last):
  File "model.py", line 1, in forward
    allocate()
MemoryError: the pool is used up
"""


@pytest.mark.parametrize(
    "logged",
    [
        "W1130 12:00:00.123000 1 torch/utils/cpp_extension.py:10] No CUDA runtime is found",
        "[rank0]:[W1130 10:00:00.1 ProcessGroupNCCL.cpp:1250] Warning: destroy_process_group was not called",
        "WARNING:root:pool closed",
        "2026-11-30 10:00:00,123 - root - INFO - bye",
        "[2026-11-30 10:00:00,123] [INFO] [accelerator.py:100:get_accelerator] Setting ds_accelerator",
        "2026-11-30 10:00:00.1: I tensorflow/core/platform/cpu.cc:210] This binary is optimized",
        "/model.py:3: UserWarning: old\n  warnings.warn(",
    ],
)
def test_a_logged_line_is_no_reason(logged: str) -> None:
    """A process that ends after it has logged something ended for what it said before."""
    from tcready.dynamic.worker_process import describe_exit

    assert (
        describe_exit(1, f"{TRACEBACK}{logged}\n")[0]
        == "the process exited with code 1: MemoryError: the pool is used up"
    )
    assert describe_exit(1, "DeprecationWarning: old\n")[0] == "the process exited with code 1: DeprecationWarning: old"
