"""What the tool says when it cannot do what was asked: one clear line, the failed stage, exit 2."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import fixture_markers
import pytest
from fixture_markers import BROKEN, MODELS, ROOT
from packaging.requirements import Requirement
from reading import PINNED

SECONDS = 30
"""Time limit of a run that hangs: enough to import torch on a busy machine of two cores."""


@dataclass(frozen=True)
class Result:
    exit_code: int
    stdout: str
    stderr: str
    report: dict[str, Any] | None

    @property
    def target(self) -> dict[str, Any]:
        assert self.report is not None, self.stderr
        (target,) = self.report["targets"]
        return target


def _check(*arguments: str, python: str = sys.executable, cwd: Path = ROOT, out: Path | None = None) -> Result:
    """`python -m tcready check`; with `out` the report is written there as JSON."""
    report = ["--output-format", "json", "-o", str(out)] if out else []
    done = subprocess.run(
        [python, "-m", "tcready", "check", *arguments, *report],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    written = json.loads(out.read_text(encoding="utf-8")) if out and out.exists() else None
    return Result(done.returncode, done.stdout, done.stderr, written)


def _shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "stage", "words"),
    [
        ("exits_at_import", "import", ["exit", "3"]),
        ("missing_import", "import", ["tcready_no_such_package"]),
        ("raises_in_forward", "eager", ["shapes cannot be multiplied"]),
        pytest.param("hangs", "eager", ["30"], marks=pytest.mark.release),
        ("segfaults", "eager", ["SIGSEGV"]),
    ],
)
def test_a_failed_run_names_its_stage_and_reason(name: str, stage: str, words: list[str], tmp_path: Path) -> None:
    file = _shown(BROKEN / f"{name}.py")
    result = _check(file, "--timeout", str(SECONDS), out=tmp_path / "report.json")
    assert result.exit_code == 2
    assert result.target["verdict"] == "unknown"
    stages = {each["stage"]: each for each in result.target["stages"]}
    assert [each["stage"] for each in stages.values() if each["state"] == "fail"] == [stage]
    detail = stages[stage]["detail"]
    assert "\n" not in detail
    for word in words:
        assert word in detail
    for earlier in ("parse", "import", "build"):
        if earlier == stage:
            break
        assert stages[earlier]["state"] == "pass"
    assert stages["capture"]["state"] == "not_run"


@pytest.mark.slow
def test_static_findings_of_a_file_whose_run_fails_are_reported(tmp_path: Path) -> None:
    result = _check(_shown(BROKEN / "exits_at_import.py"), out=tmp_path / "report.json")
    assert result.report is not None
    assert [(finding["rule"], finding["line"]) for finding in result.report["findings"]] == [("TCR201", 14)]


@pytest.mark.torch
def test_the_failed_stage_is_told_on_the_terminal() -> None:
    result = _check(_shown(BROKEN / "raises_in_forward.py"))
    assert result.exit_code == 2
    (line,) = [each for each in result.stdout.splitlines() if "shapes cannot be multiplied" in each]
    assert "eager" in line


@pytest.mark.torch
def test_a_model_that_prints_megabytes_is_judged_like_any_other(tmp_path: Path) -> None:
    result = _check(_shown(BROKEN / "prints_megabytes.py"), out=tmp_path / "report.json")
    assert result.exit_code == 1
    assert result.target["verdict"] == "not_ready"
    assert {each["state"] for each in result.target["stages"]} <= {"pass", "not_run"}
    assert {site["line"] for site in result.target["break_sites"]} <= {12, 13}
    assert result.target["break_sites"]


def test_a_syntax_error_does_not_hide_the_other_files(tmp_path: Path) -> None:
    bad, good = _shown(BROKEN / "syntax_error.py"), _shown(MODELS / "super_chain.py")
    result = _check(bad, good, "--no-run", out=tmp_path / "report.json")
    assert result.exit_code == 2
    assert result.report is not None
    ((path, reason),) = [(each["path"], each["reason"]) for each in result.report["skipped"]]
    assert path == bad
    assert "line 5" in reason
    assert "\n" not in reason
    assert {finding["path"] for finding in result.report["findings"]} == {good}


def test_a_syntax_error_is_one_line_on_the_terminal() -> None:
    bad = _shown(BROKEN / "syntax_error.py")
    result = _check(bad)
    assert result.exit_code == 2
    lines = [each for each in (result.stdout + result.stderr).splitlines() if bad in each]
    assert len(lines) == 1
    assert "5" in lines[0]


@pytest.mark.parametrize("arguments", [[], ["--no-run"]])
def test_a_missing_file_is_one_line(arguments: list[str]) -> None:
    result = _check("fixtures/models/no_such_model.py", *arguments)
    assert result.exit_code == 2
    (line,) = [each for each in result.stderr.splitlines() if each.strip()]
    assert "fixtures/models/no_such_model.py" in line


@pytest.mark.parametrize("arguments", [["--inputs", "fixtures/broken/no_such_class.py::example"], ["--no-run"]])
def test_a_class_that_does_not_exist_is_one_line(arguments: list[str]) -> None:
    result = _check("fixtures/broken/no_such_class.py::Absent", *arguments)
    assert result.exit_code == 2
    lines = [each for each in (result.stdout + result.stderr).splitlines() if "Absent" in each]
    assert len(lines) == 1
    assert "no_such_class.py" in lines[0]


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("nosuch.py", "no such file or folder"),
        ("other.py::Nope", "no 'Nope' in other.py; it has Model"),
        ("no_such_package.models::Model", "no module 'no_such_package.models' on the search path"),
    ],
)
def test_a_target_that_is_not_there_does_not_hide_the_others(
    missing: str, reason: str, jobs: str, tmp_path: Path
) -> None:
    model = dedent("""\
        import torch


        class Model(torch.nn.Module):
            def forward(self, x):
                print(x)
                return x
    """)
    for name in ("model.py", "other.py"):
        (tmp_path / name).write_text(model, encoding="utf-8")
    result = _check(missing, "model.py", "--jobs", jobs, cwd=tmp_path, out=tmp_path / "report.json")
    assert result.exit_code == 2
    assert result.report is not None
    assert [(f["rule"], f["path"]) for f in result.report["findings"]] == [("TCR301", "model.py")]
    ((skipped),) = result.report["skipped"]
    assert skipped["path"] == missing
    assert skipped["reason"].startswith(reason)
    assert f"{missing} cannot be judged: {reason}" in result.stderr


@pytest.mark.slow
def test_one_of_two_that_is_there_is_not_run_unasked(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    named = _shown(MODELS / "clean_dense_moe.py")
    result = _check("nosuch.py", named, out=tmp_path / "report.json")
    assert result.exit_code == 2
    assert result.target["coverage"] is None
    asked = _check("nosuch.py", named, "--run", out=tmp_path / "report.json")
    assert asked.exit_code == 2
    assert asked.target["coverage"]["ops_captured"] == asked.target["coverage"]["ops_total"] > 0


def test_if_nothing_that_was_named_is_there_it_is_one_line(tmp_path: Path) -> None:
    result = _check("nosuch.py", "neither.py::Model", cwd=tmp_path)
    assert (result.exit_code, result.stderr) == (2, "tcready: error: nosuch.py: no such file or folder\n")


def test_a_module_with_a_name_that_no_file_can_have_is_one_line(tmp_path: Path) -> None:
    """What is looked for below the working folder may be nothing that can be looked at."""
    (tmp_path / "part").mkdir()
    done = _check(f"part.{'a' * 300}::Model", "--no-run", cwd=tmp_path)
    assert done.exit_code == 2
    assert "no module" in done.stderr


def test_a_module_that_is_not_installed_is_one_line() -> None:
    result = _check("tcready_no_such_package.models::Net", "--no-run")
    assert result.exit_code == 2
    (line,) = [each for each in result.stderr.splitlines() if each.strip()]
    assert "tcready_no_such_package" in line


@pytest.fixture(scope="module")
def torchless(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that has tcready and what it needs, linked from this one, and no torch."""
    folder = tmp_path_factory.mktemp("torchless") / "env"
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    wanted, seen = ["tcready"], set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        # Not by name alone: the tree holds an egg-info that does not list what is installed.
        (distribution,) = importlib.metadata.distributions(name=name, path=[sysconfig.get_path("purelib")])
        needed = map(Requirement, distribution.requires or ())
        wanted += [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
        tops = {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}
        for top in tops:
            (site / top).symlink_to(str(distribution.locate_file(top)))
    python = str(folder / "bin" / "python")
    probe = "import importlib.util as u, tcready, libcst; print(u.find_spec('torch'))"
    assert subprocess.run([python, "-c", probe], capture_output=True, text=True, check=True).stdout == "None\n"
    return python


def test_without_torch_a_file_with_inputs_is_checked_statically(torchless: str, tmp_path: Path) -> None:
    result = _check(_shown(MODELS / "super_chain.py"), python=torchless, out=tmp_path / "report.json")
    assert result.exit_code == 1
    assert result.report is not None
    assert {(finding["rule"], finding["status"]) for finding in result.report["findings"]} == {("TCR101", "predicted")}
    (line,) = [each for each in result.stderr.splitlines() if each.strip()]
    assert "torch is not installed" in line


def test_without_torch_a_clean_file_exits_0(torchless: str, tmp_path: Path) -> None:
    result = _check(_shown(MODELS / "clean_vit.py"), python=torchless, out=tmp_path / "report.json")
    assert result.exit_code == 0
    assert result.target["verdict"] == "unknown"


def test_without_torch_a_run_that_was_asked_for_is_exit_2(torchless: str) -> None:
    model = _shown(MODELS / "clean_vit.py")
    result = _check(f"{model}::Model", "--inputs", f"{model}::get_inputs", python=torchless)
    assert result.exit_code == 2
    assert any("torch is not installed" in each for each in (result.stdout + result.stderr).splitlines())


def test_static_findings_do_not_depend_on_torch(torchless: str, tmp_path: Path) -> None:
    pinned = "{}.{}".format(*PINNED)
    result = _check(
        _shown(MODELS), "--no-run", f"--torch-version={pinned}", python=torchless, out=tmp_path / "report.json"
    )
    assert result.report is not None
    found = {
        (finding["path"], finding["line"], finding["rule"])
        for finding in result.report["findings"]
        if finding["origin"] == "own" and finding["confidence"] != "low"
    }
    marked = {
        (marker.path, marker.line, marker.code)
        for model in fixture_markers.models()
        for marker in fixture_markers.markers_of(model)
        if marker.status != "runtime_only"
    }
    assert found == marked
    assert result.exit_code == 1


def test_no_run_never_loads_torch() -> None:
    """A fresh interpreter that runs the whole command has neither torch nor numpy in its modules."""
    script = dedent("""\
            import sys
            from tcready.cli import main
            sys.argv = ['tcready', 'check', 'fixtures/models', '--no-run', '-o', sys.argv[1]]
            try:
                main()
            except SystemExit:
                pass
            print(sorted({'torch', 'numpy'} & set(sys.modules)))
        """)
    done = subprocess.run(
        [sys.executable, "-c", script, os.devnull], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_python_without_docstrings_is_refused_in_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-OO", "-m", "tcready", "rules"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "docstrings" in done.stderr


def test_what_python_parses_and_does_not_compile_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        dedent("""\
        import torch
        x = 1
        return x
    """)
    )
    result = _check("script.py", "--no-run", cwd=tmp_path)
    assert result.exit_code == 2
    assert "script.py: syntax error in line 3: 'return' outside function" in result.stdout


def test_links_to_files_of_the_project_are_read_and_others_are_named(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (project / "real", project / "links", outside):
        folder.mkdir(parents=True)
    source = dedent("""\
        from torch import nn


        class Net(nn.Module):
            def forward(self, x):
                return x + 1
    """)
    (project / "real" / "net.py").write_text(source)
    (outside / "theirs.py").write_text(source)
    (project / "links" / "own.py").symlink_to("../real/net.py")
    (project / "links" / "theirs.py").symlink_to(outside / "theirs.py")
    result = _check("links", "--no-run", cwd=project, out=tmp_path / "report.json")
    assert result.report is not None
    assert {Path(each["target"]).name.partition("::")[0] for each in result.report["targets"]} == {"net.py"}
    [line] = [line for line in result.report["warnings"] if "links" in line]
    assert line.endswith("lead out of what was named and of the project: links/theirs.py")
