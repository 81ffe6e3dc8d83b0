"""When `check` runs what, and what one real run through both halves gives.

An interpreter that ends at once shows cheaply that a run was due: its target is `unknown` and the exit 2.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from textwrap import dedent

import jsonschema
import pytest
import tcready
from tcready.api import check, exit_code, observe, render
from tcready.schema.codec import as_json, from_json
from tcready.schema.enums import TcreadyError
from tcready.schema.progress import Progress
from tcready.schema.report import Report

MODEL = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x + 1
"""
GIVES = MODEL + "\n\ndef get_inputs():\n    return []\n"
ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "fixtures" / "report.schema.json"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "bare.py").write_text(MODEL)
    (tmp_path / "gives.py").write_text(GIVES)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    (tmp_path / "pkg" / "mod.py").write_text(GIVES)
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "bare.py").write_text(MODEL)
    return tmp_path


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that ends at once."""
    path = tmp_path_factory.mktemp("ends") / "python"
    path.write_text("#!/bin/sh\nexit 3\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("targets", "options", "due"),
    [
        (["gives.py"], {}, ["gives.py::Net with get_inputs()"]),
        (["gives.py::Net"], {}, ["gives.py::Net with get_inputs()"]),
        (["pkg.mod::Net"], {}, ["pkg.mod::Net with get_inputs()"]),
        (["bare.py"], {}, []),
        (["bare.py::Net"], {"inputs": "gives.py::get_inputs"}, ["bare.py::Net with inputs from gives.py::get_inputs"]),
        (["gives.py", "bare.py"], {}, []),
        (["."], {}, []),
        (["gives.py"], {"run": False}, []),
        (["."], {"run": True}, ["gives.py::Net with get_inputs()", "pkg/mod.py::Net with get_inputs()"]),
        (["pkg", "gives.py"], {"run": True}, ["pkg/mod.py::Net with get_inputs()", "gives.py::Net with get_inputs()"]),
        (["bare.py"], {"run": True}, ["bare.py::Net with made-up inputs"]),
    ],
)
def test_what_is_due_is_announced_and_run(
    root: Path, ends: str, targets: list[str], options: dict[str, str], due: list[str]
) -> None:
    told: list[str] = []
    report = check(targets, root=root, python=ends, announce=told.append, **options)  # type: ignore[arg-type]
    assert told == [f"running {each}" for each in due]
    assert exit_code(report) == (2 if due else 0)


def test_a_folder_that_gives_no_inputs_cannot_establish_the_run_asked_for(root: Path) -> None:
    report = check(["none"], root=root, run=True)
    assert exit_code(report) == 2
    target = next(target for target in report.targets if target.target == "none")
    assert "get_inputs()" in next(stage.detail for stage in target.stages if stage.state == "fail")


@pytest.fixture(scope="module")
def torchless(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter without torch, or anything else."""
    folder = tmp_path_factory.mktemp("torchless")
    venv.create(folder, with_pip=False, symlinks=True)
    return str(folder / "bin" / "python")


def test_without_torch_an_inferred_run_is_a_warning_and_one_asked_for_a_failure(root: Path, torchless: str) -> None:
    told: list[str] = []
    inferred = check(["gives.py"], root=root, python=torchless, announce=told.append)
    assert exit_code(inferred) == 0
    assert [w for w in inferred.warnings if "torch is not installed" in w] == told[1:] != []
    asked = check(["gives.py"], root=root, python=torchless, run=True)
    assert exit_code(asked) == 2
    (target,) = asked.targets
    failed = next(stage for stage in target.stages if stage.state == "fail")
    assert (failed.stage, "torch is not installed" in failed.detail) == ("import", True)


@pytest.mark.parametrize(
    ("targets", "options", "words"),
    [
        (["absent.py"], {}, "absent.py"),
        (["bare.py::Absent"], {}, "Absent"),
        (["bare.py"], {"inputs": "gives.py::get_inputs", "run": False}, "--no-run"),
        (["bare.py", "gives.py"], {"inputs": "gives.py::get_inputs"}, "one target"),
        (["."], {"inputs": "gives.py::get_inputs"}, "one target"),
        (["gives.py"], {"python": "no-such-python"}, "no-such-python"),
    ],
)
def test_what_the_caller_can_mend_is_raised(
    root: Path, targets: list[str], options: dict[str, str], words: str
) -> None:
    with pytest.raises(TcreadyError, match=words):
        check(targets, root=root, **options)  # type: ignore[arg-type]


def test_the_public_face_is_what_the_package_names() -> None:
    assert tcready.check is check
    assert tcready.observe is observe
    assert tcready.Report is Report
    assert set(tcready.__all__) <= set(dir(tcready))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = tcready.no_such_name


BOTH_HALVES = """\
import torch
from torch import nn

import dependency


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.fc(x)) + torch.tanh(x).sigmoid().exp()


class Model(nn.Module):
    def __init__(self, threshold=0.0):
        super().__init__()
        self.inner = Inner()
        self.threshold = threshold

    def forward(self, x):
        x = self.inner(x)
        if x.sum() > 1e9:
            return x.item()
        x = dependency.shown(x)
        if x.mean() > self.threshold:
            x = x + 1
        return x


def get_inputs():
    return [torch.ones(2, 4)]
"""
DEPENDENCY = """\
def shown(x):
    getattr(__builtins__, "print", None) or __builtins__["print"]("shape", x.shape)
    return x
"""


@pytest.mark.torch
def test_one_run_through_both_halves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own breaks predicted and confirmed, a third party's seen in the run alone, its source in the report."""
    packages = tmp_path / "elsewhere" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "dependency.py").write_text(DEPENDENCY)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "model.py").write_text(BOTH_HALVES)
    monkeypatch.setenv("PYTHONPATH", str(packages))
    notes: list[Progress] = []
    report = check(["model.py"], root=tmp_path / "work", progress=notes.append)
    assert notes
    by_line = {(f.path, f.line): f for f in report.findings}
    statuses = {place: (f.rule, f.status, f.level, f.origin) for place, f in by_line.items()}
    assert statuses["model.py", 24] == ("TCR101", "confirmed", "error", "own")
    assert statuses["model.py", 27] == ("TCR101", "confirmed", "error", "own")
    assert by_line["model.py", 25].status == "not_reached"
    assert statuses["dependency.py", 2] == (None, "runtime_only", "error", "third_party")
    assert {source.path for source in report.sources} == {"model.py", "dependency.py"}
    assert any(line.speaker == "dynamo" for line in by_line["model.py", 24].evidence)
    (target,) = report.targets
    assert (target.target, target.verdict) == ("model.py::Model", "ready_by_region")
    assert [(r.name, r.code) for r in target.regions] == [("inner", "model.inner.compile()")]
    assert exit_code(report) == 1
    predicted = check(["model.py"], root=tmp_path / "work", run=False).findings
    assert {f.fingerprint for f in predicted} == {f.fingerprint for f in report.findings if f.rule}
    jsonschema.validate(as_json(report), json.loads(SCHEMA.read_text()))
    assert from_json(Report, json.loads(render(report, "json"))) == report


DIES = """\
import os

import torch
from torch import nn

CALLS = 0


@torch.compiler.disable
def die():
    global CALLS
    CALLS += 1
    if CALLS > 2:
        os._exit(7)


class Model(nn.Module):
    def forward(self, x):
        die()
        return x + 1


def get_inputs():
    return [torch.ones(2)]
"""


@pytest.mark.torch
def test_over_both_modes_the_target_is_run_in_each(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        dedent("""\
            import torch
            from torch import nn


            class Model(nn.Module):
                def forward(self, x):
                    if self.training:
                        print(1)
                    return x + 1 if x.sum() > 0 else x


            def get_inputs():
                return [torch.ones(2)]
        """)
    )
    announced: list[str] = []
    report = check(["model.py"], mode="both", root=tmp_path, announce=announced.append)
    assert announced == [
        "running model.py::Model with get_inputs() in inference mode",
        "running model.py::Model with get_inputs() in training mode",
    ]
    assert report.warnings == ()
    assert [target.mode for target in report.targets] == ["infer", "train"]
    assert [(f.rule, f.modes, f.status) for f in report.findings] == [
        ("TCR301", ("train",), "confirmed"),
        ("TCR104", ("infer", "train"), "confirmed"),
    ]
    prints, branches = report.findings
    assert [(t.mode, t.status) for t in prints.targets] == [("infer", "predicted"), ("train", "confirmed")]
    assert [(t.mode, t.status) for t in branches.targets] == [("infer", "confirmed"), ("train", "confirmed")]
    assert any(line.text.endswith("in training mode only") for line in prints.evidence)
    assert not any("mode only" in line.text for line in branches.evidence)
    infer, train = report.targets
    assert (len(infer.break_sites), len(train.break_sites)) == (1, 2)


@pytest.mark.torch
def test_a_process_that_dies_while_it_is_captured_says_nothing_of_compiling(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text(DIES)
    report = check(["dies.py"], root=tmp_path)
    target = report.targets[0]
    failed = next(stage for stage in target.stages if stage.state == "fail")
    assert (failed.stage, target.verdict, exit_code(report)) == ("capture", "unknown", 2)


def test_the_example_of_the_package_runs_as_it_stands(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    (root / "src").mkdir()
    (root / "src" / "model.py").write_text(MODEL.replace("return x + 1", "return x if x.sum() > 0 else -x"))
    exec(_example(), {})
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("src/model.py:6: TCR104 ")
    assert last == "1"
    assert tcready.load("report.html") == check(["src/model.py"], run=False)


def _example() -> str:
    """The indented lines of the package's docstring."""
    assert tcready.__doc__ is not None
    lines = tcready.__doc__.split("\n")
    return "\n".join(line[4:] for line in lines if line.startswith("    "))


CONSUMER = """\
from collections.abc import Mapping

import tcready
from tcready import Comparison, Finding, Observation, Report, TargetReport, TcreadyError, check, compare, load


def worst(report: Report) -> list[tuple[str, int, str | None]]:
    found: tuple[Finding, ...] = report.findings
    return [(finding.path, finding.line, finding.rule) for finding in found if finding.level == "error"]


def shares(targets: tuple[TargetReport, ...]) -> Mapping[str, float]:
    return {target.target: target.coverage.share for target in targets if target.coverage is not None}


def since(old: str, model: str) -> Comparison | None:
    before = load(old)
    try:
        after = check([model], run=False, baseline=None, diff_base="main")
    except TcreadyError:
        return None
    return compare(before, after) if isinstance(before, Report) else None


seen: Observation = tcready.observe("model.py::Net", mode="train", timeout=60.0)
text: str = tcready.render(check(["model.py"]), "markdown", third_party=True)
code: int = tcready.exit_code(check("model.py"), fail_on="note")
check("model.py", run="yes")  # type: ignore[call-overload]
check("model.py", devise="cuda")  # type: ignore[call-overload]
check("model.py", timeout="long")  # type: ignore[call-overload]
verdict: str = check(print, (1,), mode="train", plan=True).verdict
check("model.py", device="cuda", torch_version="2.11", ignore=["TCR5"], per_file_ignores={"tests/*": ["TCR"]})
tcready.observe("model.py::Net", mode="both")  # type: ignore[arg-type]
"""


def test_a_program_that_uses_the_package_is_checked_strictly(tmp_path: Path) -> None:
    """With what a user's type checker sees of an installed package: `py.typed` and the annotations."""
    pytest.importorskip("mypy")
    package = tmp_path / "site" / "tcready"
    package.mkdir(parents=True)
    for name in ("__init__.py", "api.py", "config", "pipeline", "portable", "schema", "py.typed"):
        (package / name).symlink_to(ROOT / "analyzer" / name)
    (package / "reports").symlink_to(ROOT / "reports")
    (tmp_path / "consumer.py").write_text(CONSUMER)
    (tmp_path / "mypy.ini").write_text(
        dedent("""\
        [mypy]
        [mypy-tcready.*]
        follow_imports = silent
    """)
    )  # as if installed
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", "mypy.ini", "consumer.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "Success: no issues found in 1 source file\n", done.stdout
