"""What a baseline hides: findings that were there, however the code around them moved or was laid out anew."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from fixture_markers import ROOT
from tcready.api import check
from tcready.cli import main
from tcready.merge import merge
from tcready.pipeline import baseline as baselines
from tcready.schema.codec import as_json
from tcready.schema.enums import TcreadyError
from tcready.schema.observation import Observation, Stage
from tcready.schema.report import Narrowed, Report, Tool
from tcready.schema.run import BreakSite, LineSet
from tcready.schema.static import Finding, SourceText, StaticResult
from tcready.source.fingerprint import spelled

NET = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x, y):
        if x.sum() > 0:
            x = x + 1
        z = x.max().item() + y.min().item()
        return x * z
"""
OTHER = NET.replace("Net", "Other")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "other.py").write_text(OTHER)
    monkeypatch.chdir(tmp_path)
    assert run("--write-baseline", "known.json") == 0
    return tmp_path


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["check", "--no-run", "-q", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def new(*targets: str, **options: object) -> tuple[tuple[Finding, ...], Narrowed]:
    report = check(targets or ["."], run=False, baseline="known.json", **options)  # type: ignore[arg-type]
    assert report.narrowed is not None
    return report.findings, report.narrowed


def reformat(folder: Path, *settings: str) -> None:
    options = [word for setting in settings for word in ("--config", setting)]
    subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--isolated", "--no-cache", "-q", *options, "."],
        cwd=folder,
        check=True,
    )


def test_every_finding_of_the_fixture_models_survives_reformatting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "fixtures" / "models", tmp_path / "models")
    (tmp_path / "models" / "net.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    before = check(["."], run=False, write_baseline="known.json").findings
    assert len(before) > 40
    assert any(found.also for found in before), "one line with two findings of a rule"
    for settings in (
        ("line-length=30", "format.quote-style='single'"),
        ("line-length=320", "format.skip-magic-trailing-comma=true", "format.quote-style='double'"),
    ):
        for path in (tmp_path / "models").rglob("*.py"):
            path.write_text(f"# one more line\n\n{path.read_text()}")
        reformat(tmp_path, *settings)
        after = check(["."], run=False).findings
        assert [found.line for found in after] != [found.line for found in before]
        assert new() == ((), Narrowed("known.json", known=len(after)))
    split = [found for found in check(["models/net.py"], run=False).findings if found.rule == "TCR201"]
    assert len(split) == 1
    reformat(tmp_path, "line-length=20")
    assert len([f for f in check(["models/net.py"], run=False).findings if f.rule == "TCR201"]) == 2
    assert new("models/net.py")[0] == ()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("u'a'", '"a"', True),
        ("'a' 'b'", "'ab'", True),
        ("f'a{x}' 'b'", 'f"a{x}b"', True),
        ("0XfF + 1_0", "255 + 10", True),
        ("f((x), *(y),)", "f(x,*y)", True),
        ("if x:\n  y", "if (x): z", True),
        (
            "@d\ndef f(x): y",
            dedent("""\
            @d
            def f(
              x,
            ): z"""),
            True,
        ),
        ("x - y", "y - x", False),
        ("f(x)", "f(x, None)", False),
        ("f(None)", "f('None')", False),
        ("f(x=1)", "f(y=1)", False),
        ("x[0]", "x['0']", False),
        ("f'a{x}'", "f'a{x!r}'", False),
        ("if x: y", "while x: y", False),
    ],
)
def test_what_a_piece_of_code_is(one: str, other: str, same: bool) -> None:
    assert (spelled(ast.parse(one).body[0]) == spelled(ast.parse(other).body[0])) is same


@pytest.mark.parametrize(
    "changed",
    [
        NET.replace("x.sum() > 0", "((x.sum())>0x0)"),
        NET.replace("x.sum() > 0:", "x.sum() > 0:  # why"),
        NET.replace(
            "x.max().item() + y.min().item()",
            dedent("""\
            (
                x.max()
                .item()
                + y.min().item(
                ))"""),
        ),
    ],
)
def test_layout_and_spelling_are_no_part_of_a_finding(project: Path, changed: str) -> None:
    (project / "net.py").write_text("import os\n" + changed)
    assert new()[0] == ()


@pytest.mark.parametrize(
    ("changed", "lines"),
    [
        (NET.replace("x.sum() > 0", "x.sum() > 1"), [6]),
        (NET.replace("x * z", "x.max().item() + x * z"), [9]),  # equal code: the last of them is the new one
        (NET.replace("y.min().item()", "x.min().item()"), [8]),  # the line's first is known, its second is not
        (NET.replace("Net", "Renamed"), [6, 8]),
    ],
)
def test_what_is_new_is_told_and_fails(project: Path, changed: str, lines: list[int]) -> None:
    (project / "net.py").write_text(changed)
    assert [found.line for found in new()[0]] == lines
    assert run("--baseline", "known.json") == 1


def test_a_renamed_file_holds_other_findings(project: Path) -> None:
    (project / "net.py").rename(project / "renamed.py")
    found, said = new()
    assert {f.path for f in found} == {"renamed.py"}
    assert said.gone == 3


def test_the_exit_and_the_outputs_are_of_what_is_new(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("net.py", "other.py") == 1
    capsys.readouterr()
    assert run("--baseline", "known.json") == 0
    out = capsys.readouterr().out
    assert "TCR" not in out
    assert "4 findings known from known.json" in " ".join(out.split())
    assert run("--baseline", "known.json", "--output-format", "markdown") == 0
    assert "4 findings known from" in capsys.readouterr().out
    (project / "bad.py").write_text("import torch\ndef f(:\n")
    assert run("--baseline", "known.json") == 2
    assert run("--write-baseline", "again.json") == 2
    assert (project / "again.json").read_bytes() == (project / "known.json").read_bytes()


def test_the_file_is_stable_and_one_line_is_one_finding(project: Path) -> None:
    text = (project / "known.json").read_text()
    assert run("--write-baseline", "known.json", "other.py", "net.py") == 0
    assert (project / "known.json").read_text() == text
    (project / "net.py").write_text("\n\n" + NET)
    assert run("--write-baseline", "known.json") == 0
    assert (project / "known.json").read_text() == text
    data = json.loads(text)
    assert data["tcready_baseline"] == 1
    assert [entry["path"] for entry in data["findings"]] == ["net.py"] * 3 + ["other.py"] * 3
    assert all(json.dumps(entry) in text.splitlines()[n + 3] for n, entry in enumerate(data["findings"]))
    assert baselines.parse_baseline(text, "") == baselines.parse_baseline(
        baselines.format_baseline(baselines.parse_baseline(text, "")), ""
    )
    assert baselines.parse_baseline(baselines.format_baseline(baselines.Baseline()), "") == baselines.Baseline()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "--write-baseline bad.json"),
        ("{", "bad.json"),
        ("[" * 100_000, "bad.json"),
        ("[]", "tcready_baseline"),
        ('{"tcready_baseline": 2, "findings": []}', "newer tcready"),
        ('{"tcready_baseline": 0, "findings": []}', "no version 0"),
        ('{"tcready_baseline": -1, "findings": []}', "no version -1"),
        ('{"tcready_baseline": 1, "findings": [], "readings": [{"mode": "x"}]}', "Reading.mode"),
        ('{"tcready_baseline": 1, "findings": [], "runs": ["x"]}', "runs"),
        ('{"tcready_baseline": 1}', "findings"),
        ('{"tcready_baseline": 1, "findings": [{"path": "a.py"}]}', "entry 1"),
        (b"\xff\xfe", "bad.json"),
    ],
)
def test_a_file_that_is_no_baseline_is_one_line_and_exit_2(
    project: Path, capsys: pytest.CaptureFixture[str], text: str | bytes | None, words: str
) -> None:
    if text is not None:
        (project / "bad.json").write_bytes(text.encode() if isinstance(text, str) else text)
    assert run("--baseline", "bad.json") == 2
    told = capsys.readouterr()
    assert (told.out, len(told.err.splitlines())) == ("", 1)
    assert words in told.err
    assert "bad.json" in told.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_or_device_that_the_project_names_is_no_baseline_and_holds_nothing_up(project: Path) -> None:
    """One that never answers or never ends would hold up whoever checks somebody's project, and their editor."""
    os.mkfifo(project / "pipe")
    for name in ("pipe", "/dev/zero", "/dev/stdin"):
        (project / "pyproject.toml").write_text(f'[tool.tcready]\nbaseline = "{name}"\n')
        command = [sys.executable, "-m", "tcready", "check", ".", "--no-run"]
        found = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=30, stdin=subprocess.PIPE)
        assert (found.returncode, found.stdout) == (2, "")
        assert found.stderr == f"tcready: error: --baseline {name}: Not a regular file\n"


def test_gone_are_entries_that_this_check_could_have_told_of(project: Path) -> None:
    mended = NET.replace("x.sum() > 0", "self.training")
    (project / "net.py").write_text(mended)
    assert new()[1].gone == 1
    assert new("net.py")[1].gone == 1
    assert new("other.py")[1].gone == 0, "another file"
    assert new("net.py::Net")[1].gone == 0, "a part of the file"
    assert new(ignore=["tcr1"])[1].gone == 0
    assert new(select=["TCR2"])[1].gone == 0
    (project / "net.py").write_text("def f(:\n")
    assert new()[1].gone == 0, "it could not be read"
    (project / "net.py").unlink()
    assert new()[1].gone == 3
    assert new("other.py")[1].gone == 0


def test_written_anew_over_some_files_a_baseline_keeps_the_others(project: Path) -> None:
    (project / "net.py").write_text(NET.replace("x.sum() > 0", "x.sum() > 1"))
    before = baselines.parse_baseline((project / "known.json").read_text(), "").entries
    assert run("--baseline", "known.json", "--write-baseline", "known.json", "net.py") == 0
    after = baselines.parse_baseline((project / "known.json").read_text(), "").entries
    assert {e for e in before if e.path == "other.py"} == {e for e in after if e.path == "other.py"}
    assert len(before) == len(after)
    assert new() == ((), Narrowed("known.json", known=4))


TRAINED = NET.replace("x.sum() > 0", "self.training and x.sum() > 0")


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        (TRAINED, ["--mode", "train"], ["--mode", "infer"]),
        (TRAINED, ["--mode", "both"], ["--mode", "infer"]),
        (NET, [], ["--plain-call"]),
        (NET, ["--torch-version", "2.11"], ["--torch-version", "2.13"]),
        (NET, ["--low"], []),
    ],
)
def test_a_check_that_reads_otherwise_keeps_what_it_cannot_find(
    project: Path, text: str, before: list[str], after: list[str]
) -> None:
    (project / "other.py").unlink()
    (project / "net.py").write_text(text)
    assert run("--write-baseline", "known.json", *before) == 0
    held = {entry["fingerprint"] for entry in json.loads((project / "known.json").read_text())["findings"]}
    assert len(held) == 3
    both = ["--baseline", "known.json", "--write-baseline", "known.json"]
    if text == NET:  # nothing here depends on it: what is mended is kept all the same
        (project / "net.py").write_text(NET.replace("x.sum() > 0", "self.training"))
    for _ in range(2):  # the second is held against what the first has written
        run(*both, *after, "-o", "out.json", "--output-format", "json")
        said = json.loads((project / "out.json").read_text())["narrowed"]
        assert (said["gone"], said["known"]) == (0, 1)
        data = json.loads((project / "known.json").read_text())
        assert {entry["fingerprint"] for entry in data["findings"]} == held
    (project / "net.py").write_text(text)
    assert run("--baseline", "known.json", *before) == 0
    (project / "net.py").write_text(NET.replace("x.sum() > 0", "self.training"))
    assert run("--write-baseline", "known.json", *before) == 0
    assert len(baselines.parse_baseline((project / "known.json").read_text(), "").entries) == 2


def test_what_a_comment_hides_is_not_gone(project: Path) -> None:
    (project / "net.py").write_text(NET.replace("x.sum() > 0:", "x.sum() > 0:  # noqa: TCR101"))
    assert new()[1].gone == 0
    assert run("--baseline", "known.json", "--write-baseline", "known.json") == 0
    (project / "net.py").write_text(NET)
    assert run("--baseline", "known.json") == 0


def test_a_baseline_of_before_and_with_a_byte_order_mark(project: Path) -> None:
    data = json.loads((project / "known.json").read_text())
    assert data.pop("readings")[0]["mode"] == "infer"
    data.pop("runs")
    (project / "known.json").write_text("\ufeff" + json.dumps(data), encoding="utf-8")
    assert run("--baseline", "known.json") == 0
    (project / "net.py").write_text(NET.replace("x.sum() > 0", "self.training"))
    assert new(mode="train")[1].gone == 1, "it does not say how it was read: the same is taken"


def test_a_file_to_write_is_refused_before_anything_is_read(project: Path) -> None:
    assert run("--write-baseline", "absent/known.json") == 2
    assert run("--write-baseline", "same.json", "-o", "same.json") == 2
    assert not (project / "same.json").exists()


# What only a run showed


def _seen(text: str, *lines: int, slug: str = "Unsupported: thing") -> Report:
    site = BreakSite("net.py", 6, "Net.forward", slug, "GB0001", 1, "own", ())
    run = Observation(
        target="net.py::Net",
        convention=None,
        mode="infer",
        stages=(Stage("parse", "pass", ""), Stage("capture", "pass", "")),
        environment={},
        break_sites=tuple(dataclasses.replace(site, line=line) for line in lines),
    )
    source = SourceText("net.py", "0" * 64, text)
    return merge(StaticResult((), (), (source,), (), (), {}), [run], {}, Tool("tcready", "0"))


def test_what_a_run_in_training_showed_is_kept_by_a_run_in_inference(project: Path) -> None:
    seen = Observation(
        target="net.py::Net",
        convention=None,
        mode="train",
        stages=(Stage("parse", "pass", ""), Stage("capture", "pass", "")),
        environment={},
        break_sites=(BreakSite("net.py", 9, "Net.forward", "Unsupported: thing", "GB0001", 1, "own", ()),),
        executed=(LineSet("net.py", ((5, 9),)),),
    )
    (project / "run.json").write_text(json.dumps(as_json(seen)))
    quiet = dataclasses.replace(seen, mode="infer", break_sites=())
    (project / "infer.json").write_text(json.dumps(as_json(quiet)))
    (project / "train.json").write_text(json.dumps(as_json(dataclasses.replace(quiet, mode="train"))))
    check(["."], observations=["run.json"], write_baseline="known.json")
    before = baselines.parse_baseline((project / "known.json").read_text(), "")
    assert (len(before.entries), before.runs) == (7, ("train",))

    def again(*files: str) -> tuple[int, int]:
        report = check(["."], observations=files, baseline="known.json", write_baseline="known.json")
        assert report.narrowed is not None
        return report.narrowed.gone, len(baselines.parse_baseline((project / "known.json").read_text(), "").entries)

    assert again("infer.json") == (0, 7)
    assert again("train.json") == (0, 7), "now it takes both"
    assert again("infer.json", "train.json") == (1, 6)


def test_what_only_a_run_showed_survives_reformatting_too(tmp_path: Path) -> None:
    one = NET.replace("x = x + 1", 'thing(x, {"a": 1}, [x, y])')
    (tmp_path / "net.py").write_text(one)
    reformat(tmp_path, "line-length=20", "format.quote-style='single'")
    many = (tmp_path / "net.py").read_text()
    line = next(n for n, text in enumerate(many.splitlines(), 1) if "'a'" in text)
    assert line > 8
    known = baselines.entries(_seen(one, 7))
    moved = baselines.without_known(_seen(many, line), known, "known.json", lambda _: True)
    assert (moved.findings, moved.narrowed) == ((), Narrowed("known.json", known=1))
    other = baselines.without_known(_seen(many, line, slug="Other: thing"), known, "known.json", lambda _: True)
    assert len(other.findings) == 1
    assert other.narrowed == Narrowed("known.json", gone=1)


def test_a_baseline_hides_findings_and_never_the_verdict() -> None:
    report = _seen(NET, 6)
    narrowed = baselines.without_known(report, baselines.entries(report), "known.json", lambda _: True)
    assert (len(report.findings), narrowed.findings) == (1, ())
    assert narrowed.targets == report.targets
    assert (report.targets[0].verdict, len(report.targets[0].break_sites)) == ("not_ready", 1)


def test_parsed_names_the_file() -> None:
    with pytest.raises(TcreadyError, match=r"some/file\.json"):
        baselines.parse_baseline("null", "some/file.json")


def test_under_pre_commit_files_that_are_not_named_are_not_gone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pre_commit")
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("PRE_COMMIT_HOME", str(project / ".pre-commit"))
    hook = {
        "id": "tcready",
        "name": "tcready",
        "language": "system",
        "entry": f"{sys.executable} -m tcready check --no-run",
        "args": ["--baseline", "known.json"],
        "types": ["python"],
        "verbose": True,
    }
    config = {"repos": [{"repo": "local", "hooks": [hook]}]}
    (project / ".pre-commit-config.yaml").write_text(json.dumps(config))  # JSON is YAML
    subprocess.run(["git", "init", "-q"], check=True)

    def commit(text: str) -> tuple[int, str]:
        (project / "net.py").write_text(text)
        subprocess.run(["git", "add", "net.py", ".pre-commit-config.yaml"], check=True)
        done = subprocess.run([sys.executable, "-m", "pre_commit", "run"], capture_output=True, text=True)
        return done.returncode, " ".join(done.stdout.split())

    code, told = commit(f"\n\n{NET}")
    assert (code, "2 findings known from known.json." in told) == (0, True), told
    code, told = commit(NET.replace("x.sum() > 0", "x.sum() > 1"))
    assert (code, "1 entry of it gone" in told) == (1, True), told
