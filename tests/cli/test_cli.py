"""The command line: exits, streams, files, and what it says of mistakes. In process where nothing is run."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from commands import run
from tcready import api
from tcready.cli import progress_display
from tcready.pipeline.run_selection import dtype_named
from tcready.schema.enums import STAGES
from tcready.schema.progress import Progress

BREAKS = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x
"""
CLEAN = BREAKS.replace("if x.sum() > 0", "if self.training")
SHORT = "f9f01ca"
"""The finding of BREAKS."""
NO_TORCH = "def f(x):\n    return x if x else None\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "breaks.py").write_text(BREAKS)
    (tmp_path / "clean.py").write_text(CLEAN)
    (tmp_path / "plain.py").write_text(NO_TORCH)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["breaks.py"], 1),
        (["breaks.py", "--exit-zero"], 0),
        (["breaks.py", "--ignore", "TCR1,TCR2"], 0),
        (["breaks.py", "--select", "TCR6"], 0),
        (["breaks.py", "clean.py"], 1),
        (["clean.py"], 0),
        (["plain.py"], 2),
        (["."], 1),
        ([], 1),
        (["absent.py"], 2),
        (["breaks.py::Absent"], 2),
    ],
)
def test_the_exit_says_what_was_found(project: Path, arguments: list[str], code: int) -> None:
    assert run("check", "--no-run", *arguments) == code


def test_a_file_that_cannot_be_parsed_beats_findings_and_hides_none(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "bad.py").write_text("import torch\ndef f(:\n")
    assert run("check", "--no-run", "--exit-zero", ".") == 2
    out = capsys.readouterr().out
    assert "breaks.py:6" in out
    assert "bad.py" in out


def test_a_named_file_that_cannot_be_parsed_is_2_unless_the_hook_is_lenient(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "template.py").write_text("{{ name }} = {% if x %}\n")
    assert run("check", "--no-run", "template.py") == 2
    assert "template.py" in capsys.readouterr().out
    assert run("check", "--no-run", "--exclude", "breaks.py", ".") == 0, "of a folder it is left out"
    assert run("check", "--no-run", "--lenient", "template.py") == 0
    (project / "template.py").write_text("import torch\n{% if x %}\n")
    assert run("check", "--no-run", "--lenient", "template.py") == 2
    hooks = Path(__file__).resolve().parents[2] / ".pre-commit-hooks.yaml"
    assert "--lenient" in hooks.read_text(), "the hook is given every file of a commit"


def test_a_named_file_without_a_model_is_not_clean(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "steps.py").write_text(
        dedent("""\
        import torch
        def step(x):
            return x + 1
        def get_inputs(): ...
    """)
    )
    assert run("check", "--no-run", "steps.py") == 2
    written = capsys.readouterr().out
    assert "there is no model in it; to check a function, name it: steps.py::step" in " ".join(written.split())
    assert "No findings" not in written
    assert run("check", "--no-run", "steps.py::step") == 0
    assert run("check", "--no-run", "steps.py", "--lenient") == 0
    capsys.readouterr()
    assert run("check", "--no-run", "steps.py", "clean.py") == 0
    written = capsys.readouterr().out
    assert "Nothing was checked" not in written
    assert "No findings in your code." in written
    (project / "gone.py").write_text("import absent\nmodel = absent.Model()\n")
    assert run("check", "--no-run", "gone.py::model") == 2
    assert "its source was not found" in " ".join(capsys.readouterr().out.split())


def test_a_folder_without_python_is_clean(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "empty").mkdir()
    assert run("check", "--no-run", "empty") == 0
    assert "empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "--nope"], "--nope"),
        (["check", "--mode", "fast"], "infer"),
        (["check", "absent.py"], "absent.py"),
        (["check", "--no-run", "clean.py", "--inputs", "clean.py::x"], "--inputs needs a run"),
        (["check", "clean.py", "plain.py", "--inputs", "clean.py::x"], "one target"),
        (["check", ".", "--inputs", "clean.py::x"], "one target"),
        (["check", "clean.py", "--inputs", "clean.py::get_imputs"], "clean.py does not define get_imputs"),
        (["bench", "clean.py", "--loop", "clean.py::epoch"], "clean.py does not define epoch"),
        (["check", "clean.py", "--html", "no/such/folder.html"], "no/such"),
        (["check", "clean.py", "-o", "."], "folder"),
        (["check", "clean.py", "--html", "-"], "stdout, which the report uses"),
        (["check", "clean.py", "-o", "one", "--html", "./one"], "different files"),
        (["check", "clean.py", "--html", "page.html", "--editor", "emacs"], "--editor emacs"),
        (["check", "clean.py", "--timeout", "0"], "--timeout"),
        (["check", "clean.py", "--jobs", "0"], "--jobs"),
        (["check", "clean.py", "--python", "no-such-python"], "no-such-python"),
        (["bench", "clean.py", "--editor", "emacs"], "--editor emacs"),
        (["rule", "TCR1O1"], "did you mean TCR101?"),
        (["rule", "TCR999"], "there is no rule TCR999 (`tcready rules`"),
        (["rule", "data-dependent-iff"], "data-dependent-if"),
        (["chek"], "check"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_exit_2(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("tcready: error: ")
    assert words in said.err


def test_json_is_all_there_is_on_stdout(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "--no-run", "--output-format", "json", "breaks.py") == 1
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert [(f["path"], f["line"], f["status"]) for f in report["findings"]] == [("breaks.py", 6, "predicted")]
    assert [(t["target"], t["verdict"]) for t in report["targets"]] == [("breaks.py::Net", "unknown")]
    assert said.err == ""


def test_files_are_written_beside_each_other_and_stdout_stays_empty(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--output-format", "json", "-o", "out.json", "--html", "page.html")
    assert run("check", "--no-run", "breaks.py", *arguments) == 1
    assert capsys.readouterr().out == ""
    assert json.loads((project / "out.json").read_text())["schema_version"] == 1
    assert (project / "page.html").read_text().lower().startswith("<!doctype html>")
    assert sorted(p.name for p in project.iterdir()) == [
        ".tcready_cache",
        "breaks.py",
        "clean.py",
        "out.json",
        "page.html",
        "plain.py",
    ]


def test_an_existing_file_keeps_its_permissions_and_a_link_its_target(project: Path) -> None:
    kept = project / "kept.txt"
    kept.write_text("before")
    kept.chmod(0o640)
    (project / "link.txt").symlink_to("kept.txt")
    assert run("check", "--no-run", "clean.py", "-o", "link.txt") == 0
    assert (project / "link.txt").is_symlink()
    assert kept.read_text() != "before"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_or_device_is_written_to_and_not_replaced(project: Path) -> None:
    """`-o /dev/null` once replaced the device by a file: a named pipe stands in for it here."""
    os.mkfifo("pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_text()))
    reader.start()
    assert run("check", "--no-run", "breaks.py", "-o", "pipe") == 1
    reader.join(10)
    assert "breaks.py:6" in read[0]
    assert stat.S_ISFIFO(os.lstat("pipe").st_mode)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_stdout_that_takes_nothing_is_one_line(project: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "tcready", "rules"]
        done = subprocess.run(command, cwd=project, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["tcready: error: stdout cannot be written to: No space left on device"]


def test_statistics_count_by_rule(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "--no-run", "--statistics", "breaks.py") == 1
    table, reach, kinds = capsys.readouterr().out.splitlines()
    assert table.split() == ["1", "TCR101", "data-dependent-if"]
    assert reach == "1 functions reached; 1 of 1 calls in them resolved, 0 cut by a limit"
    assert kinds == "of these 0 to source that is read, 1 to known names, 0 to known values"


def test_statistics_tell_what_was_not_resolved(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unknown = "absent.a()\n        absent.b()\n        return absent(x)"
    (project / "breaks.py").write_text(BREAKS.replace("return x\n", unknown + "\n"))
    run("check", "--no-run", "--statistics", "breaks.py")
    *_, title, first, second = capsys.readouterr().out.splitlines()
    assert title == "not resolved, most frequent first, each with its first place:"
    assert first.split(maxsplit=1) == ["2", "method of an object that is not known  breaks.py:8"]
    assert second.split(maxsplit=1) == ["1", "call of a name whose value is not known  breaks.py:10"]


@pytest.mark.parametrize(("version", "other"), [("2.5", "2.11"), ("2.10", "2.11"), ("2.99", "2.15"), ("2.13", None)])
def test_a_torch_without_tables_is_told_whose_stand_for_it(
    version: str, other: str | None, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("check", "breaks.py", "--no-run", "--torch-version", version)
    warning = f": the predictions are those for torch {other}"
    assert " ".join(capsys.readouterr().out.split()).count(warning) == (other is not None)


def test_the_page_of_a_rule_by_code_or_name(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("rule", "TCR101") == 0
    page = capsys.readouterr().out
    for section in ("## What it does", "## Why it hurts torch.compile", "## Use instead"):
        assert section in page
    assert run("rule", "data-dependent-if") == 0
    assert capsys.readouterr().out == page
    assert run("rules") == 0
    listed = capsys.readouterr().out.splitlines()
    assert any(line.startswith("TCR101 ") for line in listed)
    assert listed == sorted(listed)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["check", "--help"], ["--version"]])
def test_help_and_version_go_to_stdout(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 0
    said = capsys.readouterr()
    assert said.out.count("tcready") >= 1
    assert said.err == ""


def test_color_follows_the_environment(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    run("check", "--no-run", "breaks.py")
    assert "\x1b[" in capsys.readouterr().out
    run("explain", SHORT, "breaks.py")
    assert "\x1b[" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    run("check", "--no-run", "breaks.py")
    run("explain", SHORT, "breaks.py")
    assert "\x1b[" not in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "")
    run("check", "--no-run", "breaks.py")
    assert "\x1b[" in capsys.readouterr().out, "an empty one says nothing"
    monkeypatch.delenv("FORCE_COLOR")
    run("check", "--no-run", "breaks.py")
    assert "\x1b[" not in capsys.readouterr().out, "no terminal"
    monkeypatch.setenv("FORCE_COLOR", "1")
    run("check", "--no-run", "breaks.py", "-o", "out.txt")
    assert "\x1b[" not in Path("out.txt").read_text(), "a file is no terminal"


def test_what_is_executed_is_told_first_and_quiet_says_nothing(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An interpreter that ends at once: the run is due and cannot be established, exit 2."""
    (project / "no-python").write_text("#!/bin/sh\nexit 3\n")
    (project / "no-python").chmod(0o755)
    (project / "runs.py").write_text(CLEAN + "\n\ndef get_inputs():\n    return []\n")
    assert run("check", "runs.py", "--python", "./no-python") == 2
    said = capsys.readouterr()
    assert said.err == "running runs.py::Net with get_inputs()\n"
    assert "UNKNOWN" in said.out
    assert run("check", "runs.py", "--python", "./no-python", "-q") == 2
    assert capsys.readouterr().err == ""


RUNS = """\
import time

import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x + 1


def get_inputs():
    time.sleep(1)  # longer than the launcher waits between two looks
    return [torch.ones(2)]
"""


@pytest.mark.torch
@pytest.mark.release
def test_a_log_that_is_no_terminal_has_a_line_for_each_stage(project: Path) -> None:
    (project / "runs.py").write_text(RUNS)
    with start("check", "runs.py", cwd=project) as process:
        _, err = process.communicate(timeout=300)
    assert process.returncode == 0
    first, *lines = err.splitlines()
    assert first == "running runs.py::Net with get_inputs()"
    stages = [re.fullmatch(r"\[(\d+) s\] (\w+)( .*)?", line) for line in lines]
    assert all(stages), lines
    names = [found[2] for found in stages if found]
    assert {"import", "build"} <= set(names) <= set(STAGES)
    assert names == sorted(set(names), key=STAGES.index), "each once, in order"
    seconds = [int(found[1]) for found in stages if found]
    assert seconds == sorted(seconds)
    with start("check", "-q", "runs.py", cwd=project) as process:
        _, err = process.communicate(timeout=300)
    assert err == ""


def test_reading_that_takes_long_is_told_in_a_log(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once where nothing is read yet, then how many files are, with what the rest takes at that pace."""
    monkeypatch.setattr(progress_display, "LONG", 0.0)
    monkeypatch.setattr("tcready.pipeline.registry.load_rules", slowly(api.load_rules))
    assert run("check", "--no-run", "--no-cache", "--jobs", "1", "clean.py", "breaks.py", "plain.py") == 1
    first, *lines = capsys.readouterr().err.splitlines()
    assert first == "[0 s] reading the sources"
    said = [re.fullmatch(r"\[\d+ s\] reading the sources: (\d) of 3(, about \d+ s left)?", line) for line in lines]
    assert [match and match[1] for match in said] == ["1", "2", "3"]
    assert [bool(match and match[2]) for match in said] == [False, True, True]


def test_reading_that_is_soon_done_is_not_told(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "--no-run", "--no-cache", ".") == 1
    assert capsys.readouterr().err == ""


class Seconds:
    """A clock that is put forward by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_remains_is_told_only_where_something_says_so() -> None:
    seconds = Seconds()
    clock = progress_display.ProgressClock(seconds)

    def after(waited: float, *progress: Any, **more: Any) -> str:
        seconds.now += waited
        clock.put(Progress(*progress, **more))
        return clock.line()

    assert after(2, "import", "import of torch") == "[2 s] import of torch"
    assert after(3, "proof", "proof: a", 0, 4) == "[5 s] proof: a: 0 of 4", "nothing is done that could be timed"
    assert after(10, "proof", "proof: b", 1, 4) == "[15 s] proof: b: 1 of 4, about 30 s left"
    seconds.now += 4
    assert clock.line() == "[19 s] proof: b: 1 of 4, about 26 s left", "time goes on while nothing is told"
    assert after(16, "proof", "proof: c", 2, 4) == "[35 s] proof: c: 2 of 4, about 30 s left"
    assert after(0, "plan", "plan, encoder alone", left=40.0) == "[35 s] plan, encoder alone, 40 s of the budget left"
    seconds.now += 60
    assert clock.line() == "[95 s] plan, encoder alone, 0 s of the budget left"
    known = "reading the sources"
    assert after(0, "reading", known, 90, 100) == f"[95 s] {known}: 90 of 100", "the cache knew these"
    assert after(5, "reading", known, 95, 100) == f"[100 s] {known}: 95 of 100, about 5 s left"


def test_a_log_shows_a_step_that_began_right_after_another(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = Seconds()
    with progress_display._Lines() as lines:
        lines._clock = progress_display.ProgressClock(seconds)
        for step, waited in (("single calls", 1), ("profile", 1), ("outputs", 1), ("outputs", 4), ("outputs", 9)):
            seconds.now += waited
            lines.progress(Progress("bench", f"bench: {step}"))
    assert capsys.readouterr().err.splitlines() == ["[1 s] bench: single calls", "[7 s] bench: outputs"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no pseudo-terminals")
@pytest.mark.torch
def test_on_a_terminal_one_line_shows_how_far_the_work_is(project: Path) -> None:
    """A real terminal, with a name that rich would take for markup: the line is drawn anew, and is gone at the end."""
    named = project / "[bold]runs.py"
    named.write_text(RUNS)
    printed, code = on_a_terminal(project, "check", named.name, "--plan", "--budget", "50")
    assert code == 0
    text = printed.decode()
    lines = re.findall(r"\[\d+ s\] [^\x1b\r\n]*", text)
    assert any(re.fullmatch(r"\[\d+ s\] import of torch", line) for line in lines)
    assert any(re.fullmatch(r"\[\d+ s\] plan.*, \d+ s of the budget left", line) for line in lines)
    assert text.count("\x1b[2K") > 3, "the line is taken back"
    assert "running [bold]runs.py::Net" in text
    last = text.rpartition("VERDICT")[2]
    assert "\x1b[" in last, "colours, as on any terminal"
    assert " s] " not in last
    quiet, code = on_a_terminal(project, "check", named.name, "--no-run", "-q", NO_COLOR="1")
    assert code == 0
    assert b"\x1b[" not in quiet


def on_a_terminal(folder: Path, *arguments: str, **environment: str) -> tuple[bytes, int]:
    """What a command writes to a terminal of its own, stdout and stderr together, and its exit code."""
    import pty

    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "tcready", *arguments]
    known = {**os.environ, "TERM": "xterm", "COLUMNS": "120", **environment}
    with subprocess.Popen(command, cwd=folder, stdin=follower, stdout=follower, stderr=follower, env=known) as process:
        os.close(follower)
        printed = b""
        with contextlib.suppress(OSError):  # Linux's way to say that nobody writes any more
            while data := os.read(leader, 65536):
                printed += data
        code = process.wait(timeout=60)
    os.close(leader)
    return printed, code


def slowly(function: Callable[[], Any]) -> Callable[[], Any]:
    def wait() -> Any:
        time.sleep(0.2)
        return function()

    return wait


def start(*arguments: str, cwd: Path, **more: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tcready", *arguments]
    return subprocess.Popen(command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def test_a_reader_that_leaves_early_gets_no_traceback(project: Path) -> None:
    with start("rules", cwd=project) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 141
    assert said == ""


def test_so_does_one_that_reads_stderr_as_well(project: Path) -> None:
    command = [sys.executable, "-m", "tcready", "check", "nowhere.py", "--run"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, cwd=project, stdout=writing, stderr=writing, timeout=60)
    os.close(writing)
    assert done.returncode == 141


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize(("sent", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interrupt_leaves_no_process_and_no_traceback(project: Path, sent: str, code: int) -> None:
    """A stand-in interpreter that sleeps: what is interrupted is the launcher's wait."""
    sleeper = project / "sleeping-python"
    sleeper.write_text(
        dedent("""\
        #!/bin/sh
        echo $$ > starting && mv starting started
        exec sleep 300
    """)
    )
    sleeper.chmod(0o755)
    (project / "runs.py").write_text(CLEAN + "\n\ndef get_inputs():\n    return []\n")

    def answer_interrupts() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job starts with it ignored

    arguments = ("check", "runs.py", "--python", str(sleeper))
    with start(*arguments, cwd=project, preexec_fn=answer_interrupts) as process:
        deadline = time.monotonic() + 60
        while not (project / "started").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        pid = int((project / "started").read_text())
        assert _alive(pid)
        process.send_signal(getattr(signal, sent))
        out, err = process.communicate(timeout=180)
    assert process.returncode == code
    assert "Traceback" not in out + err
    assert not _alive(pid)


@pytest.mark.parametrize("flag", ["--timeout", "--memory", "--budget"])
def test_a_limit_that_is_no_number_is_refused(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "fixtures/models/clean_vit.py", "--no-run", flag, "nan") == 2
    assert f"{flag} nan: name a finite number" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("dtype", "remedy"),
    [
        ("bfloat61", "did you mean bfloat16?"),
        ("int8", "it takes bfloat16"),
        ("flaot16", "did you mean float16?"),
        ("fp16", "did you mean float16?"),
    ],
)
def test_a_dtype_that_no_model_is_cast_to_is_refused(
    dtype: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("check", "fixtures/models/clean_vit.py", "--no-run", "--dtype", dtype) == 2
    error = capsys.readouterr().err
    assert f"--dtype {dtype}: a model cannot be cast to it" in error
    assert remedy in error


@pytest.mark.parametrize(("device", "remedy"), [("gpu", "did you mean cuda?"), ("cdua:1", "did you mean cuda?")])
def test_a_device_that_torch_does_not_know_is_refused(
    device: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("check", "fixtures/models/clean_vit.py", "--run", "--device", device) == 2
    error = capsys.readouterr().err
    assert f"--device {device}: torch has no such device" in error
    assert remedy in error


def test_an_optimizer_without_training_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "fixtures/models/clean_vit.py", "--run", "--optimizer") == 2
    assert "--optimizer compiles a training step: add --mode train" in capsys.readouterr().err


def test_dtypes_of_the_command_line_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    names = {name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)}
    floating = {name for name in names if (dtype := getattr(torch, name)).is_floating_point or dtype.is_complex}
    of_modules = {name for name in floating if not name.startswith("float4")}
    assert {dtype_named(name) for name in of_modules} == {
        str(getattr(torch, name)).removeprefix("torch.") for name in of_modules
    }


def test_autocast_with_a_dtype_that_it_does_not_take_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "fixtures/models/clean_vit.py", "--autocast", "int32") == 2
    assert "--autocast int32: expected one of bfloat16" in capsys.readouterr().err
    assert run("check", "fixtures/models/clean_vit.py", "--run", "--autocast", "bf16") == 2
    assert "did you mean bfloat16?" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["html", "sarif", "github", "gitlab", "junit", "markdown", "json", "jsonl", "concise"])
def test_every_format_goes_to_stdout(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "fixtures/models/moe_router.py", "--no-run", "--output-format", form) == 1
    assert "TCR" in capsys.readouterr().out


def test_concise_and_jsonl_are_findings_alone_one_line_each(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "breaks.py", "--output-format", "concise") == 1
    assert capsys.readouterr().out == (
        "breaks.py:6:12: TCR101 error `if` on the value of a tensor: Dynamo cannot know which branch runs (predicted) "
        f"{SHORT}\n"
    )
    assert run("check", "breaks.py", "--output-format", "jsonl") == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert run("check", "breaks.py", "--output-format", "json") == 1
    assert json.loads(line) == json.loads(capsys.readouterr().out)["findings"][0]
    assert run("check", "clean.py", "--output-format", "concise") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("form", ["concise", "jsonl"])
def test_formats_of_findings_alone_do_not_hide_why_the_exit_is_2(
    project: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "cut.py").write_text("import torch\ndef f(:\n")
    assert run("check", ".", "--run", "--output-format", form) == 2
    error = capsys.readouterr().err
    assert "cut.py cannot be judged: syntax error in line 2" in error
    assert "build failed: no file in this folder provides inputs" in error


def test_names_that_torch_refuses_in_a_dict_of_modules(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "heads.py").write_text(
        dedent("""\
            import torch
            from torch import nn


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.heads = nn.ModuleDict(
                        {torch.float32: nn.Linear(4, 4), "a.b": nn.Linear(4, 4), "": nn.Linear(4, 4), "c": nn.Linear(4, 4)}
                    )

                def forward(self, x):
                    return self.heads["c"](x)
        """)
    )
    assert run("check", "heads.py", "--no-run", "--output-format", "json") == 0
    (target,) = json.loads(capsys.readouterr().out)["predicted"]
    assert {"heads.c", "heads.*"} <= {module["name"] for module in target["modules"]}


def test_a_form_feed_before_a_method_is_no_indent(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "fed.py").write_text(
        "from torch import nn\n\n\nclass Net(nn.Module):\n    width = 3\n\x0c    def forward(self, x):\n"
        "        print(self.width)\n        return x * 2\n"
    )
    assert run("check", "fed.py", "--no-run", "--output-format", "concise") == 1
    out, error = capsys.readouterr()
    assert out.startswith("fed.py:7:9: TCR301 ")
    assert error == ""


@pytest.mark.slow
@pytest.mark.parametrize("form", ["concise", "jsonl", "github", "gitlab", "sarif"])
def test_formats_of_findings_alone_say_which_device_is_missing(
    project: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    (project / "gives.py").write_text(
        dedent("""\
            import torch
            from torch import nn


            class Model(nn.Module):
                def forward(self, x):
                    return x + 1


            def get_inputs():
                return [torch.ones(2)]
        """)
    )
    assert run("check", "gives.py", "--device", "xpu:9", "--output-format", form) == 2
    assert "gives.py::Model: import did not run: device xpu:9 is not available here" in capsys.readouterr().err


def test_help_shows_the_common_options_and_all_of_them_by_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "--help") == 0
    common = capsys.readouterr().out
    assert len(common.splitlines()) < 50
    shown = re.findall(r"^  (?:-\w, )?(--[\w-]+)", common, re.M)
    assert shown[:3] == ["--run", "--inputs", "--mode"]
    assert shown[-2:] == ["--help-all", "--help"]
    assert run("check", "nosuch.py", "--help-all") == 0
    text = capsys.readouterr().out
    assert set(shown) < set(re.findall(r"--[\w-]+", text))
    order = ["Reading the source:", "Running the model:", "Reporting:", "Guarding a project:", "Other options:"]
    places = [text.index(heading) for heading in order]
    assert places == sorted(places)
    for option, heading in {"--torch-version": 0, "--mode": 1, "--plan": 1, "--html": 2, "--baseline": 3}.items():
        at = text.index(f"  {option} ")
        assert places[heading] < at < places[heading + 1], option


CHANGED_IN_2_15 = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        y = self.lin(x) + self.state_dict()["lin.bias"]
        return pow(y, 2)
"""


def test_two_versions_of_torch_are_compared(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "net.py").write_text(CHANGED_IN_2_15)
    asked = ("check", "net.py", "--no-run", "--torch-version", "2.13", "--against-version", "2.15")
    assert run(*asked) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "torch 2.13 -> torch 2.15: 1 new, 1 fixed, 0 moved, 0 unchanged"
    assert told[1].startswith("NEW net.py:11: TCR305 error: `torch.nn.Module.state_dict`")
    assert told[2].startswith("FIXED net.py:12: TCR308 error: `pow`")
    assert run(*asked, "--output-format", "json", "-o", "changes.json") == 1
    changes = json.loads((project / "changes.json").read_text())
    assert {change["kind"]: change["finding"]["line"] for change in changes["findings"]} == {"new": 11, "fixed": 12}
    same = ("check", "net.py", "--no-run", "--torch-version", "2.15", "--against-version", "2.15")
    assert run(*same) == 0


def test_an_earlier_bench_is_read_as_a_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("bench", "breaks.py", "--against", "before.json", "--fail-on-regression", "5%")
    assert run(*asked) == 2
    assert "before.json: No such file" in capsys.readouterr().err
    assert run("check", "breaks.py", "--no-run", "--exit-zero", "--output-format", "json", "-o", "before.json") == 0
    assert run(*asked) == 2
    assert "--against before.json: the report contains no bench" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "error"),
    [
        (("--torch-version", "2.13"), "compares predictions for two versions: add --no-run"),
        (("--no-run", "--torch-version", "2.99"), "torch 2.99 has no predictions of its own"),
    ],
)
def test_versions_cannot_be_compared(
    more: tuple[str, ...], error: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("check", "breaks.py", "--against-version", "2.15", *more) == 2
    assert error in " ".join(capsys.readouterr().err.split())
