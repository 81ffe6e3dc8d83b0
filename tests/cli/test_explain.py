"""`tcready explain`: where it takes a finding from, and what it says if it cannot."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from textwrap import dedent

import pytest
from commands import run
from tcready import api
from tcready.pipeline import explanation
from tcready.schema.enums import TcreadyError

MANY = Path(__file__).resolve().parents[2] / "fixtures" / "many"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model of 18 findings, and a run of it that was made elsewhere."""
    for name in ("model.py", "seen.json"):
        shutil.copy(MANY / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def shown_at(line: int, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The short name that a check shows of the finding at that line."""
    run("check", "model.py", *arguments)
    (found,) = [text for text in capsys.readouterr().out.splitlines() if text.startswith(f"model.py:{line}:")]
    return found.rpartition(" ")[2]


def test_what_the_text_and_the_concise_format_show_is_taken(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = shown_at(41, capsys, "--no-run")
    assert shown_at(41, capsys, "--no-run", "--output-format", "concise") == name
    assert run("explain", name) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith("model.py:41:16: TCR101 error [data-dependent-if]")
    for words in ("why:", "use instead:", "predicted; no run", "`tcready rule TCR101`"):
        assert words in said.out
    assert run("explain", name, "model.py::Model") == 0
    assert capsys.readouterr().out == said.out
    assert run("explain", name[:5].upper(), "model.py") == 0
    assert capsys.readouterr().out == said.out


def test_a_stored_report_tells_what_its_run_showed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("check", "model.py", "--observation", "seen.json", "--no-cache", "-o", "r.json", "--output-format", "json")
    run("check", "model.py", "--observation", "seen.json", "--no-cache", "-o", "t.txt", "--html", "page.html")
    capsys.readouterr()
    finding = next(f for f in json.loads(Path("r.json").read_text())["findings"] if f["line"] == 41)
    (project / "model.py").unlink()
    told = []
    for file in ("r.json", "page.html"):
        assert run("explain", finding["fingerprint"], file) == 0
        told.append(capsys.readouterr().out)
        assert "confirmed by Dynamo: GB0170" in told[-1]
        assert "cost:" in told[-1]
    assert told[0] == told[1]


def test_without_a_place_it_is_the_last_run_as_long_as_the_code_is_the_same(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = shown_at(41, capsys, "--observation", "seen.json")
    run("check", "model.py", "--no-run")
    capsys.readouterr()
    assert run("explain", name) == 0
    assert "confirmed by Dynamo: GB0170" in capsys.readouterr().out
    model = project / "model.py"
    model.write_text("# moved by a line\n" + model.read_text())
    assert run("explain", name) == 0
    said = capsys.readouterr()
    assert said.out.startswith("model.py:42:16: TCR101")
    assert "predicted; no run" in said.out
    model.write_text("# nothing is left of it\n")
    assert run("explain", name) == 0
    said = capsys.readouterr()
    assert said.err == "model.py has changed since: this is what the last run here showed\n"
    assert said.out.startswith("model.py:41:16: TCR101")
    shutil.rmtree(project / ".tcready_cache")
    assert run("explain", name) == 2


def test_what_stands_in_no_part_of_the_folder_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A class of a package, which a reading of the folder does not come by."""
    package = tmp_path / "site-packages" / "acme"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    shutil.copy(MANY / "model.py", package)
    monkeypatch.syspath_prepend(str(package.parent))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    run("check", "acme.model::Model", "--no-run", "--output-format", "concise")
    line = capsys.readouterr().out.splitlines()[0]
    assert run("explain", line.rpartition(" ")[2]) == 0
    said = capsys.readouterr()
    assert (said.out.partition(" ")[0], said.err) == (line.partition(" ")[0], "")
    assert run("explain", line.rpartition(" ")[2], "acme.model::Model") == 0
    assert capsys.readouterr().out == said.out


NAMED = """
from torch import nn


class Good(nn.Module):
    def forward(self, x):
        return x + 1


class Bad(nn.Module):
    def forward(self, x):
        return x * x.sum().item()


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.part = Bad() if size else Good()

    def forward(self, x):
        return self.part(x)


class Sure(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Bad()

    def forward(self, x):
        return self.part(x)
"""


def test_a_model_that_was_named_is_explained_as_it_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reading its file tells the finding for another reason; what was checked last counts."""
    (tmp_path / "net.py").write_text(NAMED)
    monkeypatch.chdir(tmp_path)
    told = {}
    for target in ("net.py", "net.py::Net", ".", "net.py::Bad"):
        run("check", target, "--no-run", "--output-format", "concise")
        name = capsys.readouterr().out.splitlines()[0].rpartition(" ")[2]
        assert run("explain", name) == 0
        told[target] = capsys.readouterr().out
        assert run("explain", name, target) == 0
        assert capsys.readouterr().out == told[target]
    assert told["net.py"] == told["."] != told["net.py::Net"]


def test_a_check_without_a_cache_keeps_no_run(project: Path) -> None:
    run("check", "model.py", "--observation", "seen.json", "--no-cache")
    assert not (project / ".tcready_cache").exists()
    assert explanation.stored_report(project) is None
    run("check", "model.py", "--no-run")
    assert explanation.stored_report(project) is None, "what the source says is soon read again"


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff\xfe", b"x" * 64 + b"\n{}"])
def test_a_run_whose_report_was_damaged_counts_as_none(project: Path, damage: bytes) -> None:
    run("check", "model.py", "--observation", "seen.json")
    assert explanation.stored_report(project) is not None
    for file in (project / ".tcready_cache").glob("*.json"):
        file.write_bytes(damage)
    assert explanation.stored_report(project) is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["1234567"], "there is no finding 1234567 in the last run here or in this folder: name the report"),
        (["1234567", "model.py"], "there is no finding 1234567 in model.py, as far as the source shows"),
        (["1234567", "r.json"], "there is no finding 1234567 in r.json"),
        (["1", "r.json", "model.py"], "r.json is a report and model.py a target"),
        (["1", "absent.json"], "absent.json: No such file"),
        (["1", "absent.py"], "absent.py"),
        (["TCR101"], "'TCR101' is not the ID of a finding"),
        ([""], "'' is not the ID of a finding"),
        (["-2"], "no such option"),
        (["f", "model.py"], "f is the beginning of f21694a (model.py:44), f734e3d (model.py:22)"),
    ],
)
def test_what_names_no_finding_is_one_line_and_exit_2(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    run("check", "model.py", "--no-run", "-o", "r.json", "--output-format", "json")
    capsys.readouterr()
    assert run("explain", *arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert words.lower() in said.err.lower()


def test_a_name_of_what_a_finding_is_told_for_finds_it(project: Path) -> None:
    (project / "two.py").write_text(
        dedent("""\
            from torch import nn


            class Net(nn.Module):
                def forward(self, x):
                    return x.sum().item() + x.mean().item()
        """)
    )
    report = api.check("two.py", root=project, run=False)
    (finding,) = report.findings
    (other,) = finding.also
    assert api.explain(other[:7], ["two.py"], root=project)[1] == finding
    with pytest.raises(TcreadyError, match="no finding"):
        api.explain("0000", ["two.py"], root=project)


def test_a_report_that_is_shown_again_names_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it says of `tcready explain` works: the last run here may be another."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(MANY / "model.py", "model.py")
    assert run("check", "model.py", "--no-run", "--output-format", "json", "-o", "a report.json") == 1
    capsys.readouterr()
    run("report", "a report.json")
    told = re.search(r"`tcready (explain \S+ 'a report.json')` explains", capsys.readouterr().out)
    assert told is not None
    assert run(*shlex.split(told[1])) == 0


def test_what_is_asked_of_a_run_and_had_none_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text("def forward(x):\n    return x + 1\n")
    run("check", "model.py", "--plan", "--shapes")
    assert "nothing was run, so --shapes, --plan did nothing: --run or --inputs" in capsys.readouterr().err
