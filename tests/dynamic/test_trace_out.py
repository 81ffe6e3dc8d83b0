"""Traces under real Dynamo: what a run leaves with `--trace-out`, and what a plain script leaves under TORCH_TRACE."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from commands import run
from observing import torch_between
from tcready import api
from tcready.schema.enums import TcreadyError
from tcready.schema.observation import Observation
from tcready.traces import read

pytestmark = pytest.mark.torch
MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0
        self.a = nn.Linear(8, 8)

    def forward(self, x):
        self.steps += 1
        x = self.a(x) * self.steps
        if x.sum() > 1e9:
            x = x + 1
        for row in (x, x + 1):
            x = x + gate(row)
        return x


def gate(x):
    print("gate")
    return torch.relu(x) + 1


def get_inputs():
    return [torch.ones(4, 8)]
"""
SCRIPT = """\
import torch
from model import Model, get_inputs

torch.manual_seed(0)
model = torch.compile(Model().eval(), backend="eager")
with torch.no_grad():
    for _ in range(3):
        model(*get_inputs())
"""


@dataclass(frozen=True)
class Made:
    """One run with its trace, and the trace of a script."""

    root: Path
    direct: Observation

    def traced(self, folder: str) -> Observation:
        (seen,) = read([folder], self.root).observations
        return seen


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    pytest.importorskip("torch")
    root = tmp_path_factory.mktemp("job").resolve()
    (root / "model.py").write_text(MODEL)
    (root / "train.py").write_text(SCRIPT)
    seen = api.observe("model.py::Model", root=root, trace_out="of_the_run")
    environment = {**os.environ, "TORCH_TRACE": str(root / "of_the_script"), "PYTHONHASHSEED": "0"}
    subprocess.run([sys.executable, "train.py"], cwd=root, env=environment, check=True, stdout=subprocess.DEVNULL)
    return Made(root, seen)


@torch_between((2, 12), (3, 0), "torch 2.11 logs no names of functions")
def test_the_trace_of_a_run_says_what_the_run_saw(made: Made) -> None:
    direct, traced = made.direct, made.traced("of_the_run")
    assert traced.target == direct.target
    assert [s.path for s in direct.break_sites] == ["model.py"] * len(direct.break_sites)
    assert len(direct.break_sites) >= 2
    for name in ("break_sites", "skipped_frames"):
        there, here = getattr(direct, name), getattr(traced, name)
        assert {(s.path, s.line, s.symbol, s.reason) for s in here} == {
            (s.path, s.line, s.symbol, s.reason) for s in there
        }
    actions = {(s.line, s.action, s.gb_ids, s.hints, s.stack) for s in direct.break_sites}
    assert {(s.line, s.action, s.gb_ids, s.hints, s.stack) for s in traced.break_sites} == actions
    assert {(r.path, r.line, r.symbol) for r in traced.recompiles} == {
        (r.path, r.line, r.symbol) for r in direct.recompiles
    }
    assert direct.recompiles
    times = {graph.compile_id: graph.compile_seconds for graph in traced.graphs}
    assert all(times[graph.compile_id] == graph.compile_seconds for graph in direct.graphs)
    assert all(seconds for seconds in times.values())


def test_the_trace_of_a_script_says_what_a_direct_run_shows(made: Made) -> None:
    direct, traced = made.direct, made.traced("of_the_script")
    assert traced.target == direct.target
    assert {(s.path, s.line, s.symbol, s.action, s.gb_ids, s.reason) for s in traced.break_sites} == {
        (s.path, s.line, s.symbol, s.action, s.gb_ids, s.reason) for s in direct.break_sites
    }
    for place, event in {(r.path, r.line, r.symbol): r for r in traced.recompiles}.items():
        (same,) = [r for r in direct.recompiles if (r.path, r.line, r.symbol) == place]
        assert set(event.reasons) <= set(same.reasons)
    assert {(g.compile_id, g.symbol, g.ops) for g in direct.graphs} <= {
        (g.compile_id, g.symbol, g.ops) for g in traced.graphs
    }
    report = api.check_trace("of_the_script", root=made.root)
    ran = api.check("model.py", root=made.root, run=False)
    predicted = {(f.rule, f.line) for f in ran.findings}
    confirmed = {(f.rule, f.line) for f in report.findings if f.status == "confirmed"}
    assert confirmed <= predicted
    assert {("TCR101", 14), ("TCR311", 12)} <= confirmed


def test_the_folder_of_a_trace_is_its_own(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made.root)
    assert run("check", "model.py", "--trace-out", "of_the_run") == 2
    assert run("check", "model.py", "--trace-out", "model.py/trace") == 2
    assert run("check", "model.py", "--trace-out", "new", "--no-run") == 2
    assert not Path("new").exists()
    with pytest.raises(TcreadyError, match="the folder is not empty"):
        api.check("model.py", root=made.root, trace_out="of_the_run")


def test_a_check_writes_the_timeline_of_its_run(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made.root)
    assert run("check", "model.py", "--timeline", "timeline.json", "--output-format", "json", "-o", "stored.json") == 1
    events = json.loads(Path("timeline.json").read_text())["traceEvents"]
    steps = [each for each in events if each["ph"] == "X"]
    whole = {each["name"].partition(" (")[0].partition(" ")[2] for each in steps if "step" in each["args"]}
    assert whole >= {"forward", "gate"}
    assert {each["cat"] for each in steps} >= {"dynamo", "aot_autograd"}
    assert min(each["ts"] for each in steps) == 0
    stored = Path("stored.json").read_text()
    assert "tcready-trace-" not in stored
    assert "--trace-out" not in stored


def test_a_timeline_of_no_run_is_refused_in_one_line(
    made: Made, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(made.root)
    Path("plain.py").write_text(MODEL.partition("def get_inputs")[0])
    for arguments, why in (
        (("model.py", "--no-run"), "remove --no-run"),
        (("plain.py",), "nothing was run, so there is no timeline"),
    ):
        assert run("check", *arguments, "--timeline", "none.json", "-q") == 2
        assert why in capsys.readouterr().err
    assert not Path("none.json").exists()


def test_tlparse_opens_the_trace_of_a_run(made: Made, tmp_path: Path) -> None:
    program = shutil.which("tlparse", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if program is None:
        pytest.skip("tlparse is not installed: it comes with the extra `test`")
    (file,) = (made.root / "of_the_run").iterdir()
    out = tmp_path / "pages"
    done = subprocess.run(
        [program, str(file), "-o", str(out), "--no-browser"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    page = (out / "index.html").read_text("utf-8")
    assert "model.py" in page
    assert list(out.rglob("dynamo_output_graph*"))
    assert list(out.rglob("dynamo_graph_break_reason*"))
