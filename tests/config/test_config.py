"""`[tool.tcready]`, `--exclude`, `--per-file-ignores`, and comments that hide nothing. In process; one real run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from tcready import api, cli
from tcready.schema.enums import TcreadyError
from tcready.static.frontend.globs import matches

BREAKS = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            print("positive")
        return x
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "src/old").mkdir(parents=True)
    (tmp_path / "src/model.py").write_text(BREAKS)
    (tmp_path / "src/old/model.py").write_text(BREAKS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configure(root: Path, table: str) -> None:
    (root / "pyproject.toml").write_text(f"[tool.tcready]\n{table}\n")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[str], list[str]]:
    """What `tcready check --no-run` finds, as `path:line code`, and its warnings."""
    capsys.readouterr()
    run("check", "--no-run", "--output-format", "json", *arguments)
    report = json.loads(capsys.readouterr().out)
    return [f"{f['path']}:{f['line']} {f['rule']}" for f in report["findings"]], report["warnings"]


BOTH = [f"{path}:{place}" for path in ("src/model.py", "src/old/model.py") for place in ("6 TCR101", "7 TCR301")]


@pytest.mark.parametrize(
    ("table", "arguments", "found"),
    [
        ("", [], BOTH),
        ('ignore = ["TCR3"]\nexclude = ["old"]', [], BOTH[:1]),
        ('select = ["TCR301"]', ["--exclude", "src/{new,old}/*"], BOTH[1:2]),
        ('per-file-ignores = { "src/old/**" = ["TCR"], "model.py" = ["TCR101"] }', [], BOTH[1:2]),
        ('per-file-ignores = { "!src/old/*" = ["TCR1", "tcr301"] }', [], BOTH[2:]),
        # the command line wins, and need not name what it does not change
        ('select = ["TCR3"]\nexclude = ["old"]', ["--select", "TCR1"], BOTH[:1]),
        ('per-file-ignores = { "*.py" = ["TCR"] }', ["--per-file-ignores", "old/*:TCR3,x:TCR1"], BOTH),
        ('per-file-ignores = { "*.py" = ["TCR"] }', ["--per-file-ignores", "src/o*:TCR3,TCR1"], BOTH[:2]),
        ('ignore = ["TCR"]', ["--isolated"], BOTH),
        # what is named is read, unless that is forced
        ('exclude = ["old"]', ["src/old/model.py"], BOTH[2:]),
        ('exclude = ["old"]', ["src/old"], BOTH[2:]),
        ('exclude = ["old"]', ["--force-exclude", "src/old/model.py"], []),
        ('exclude = ["old"]\nforce-exclude = true', ["src/old/model.py::Net", "src/model.py"], BOTH[:2]),
        ('exclude = ["old"]\nforce-exclude = true', ["--no-force-exclude", "src/old/model.py"], BOTH[2:]),
    ],
)
def test_the_table_gives_defaults_and_the_command_line_wins(
    project: Path, capsys: pytest.CaptureFixture[str], table: str, arguments: list[str], found: list[str]
) -> None:
    configure(project, table)
    assert told(capsys, *arguments)[0] == found


def test_fail_on_holds_for_the_exit(project: Path) -> None:
    configure(project, 'fail-on = "error"\nselect = ["TCR5"]')
    assert run("check", "--no-run") == 0
    configure(project, 'fail-on = "note"\nthird-party = true')
    assert run("check", "--no-run") == 1


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("ignroe = []", "has no key ignroe: did you mean ignore?"),
        ("per_file_ignores = {}", "did you mean per-file-ignores?"),
        ('html = "page.html"', "it takes select, ignore"),
        ("low = 1", "low = 1: it takes true or false"),
        ('select = "TCR1"', "it takes a list of strings"),
        ("exclude = [3]", "it takes a list of strings"),
        ("timeout = 0", "timeout = 0: it takes a number of seconds above 0"),
        ("memory = inf", "memory = inf: it takes a number of GB above 0"),
        ('mode = "fast"', "it takes one of infer, train, both"),
        ('output-format = "xml"', "it takes one of text, concise"),
        ("torch-version = 2.11", "it takes a string"),
        ('per-file-ignores = { "a" = "TCR1" }', "it takes a table of globs"),
        ("select = [", "pyproject.toml cannot be read"),
        ('select = ["TCR999"]', "TCR999: no rule has a code like that"),
        ('per-file-ignores = { "a" = ["E501"] }', "E501: no rule has a code like that"),
        ('exclude = ["[z-a]"]', "the glob '[z-a]' cannot be read"),
        ('per-file-ignores = { "[z-a]" = ["TCR1"] }', "the glob '[z-a]' cannot be read"),
    ],
)
def test_what_the_table_cannot_say_is_one_line_and_exit_2(
    project: Path, capsys: pytest.CaptureFixture[str], table: str, words: str
) -> None:
    configure(project, table)
    assert run("check", "--no-run", "src/model.py") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert words in said.err


@pytest.mark.parametrize("data", [b"\0" * 40, "[tool.tcready]\nlow = true\n".encode("utf-16")])
def test_a_table_that_was_lost_or_is_no_utf_8_is_one_line_and_exit_2(
    project: Path, capsys: pytest.CaptureFixture[str], data: bytes
) -> None:
    """It was passed by in silence, as if it said nothing."""
    (project / "pyproject.toml").write_bytes(data)
    assert run("check", "--no-run", "src/model.py") == 2
    said = capsys.readouterr().err
    assert said == "tcready: error: pyproject.toml cannot be read: it holds NUL bytes; save it as UTF-8\n"


def test_codes_on_the_command_line_need_a_glob(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "--no-run", "--per-file-ignores", "TCR1") == 2
    assert "write GLOB:CODES" in capsys.readouterr().err


def test_every_key_is_an_option_and_help_needs_no_valid_table(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(project, "nonsense = 1")
    assert run("check", "--help") == 0
    assert "--help-all" in capsys.readouterr().out
    assert run("check", "--help-all") == 0
    shown = capsys.readouterr().out
    assert "--isolated" in shown


def test_settings_are_shown_with_where_they_came_from(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(
        project,
        dedent("""\
            timeout = 30
            ignore = ["TCR3"]
            low = true
            per-file-ignores = { "a.py" = ["TCR1"] }
            [tool.tcready.targets.net]
            target = "src/model.py::Net"
            weights = { one = 2 }"""),
    )
    assert run("check", "absent.py", "--show-settings", "--no-low", "--ignore", "TCR2,TCR5") == 0
    rows = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    shown = {row[0]: tuple(cell.strip() for cell in row[1:] if cell.strip()) for row in rows}
    assert shown["timeout"] == ("30", "pyproject.toml")
    assert shown["ignore"] == ('["TCR2", "TCR5"]', "command line")
    assert shown["low"] == ("false", "command line")
    assert shown["per-file-ignores"] == ('{ "a.py" = ["TCR1"] }', "pyproject.toml")
    assert shown["device"] == ('"cpu"', "default")
    assert shown["torch-version"] == ("not set", "default")
    assert shown["targets.net.target"] == ('"src/model.py::Net"', "pyproject.toml")
    assert shown["targets.net.weights"] == ('{ "one" = 2 }', "pyproject.toml")
    assert run("check", "--isolated", "--show-settings") == 0
    assert "pyproject.toml" not in capsys.readouterr().out


def test_a_call_from_python_takes_no_options_from_the_table(project: Path) -> None:
    configure(project, 'ignore = ["TCR"]\nnonsense = 1')
    report = api.check(["src/model.py"], run=False)
    assert [finding.rule for finding in report.findings] == ["TCR101", "TCR301"]
    report = api.check(["."], run=False, exclude=["old"], per_file_ignores={"src/*": ["TCR3"]})
    assert [(finding.path, finding.rule) for finding in report.findings] == [("src/model.py", "TCR101")]
    with pytest.raises(TcreadyError, match="no rule has a code like that"):
        api.check(["."], run=False, per_file_ignores={"src/*": ["E501"]})


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("*.py", "a/b.py", True),
        ("b.py", "a/b.py", True),
        ("a", "a", True),
        ("a/*.py", "a/c/b.py", True),
        ("**/b.py", "b.py", True),
        ("a/**/b.py", "a/b.py", True),
        ("a/**", "a/c/b.py", True),
        ("./a/b.py", "a/b.py", True),
        ("a/{b,c}.py", "a/c.py", True),
        ("a/{b,c}.py", "a/d.py", False),
        ("[ab].py", "c/a.py", True),
        ("[!ab].py", "c/a.py", False),
        ("?.py", "ab.py", False),
        ("a.py", "axpy", False),
        ("a+b(1).py", "a+b(1).py", True),
        ("c/b.py", "a/c/b.py", False),
    ],
)
def test_globs(glob: str, path: str, fits: bool, tmp_path: Path) -> None:
    assert matches(glob, tmp_path / path, tmp_path) is fits
    if "/" in glob:
        assert matches(str(tmp_path / glob), tmp_path / path, tmp_path) is fits, "as an absolute one"


# comments that hide nothing

NOQA = """\
import torch
from torch import nn

from helper import scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.limit = 3  # noqa: TCR201

    def forward(self, x, mask=None, rare=None):
        y = x + 1  # noqa: TCR101, E501
        if x.sum() > 0:  # noqa: TCR101, TCR2, TCR777
            y = y + 1  # noqa
        if self.training:
            y = y + x.item()  # noqa: TCR201
        if mask is not None:
            y = y + mask.item()  # noqa: TCR201
        if rare is not None:
            y = y + rare  # noqa: TCR204
        text = "# noqa: TCR101"
        return scale(
            y,
            x.max().item(),  # noqa: TCR201
        )


def unreached(x):
    return x.item()  # noqa: TCR201
"""
HELPER = """\
from torch import nn


def scale(x, by):
    if by > 2:  # noqa: TCR101
        return x
    return x * by


class Other(nn.Module):
    def step(self, x, often):
        for _ in range(often):  # noqa: TCR112
            x = x + 1
        return x

    def forward(self, x):
        return self.step(scale(x, 1), 2)
"""
ANOTHER = """\
from helper import Other


class Another(Other):
    def forward(self, x):
        return self.step(x, x.sum())
"""


@pytest.fixture
def commented(project: Path) -> Path:
    (project / "net.py").write_text(NOQA)
    (project / "helper.py").write_text(HELPER)
    return project


UNUSED = [
    "net.py:13: unused noqa TCR101",
    "net.py:14: unused noqa TCR2",
    "net.py:14: unused noqa TCR777: there is no such rule",
]


def test_comments_that_hide_nothing_are_told(commented: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, warnings = told(capsys, "net.py")
    assert found == []
    assert warnings == UNUSED
    assert told(capsys, "net.py") == (found, warnings), "from the cache"
    assert told(capsys, "net.py", "--no-cache") == (found, warnings)
    assert told(capsys, "net.py", "--mode", "both")[1] == UNUSED
    assert told(capsys, "net.py::Net")[1] == [], "one name is not the whole file"


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        (["--select", "TCR2"], [1]),
        (["--select", "TCR3"], []),
        (["--ignore", "TCR101"], [1, 2]),
        (["--per-file-ignores", "net.py:TCR1,TCR2"], [2]),
        (["--per-file-ignores", "net.py:TCR"], []),
    ],
)
def test_a_code_that_was_not_asked_for_is_not_unused(
    commented: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], rows: list[int]
) -> None:
    assert told(capsys, "net.py", *arguments)[1] == [UNUSED[row] for row in rows]


def test_what_hides_something_for_another_file_is_not_unused(
    commented: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A function is read as somebody else may call it; a method as its class calls it, and whoever is checked too."""
    (commented / "another.py").write_text(ANOTHER)
    assert told(capsys, "helper.py")[1] == ["helper.py:12: unused noqa TCR112"]
    assert told(capsys, "helper.py", "another.py")[1] == []
    assert told(capsys, "another.py")[1] == [], "helper.py is reached, not checked"


@pytest.mark.torch
def test_a_run_and_the_table_below_its_targets(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A comment where a run sees what no rule predicts is not unused, and what one hides stays hidden. And who wins:
    flag, target, table, default."""
    (project / "seen.py").write_text(SEEN)
    configure(
        project,
        'mode = "train"\ndtype = "float64"\npython = "no-such-python"\n[tool.tcready.targets.net]\n'
        'target = "seen.py::Net"\ninputs = "seen.py::example"\nmode = "infer"',
    )
    assert run("check", "--no-run", "seen.py") == 0, "nothing is run, so no interpreter is needed"
    assert run("check", "seen.py") == 2
    assert "no-such-python" in capsys.readouterr().err
    assert run("check", "-q", "seen.py", "--python", sys.executable, "--output-format", "json") == 1
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    (target,) = report["targets"]
    assert target["mode"] == "infer"
    assert target["environment"]["dtype"] == "float64"
    assert [(f["line"], f["status"]) for f in report["findings"]] == [(13, "runtime_only")]
    assert report["warnings"] == ["seen.py:14: unused noqa TCR201"]
    assert [site["line"] for site in target["break_sites"]] == [13, 15], "the verdict knows of what is hidden"
    assert target["verdict"] == "not_ready"


SEEN = """\
import sys

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.how = "item" if len(sys.argv) else "tolist"

    def forward(self, x):
        n = getattr(x.sum(), self.how)()  # noqa: TCR201
        y = x + 1  # noqa: TCR201
        if x.sum() > 0:  # noqa: TCR101
            y = y + 1
        return y * n


def example():
    return torch.ones(3)
"""
