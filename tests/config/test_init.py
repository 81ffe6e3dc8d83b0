"""`tcready init` and `tcready completion`: real files, real YAML and TOML, the real pre-commit."""

from __future__ import annotations

import difflib
import os
import stat
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from commands import run
from tcready.config import init
from tcready.config.pyproject import parse_project
from tcready.schema.enums import TcreadyError

LOCAL = yaml.safe_load(init.LOCAL)
HOOKS = Path(__file__).resolve().parents[2] / ".pre-commit-hooks.yaml"
BREAKS = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_both_files_are_made_and_a_second_time_nothing_is_done(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("init") == 0
    said = capsys.readouterr()
    assert "+[tool.tcready]\n" in said.out
    assert "+      - id: tcready\n" in said.out
    assert "there is no terminal" in said.err
    assert run("init", "--diff") == 0
    assert list(project.iterdir()) == [], "shown and not written"
    assert run("init", "--yes", "--diff") == 2
    assert run("init", "--yes") == 0
    assert parse_project((project / "pyproject.toml").read_bytes()) == {"tool": {"tcready": {"fail-on": "warning"}}}
    (entry,) = yaml.safe_load((project / ".pre-commit-config.yaml").read_bytes())["repos"]
    assert entry["hooks"][0]["entry"].startswith("tcready check --no-run")
    before = {path.name: path.read_bytes() for path in project.iterdir()}
    capsys.readouterr()
    assert run("init", "--yes") == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("already") == 2
    assert {path.name: path.read_bytes() for path in project.iterdir()} == before


MODELS = """\
from torch import nn
from parts import Block


class MyNet(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.block = Block(size)

    def forward(self, x):
        return self.block(x)


class Configured(nn.Module):
    def __init__(self, config, *, depth, act=None):
        super().__init__()
        self.linear = nn.Linear(config.size, depth)

    def forward(self, x):
        return self.linear(x)
"""
PART = """\
from torch import nn


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)

    def forward(self, x):
        return self.linear(x)
"""


def test_models_are_listed_as_targets(project: Path) -> None:
    (project / "net.py").write_text(MODELS)
    (project / "parts.py").write_text(PART)
    given = BREAKS.replace("Net", "Given") + "\n\ndef get_inputs():\n    raise AssertionError('nothing is executed')\n"
    (project / "given.py").write_text(given)
    (project / "test_net.py").write_text(BREAKS)
    (project / "train.py").write_text("import torch\nfrom net import MyNet\n\nfast = torch.compile(MyNet())\n")
    assert run("init", "--yes") == 0
    text = (project / "pyproject.toml").read_text()
    assert parse_project(text.encode())["tool"]["tcready"]["targets"] == {
        "given": {"target": "given.py::Given"},
        "my_net": {"target": "net.py::MyNet"},
    }
    assert 'target = "given.py::Given"  # its file gives the inputs\n' in text
    assert "# [tool.tcready.targets.configured]\n" in text
    assert "# a function of yours that returns Configured(config=..., depth=...)\n" in text


def test_of_many_models_some_are_listed(project: Path) -> None:
    for number in range(init.MANY + 2):
        (project / f"net{number}.py").write_text(BREAKS)
    assert run("init", "--yes") == 0
    text = (project / "pyproject.toml").read_text()
    tables = parse_project(text.encode())["tool"]["tcready"]["targets"]
    assert len(tables) == len({each["target"] for each in tables.values()}) == init.MANY
    assert "# 2 more models are not listed here.\n" in text


def test_the_run_hook_passes_if_there_is_nothing_to_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "helpers.py").write_text("SIZE = 4\n")
    local, released = LOCAL[0]["hooks"], yaml.safe_load(HOOKS.read_bytes())
    for hook in (*local, *released):
        capsys.readouterr()
        _, *command = hook["entry"].split()
        assert run(*command) == 0, hook
        shown = capsys.readouterr()
        if hook["id"] == "tcready-run":
            assert "nothing was run: no file provides inputs" in shown.err
    assert run("check", "--run") == 2


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"# nothing yet\n",
        b'[project]\nname = "a"  # kept\n\n[tool.ruff]\nline-length = 1e2\n',
        b"[tool]\na.b = 1",
        b'[[tool.mypy.overrides]]\r\nmodule = ["a"]\r\n',
        dedent("""\
            title = "café"
            [tool.black]


        """).encode(),
    ],
)
def test_toml_keeps_what_was_there(project: Path, text: bytes) -> None:
    (project / "pyproject.toml").write_bytes(text)
    assert run("init", "--yes") == 0
    now = (project / "pyproject.toml").read_bytes()
    assert now.startswith(text)
    assert (b"\r\n" in now) == (b"\r\n" in text)
    assert b"\r\n" not in text or now.count(b"\n") == now.count(b"\r\n")
    said = parse_project(now)
    assert said["tool"].pop("tcready") == {"fail-on": "warning"}
    was = parse_project(text)
    assert said == {"tool": {}, **was}


@pytest.mark.parametrize("text", ["tool = { ruff = {} }\n", "[tool]\ntcready.low = true\n"])
def test_toml_that_cannot_take_the_table_is_left(project: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (project / "pyproject.toml").write_text(text)
    assert run("init", "--yes") == 0
    assert (project / "pyproject.toml").read_text() == text
    assert "pyproject.toml: " in capsys.readouterr().err
    assert (project / ".pre-commit-config.yaml").exists()


@pytest.mark.parametrize(
    "text",
    [
        dedent("""\
            repos:
            - repo: a
              hooks:
              - id: b
        """),
        dedent("""\
            repos:
              - repo: a
                hooks:
                  - id: b"""),
        dedent("""\
            # top
            ---
            ci: {skip: [a]}

            repos:  # all of them

              # one
              - repo: a
                hooks: []

            exclude: ^x
        """),
        dedent("""\
            repos:
            -   repo: a
                hooks:
                -   id: b
                    # -   id: c

            # the end
        """),
        "repos:\r\n- repo: a\r\n  hooks: [{id: b}]\r\nfail_fast: true\r\n",
        dedent("""\
            repos:
            - repo: a
              hooks:
              - id: b
                args: [
                  '--x',
                  y]
        """),
        dedent("""\
            repos:
            - repo: a
              hooks:
              - id: b
                files: |
                  (?x)^(
                    a|
                    # b
                  )$
        """),
        dedent("""\
            repos:
            - repo: a
              hooks:
              - id: b
                name: "it's
                  two lines"
                entry: it's
        """),
    ],
)
def test_yaml_gets_the_entry_at_the_end_of_its_list(project: Path, text: str) -> None:
    file = project / ".pre-commit-config.yaml"
    file.write_bytes(text.encode())
    assert run("init", "--yes") == 0
    now = file.read_bytes().decode()
    was, said = yaml.safe_load(text), yaml.safe_load(now)
    assert said["repos"] == was["repos"] + LOCAL
    assert {**said, "repos": was["repos"]} == was
    assert not [line for line in difflib.ndiff(text.splitlines(), now.splitlines()) if line[0] == "-"]


@pytest.mark.parametrize(
    "text",
    [
        "repos: []\n",
        "repos: [{repo: a, hooks: []}]\n",
        "{repos: [{repo: a, hooks: []}]}\n",
        "repos: &all\n- repo: a\n",
        "repos:\n",
        "exclude: ^x\n",
        "repos:\n  a: b\n",
        dedent("""\
            repos:
            - repo: a
              hooks: [
            {id: b}
            ]
        """),
        dedent("""\
            repos:
            - repo: a
              hooks: [{id: b},
            {id: c}]
            ci: {}
        """),
        dedent("""\
            repos:
            - repo: a
              name: 'b
            c: d'
        """),
        dedent("""\
            repos:
            - repo: a
              hooks:
              - id: b
                entry: |+
                  x

        """),
        dedent("""\
            repos:
            - repo: a
            ---
            repos:
            - repo: b
        """),
        dedent("""\
            repos:
            - repo: a
            ...
        """),
        "repos:\n-\trepo: a\n",
    ],
)
def test_yaml_of_another_form_is_left_and_told(project: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (project / ".pre-commit-config.yaml").write_text(text)
    assert run("init", "--yes") == 0
    assert (project / ".pre-commit-config.yaml").read_text() == text
    assert "add this to `repos` by hand:\n- repo: local\n" in capsys.readouterr().err
    assert (project / "pyproject.toml").exists()


def test_a_link_stays_a_link_and_permissions_stay(project: Path) -> None:
    (project / "real").mkdir()
    (project / "real/p.toml").write_text("[project]\n")
    (project / "real/p.toml").chmod(0o640)
    (project / "pyproject.toml").symlink_to("real/p.toml")
    assert run("init", "--yes") == 0
    assert (project / "pyproject.toml").is_symlink()
    assert "[tool.tcready]" in (project / "real/p.toml").read_text()
    assert stat.S_IMODE((project / "real/p.toml").stat().st_mode) == 0o640
    assert sorted(path.name for path in project.iterdir()) == [".pre-commit-config.yaml", "pyproject.toml", "real"]


@pytest.mark.parametrize("name", ["pyproject.toml", ".pre-commit-config.yaml"])
@pytest.mark.parametrize("trouble", ["read-only", "folder", "no folder", "bytes"])
def test_both_files_or_neither(project: Path, capsys: pytest.CaptureFixture[str], name: str, trouble: str) -> None:
    file = project / name
    if trouble == "read-only":
        file.write_text("# kept\n")
        file.chmod(0o444)
    elif trouble == "folder":
        file.mkdir()
    elif trouble == "no folder":
        file.symlink_to("absent/file")
    else:
        file.write_bytes(b"# \xff\n")
    assert run("init", "--yes") == 2
    assert name in capsys.readouterr().err
    assert [path.name for path in project.iterdir()] == [name]


def test_what_was_written_is_put_back_where_the_second_file_changed(project: Path) -> None:
    (project / "pyproject.toml").write_text("[project]\n")
    plan = init.plan(project)
    assert [addition.path.name for addition in plan.additions] == ["pyproject.toml", ".pre-commit-config.yaml"]
    (project / ".pre-commit-config.yaml").write_text("repos: []\n")
    with pytest.raises(TcreadyError, match="changed meanwhile"):
        init.write(plan.additions)
    assert (project / "pyproject.toml").read_text() == "[project]\n"
    assert (project / ".pre-commit-config.yaml").read_text() == "repos: []\n"
    assert len(list(project.iterdir())) == 2


def test_a_broken_pyproject_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text("[tool")
    assert run("init", "--yes") == 2
    assert "pyproject.toml cannot be read" in capsys.readouterr().err


def test_real_pre_commit_runs_the_hook_at_the_top_of_the_repository(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pre_commit")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PRE_COMMIT_HOME", str(project / "home"))
    repository = project / "repository"
    (repository / "old").mkdir(parents=True)
    monkeypatch.chdir(repository)
    subprocess.run(["git", "init", "-q", "."], check=True)
    monkeypatch.chdir(repository / "old")
    assert run("init", "--yes") == 0
    assert f"run `tcready init` in {repository}" in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] == ["pyproject.toml"]
    Path("pyproject.toml").unlink()
    monkeypatch.chdir(repository)
    assert run("init", "--yes") == 0
    Path("old/model.py").write_text(BREAKS)

    def commit_check() -> subprocess.CompletedProcess[str]:
        subprocess.run(["git", "add", "-A"], check=True)
        command = [sys.executable, "-m", "pre_commit", "run", "--all-files"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    found = commit_check()
    assert found.returncode == 1
    assert "old/model.py:6:12: TCR101" in found.stdout
    with Path("pyproject.toml").open("a") as file:
        file.write("[tool.tcready.per-file-ignores]\n'old/*' = ['TCR1']\n")
    assert commit_check().returncode == 0
    Path("pyproject.toml").write_text("[tool.tcready]\nexclude = ['old']\n")
    assert commit_check().returncode == 0, "though pre-commit names the file"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("tcready rule TCR121", "plain,TCR121"),
        ("tcready check --select TCR3,TCR121", "plain,TCR3,TCR121"),
        ("tcready check --ignore tcr121", "plain,TCR121"),
        ("tcready check mod", "file,mod"),
        ("tcready comp", "plain,completion"),
        ("tcready check --mode b", "plain,both"),
    ],
)
def test_bash_is_told_what_goes_on(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str, expected: str
) -> None:
    (project / "pyproject.toml").write_text("[tool.tcready]\nnonsense = 1\n")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    monkeypatch.setenv("_TCREADY_COMPLETE", "bash_complete")
    assert run() == 0
    assert capsys.readouterr().out.splitlines() == [expected]


def test_the_script_completes_in_a_real_bash(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    script = """
eval "$(tcready completion bash)"
COMP_WORDS=(tcready rule TCR121) COMP_CWORD=2
_tcready_completion tcready
echo "${COMPREPLY[@]}"
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["TCR121"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("completion", shell) == 0
    said = capsys.readouterr()
    assert f"_TCREADY_COMPLETE={shell}_complete" in said.out
    assert said.err == ""
