"""The worker as one file, run by hand where there is no tcready, and what it brings home."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tcready.api import check, exit_code, load, write_worker
from tcready.cli import main
from tcready.schema.codec import as_json, from_json
from tcready.schema.enums import TcreadyError
from tcready.schema.observation import Observation
from tcready.schema.report import Report, Tool

pytestmark = pytest.mark.torch

MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return self.lin(x)


def example():
    return torch.ones(2, 8)
"""


def travel(worker: Path, root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As on another machine: an isolated interpreter in another folder, without tcready's own on its path."""
    command = [sys.executable, "-I", str(worker), *arguments]
    return subprocess.run(command, cwd=root, text=True, capture_output=True, check=False)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("carried") / "worker.pyz"
    write_worker(path)
    return path


@pytest.fixture(scope="module")
def far(worker: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a run far away, and the line it printed."""
    root = tmp_path_factory.mktemp("far")
    (root / "src").mkdir()
    (root / "src/model.py").write_text(MODEL)
    target = ("--target", "src/model.py::Net", "--inputs", "src/model.py::example")
    done = travel(worker, root, *target, "--device", "auto", "--mode", "infer", "--fullgraph", "-o", "seen.json")
    assert done.returncode == 0, done.stderr
    return root, done.stdout


def test_it_writes_an_observation_and_one_line(far: tuple[Path, str]) -> None:
    root, said = far
    seen = from_json(Observation, json.loads((root / "seen.json").read_text()))
    assert [(site.path, site.line) for site in seen.break_sites] == [("src/model.py", 11)]
    assert dict(seen.digests).keys() == {"src/model.py"}
    assert seen.coverage is not None
    assert said.startswith("src/model.py::Net: 2 graphs, 1 break site, 0 skipped frames; ")
    assert "% of operations in graphs; fullgraph failed: " in said
    assert said.endswith("; written to seen.json\n")
    assert said.count("\n") == 1
    fullgraph = next(stage for stage in seen.stages if stage.stage == "fullgraph")
    assert fullgraph.state == "fail", "it was asked for though there is a break"
    inputs = ("--inputs", "src/model.py::example")
    assert seen.asked == ("src/model.py::Net", *inputs, "--device", "auto", "--fullgraph")


def test_what_it_saw_is_merged_here(far: tuple[Path, str], tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/model.py").write_text(MODEL)
    (tmp_path / "seen.json").write_bytes((far[0] / "seen.json").read_bytes())
    told: list[str] = []
    report = check(["src/model.py"], root=tmp_path, observations=["seen.json"], announce=told.append)
    (line,) = told
    assert line.startswith("seen.json: src/model.py::Net was run under torch ")
    (finding,) = [finding for finding in report.findings if finding.rule == "TCR101"]
    assert (finding.line, finding.status) == (11, "confirmed")
    assert [target.target for target in report.targets] == ["src/model.py::Net"]
    assert report.warnings == ()
    assert exit_code(report) == 1
    assert [source.path for source in report.sources] == ["src/model.py"]


def test_another_source_than_what_was_run_is_warned_of(far: tuple[Path, str], tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/model.py").write_text("# moved by one\n" + MODEL)
    file = str(far[0] / "seen.json")
    report = check(["src/model.py"], root=tmp_path, observations=[file])
    assert report.warnings == (f"src/model.py is not what was run in {file}: its lines may have moved",)


def test_whatever_the_model_does_there_is_an_observation(worker: Path, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        MODEL.replace("if x.sum() > 0:", "import ctypes; ctypes.string_at(0)\n        if True:")
    )
    done = travel(worker, tmp_path, "--target", "model.py::Net", "--inputs", "model.py::example")
    assert done.returncode == 2, "a job script sees that nothing was compiled"
    assert done.stdout.startswith("model.py::Net: eager failed: the process died by SIGSEGV")
    seen = from_json(Observation, json.loads((tmp_path / "observation.json").read_text()))
    assert any(stage.state == "fail" for stage in seen.stages)
    assert seen.environment is not None, "what was established before is kept"
    done = travel(worker, tmp_path, "--target", "model.py::Net", "--inputs", "model.py::none", "-o", "no/where")
    assert done.returncode == 2
    assert done.stderr == "-o no/where: it cannot be written there\n", "and nothing ran"


def test_inputs_are_made_up_where_none_are_named(worker: Path, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL.replace("def example", "def other"))
    done = travel(worker, tmp_path, "--target", "model.py::Net")
    assert done.returncode == 0
    seen = from_json(Observation, json.loads((tmp_path / "observation.json").read_text()))
    assert seen.convention == "synthesised: x float32 (2, 8)"


def test_wrong_arguments(worker: Path, tmp_path: Path) -> None:
    done = travel(worker, tmp_path, "--taget", "model.py::Net")
    assert done.returncode == 2
    assert "--target" in done.stderr
    assert travel(worker, tmp_path, "--help").stdout.startswith("usage: worker.pyz ")


REPORT = json.dumps(as_json(Report(Tool("tcready", "0"), (), (), (), (), (), (), {})))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "--observation seen.json: No such file or directory"),
        ("{", "--observation seen.json is not valid JSON: "),
        ('{"target": "a", "stages": []}', "--observation seen.json: Observation.convention is missing"),
        ("[]", "--observation seen.json is neither "),
        (REPORT, "--observation seen.json is a report: "),
    ],
)
def test_a_file_that_is_no_observation(tmp_path: Path, content: str | None, message: str) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    if content is not None:
        (tmp_path / "seen.json").write_text(content)
    with pytest.raises(TcreadyError) as caught:
        check(["model.py"], root=tmp_path, observations=["seen.json"])
    assert str(caught.value).startswith(message)


def test_an_observation_of_a_newer_tcready_is_refused(far: tuple[Path, str], tmp_path: Path) -> None:
    data = json.loads((far[0] / "seen.json").read_text()) | {"schema_version": 99}
    (tmp_path / "seen.json").write_text(json.dumps(data))
    (tmp_path / "model.py").write_text(MODEL)
    with pytest.raises(TcreadyError, match="newer tcready"):
        check(["model.py"], root=tmp_path, observations=["seen.json"])


def test_an_observation_stands_for_a_run(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    with pytest.raises(TcreadyError, match="replaces a run"):
        check(["model.py"], root=tmp_path, observations=["seen.json"], run=True)


def test_the_command_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], worker: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["worker", "-o", "carried.pyz"])
    assert ended.value.code == 0
    assert (tmp_path / "carried.pyz").read_bytes() == worker.read_bytes()
    assert capsys.readouterr().err.startswith("wrote carried.pyz; ")


@pytest.mark.slow
@pytest.mark.release
def test_what_it_measured_is_worked_out_here(worker: Path, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    target = ("--target", "model.py::Net", "--inputs", "model.py::example", "--bench", "--quick")
    arm = "captured=torch.compile(model, backend='eager')"
    done = travel(worker, tmp_path, *target, "--arm", arm, "--bench-budget", "1", "-o", "seen.json")
    assert done.returncode == 0, done.stderr
    seen = from_json(Observation, json.loads((tmp_path / "seen.json").read_text()))
    assert seen.bench is None
    assert seen.bench_run is not None
    assert [process.purpose for process in seen.bench_run.processes] == ["steady"]
    (target,) = check(["model.py"], root=tmp_path, observations=["seen.json"]).targets
    bench = target.observation.bench
    assert target.observation.bench_run is None
    assert bench is not None
    assert bench.verdict in ("inconclusive", "likely_regression", "likely_no_gain")  # of a few blocks
    assert "process" in bench.reason
    assert [arm.arm for arm in bench.cases[0].arms] == ["eager", "captured"]
    assert dict(bench.stack)["inputs"] == "model.py::example"
    assert bench.cut
    again = load(tmp_path / "seen.json")
    assert isinstance(again, Observation)
    assert again.bench is not None


@pytest.mark.parametrize(
    ("arm", "words"), [("patched", "apply the patch"), ("nope", "there is default"), ("x=(", "was never closed")]
)
def test_a_wrong_arm_is_told_before_anything_runs(worker: Path, tmp_path: Path, arm: str, words: str) -> None:
    done = travel(worker, tmp_path, "--target", "nowhere.py", "--bench", "--arm", arm)
    assert done.returncode == 2
    assert words in done.stderr
    assert not list(tmp_path.iterdir())
