"""The GitHub action and the GitLab job: their own shell lines, run as the runners run them, on a scratch project; the image."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from fixture_markers import ROOT
from scratch_git import git, tool_tree
from tcready import cli

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

yaml = pytest.importorskip("yaml")

ACTION = ".github/actions/tcready/action.yml"
EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")
CLEAN = """\
import torch.nn as nn


class Net(nn.Module):
    def forward(self, x):
        if x.shape[0] > 1:
            x = x + 1
        return x
"""
HIT = CLEAN.replace("x.shape[0] > 1", "x.sum() > 0")


def _action() -> Any:
    return yaml.safe_load((ROOT / ACTION).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Ran:
    """What one use of the action left behind: of its last step the exit, of all of them the output."""

    code: int
    printed: str
    summary: str
    outputs: dict[str, str]
    uploads: dict[str, dict[str, str]]
    """Name of each step that uses another action and was due, and what it would be given."""


@dataclass(frozen=True)
class Runner:
    """A runner's folders; `tool` is the action's own checkout: what an archive of the tag holds, without history."""

    project: Path
    temp: Path
    tool: Path
    tag: str

    def environment(self) -> dict[str, str]:
        """Python and git as a runner has them. What tcready depends on is not fetched again, but found here."""
        found = [entry for entry in sys.path if entry.endswith("site-packages")]
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "PYTHON"))},
            "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]]),
            "PIP_NO_DEPS": "1",
            "PYTHONPATH": os.pathsep.join(found),
            "RUNNER_TEMP": str(self.temp),
        }

    def bash(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=self.project,
            env={**self.environment(), **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def install(self) -> None:
        """The first step of the action: the only one whose result the uses of it share."""
        step = _action()["runs"]["steps"][0]
        environment = {
            name: EXPRESSION.sub(str((self.tool / ACTION).parent), value) for name, value in step["env"].items()
        }
        done = self.bash(step["run"], **environment)
        assert done.returncode == 0, done.stdout + done.stderr

    def use(self, **inputs: str) -> Ran:
        """All other steps in order, with expressions put in where the runner puts them in."""
        action = _action()
        assert inputs.keys() <= action["inputs"].keys()
        known = {f"inputs.{name}": str(what["default"]) for name, what in action["inputs"].items()}
        known |= {f"inputs.{name}": value for name, value in inputs.items()}

        def put_in(text: str) -> str:
            return EXPRESSION.sub(lambda found: known[found[1]], text)

        summary = self.temp / "summary.md"
        summary.write_text("")
        printed, code = "", 0
        uploads = {}
        for step in action["runs"]["steps"][1:]:
            if code or not _holds(step.get("if", ""), known):
                continue
            if "uses" in step:
                uploads[step["name"]] = {name: put_in(value) for name, value in step["with"].items()}
                continue
            output = self.temp / "output.txt"
            output.write_text("")
            environment = {name: put_in(value) for name, value in step.get("env", {}).items()}
            done = self.bash(step["run"], GITHUB_OUTPUT=str(output), GITHUB_STEP_SUMMARY=str(summary), **environment)
            printed += done.stdout + done.stderr
            code = done.returncode
            if "id" in step:
                known |= {f"steps.{step['id']}.outputs.reports": ""}
                written = dict(line.split("=", 1) for line in output.read_text().splitlines())
                known |= {f"steps.{step['id']}.outputs.{name}": value for name, value in written.items()}
        outputs = {name: put_in(what["value"]) for name, what in action["outputs"].items()}
        return Ran(code, printed, summary.read_text(), outputs, uploads)


def _holds(condition: str, known: dict[str, str]) -> bool:
    """A condition of a step: comparisons with text, joined by `&&`."""
    for part in filter(None, condition.split(" && ")):
        left, sign, right = re.fullmatch(r"([\w.-]+) (==|!=) '(\w*)'", part).groups()  # type: ignore[union-attr]
        if (known[left] == right) != (sign == "=="):
            return False
    return True


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    base = tmp_path_factory.mktemp("runner")
    repository, tag = tool_tree(base)
    git(repository, "archive", "--output", str(base / "tool.tar"), tag)
    project, temp, tool = base / "project", base / "temp", base / "action"
    shutil.unpack_archive(base / "tool.tar", tool)
    temp.mkdir()
    project.mkdir()
    git(project, "init", "--quiet")
    (project / "net.py").write_text(HIT)
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "first")
    made = Runner(project, temp, tool, tag)
    made.install()
    return made


def test_the_action_is_well_formed() -> None:
    action = _action()
    assert action["runs"]["using"] == "composite"
    steps = action["runs"]["steps"]
    text = (ROOT / ACTION).read_text(encoding="utf-8")
    for step in steps:
        assert ("run" in step) != ("uses" in step), step["name"]
        if "run" in step:
            assert step["shell"] == "bash"
            assert "${{" not in step["run"], f"{step['name']}: an input could become code"
    used = set(re.findall(r"inputs\.([\w-]+)", text))
    assert used == action["inputs"].keys()
    for what in action["inputs"].values():
        assert what["description"]
        assert isinstance(what["default"], str)
    ids = {step["id"] for step in steps if "id" in step}
    assert set(re.findall(r"steps\.([\w-]+)\.outputs", text)) == ids


def test_the_action_installs_the_version_of_its_tag(runner: Runner) -> None:
    shown = runner.bash('PYTHONPATH= "$RUNNER_TEMP/tcready/bin/python" -m pip list --format=freeze')
    assert f"tcready=={runner.tag.removeprefix('v')}\n" in shown.stdout, shown.stderr


@pytest.mark.slow
def test_the_action(runner: Runner) -> None:
    hit = runner.use(**{"upload-sarif": "true"})
    assert hit.code == 1, hit.printed
    assert "::error file=net.py,line=6,endLine=6,col=12," in hit.printed
    assert "TCR101" in hit.summary
    assert hit.outputs["exit-code"] == "1"
    sarif = json.loads(Path(hit.uploads["Upload SARIF"]["sarif_file"]).read_text())
    (result,) = sarif["runs"][0]["results"]
    assert result["ruleId"] == "TCR101"
    kept = [Path(line) for line in hit.uploads["Keep the page"]["path"].split()]
    assert [path.name for path in kept] == ["tcready.html", "tcready.json"]
    assert "TCR101" in kept[0].read_text()
    assert {path.parent for path in kept} == {Path(hit.outputs["reports"])}

    # What stood there before the pull request is not its business; what it adds is.
    unchanged = runner.use(**{"diff-base": "HEAD", "artifact": ""})
    assert unchanged.code == 0, unchanged.printed
    assert "::error" not in unchanged.printed
    assert unchanged.uploads == {}
    (runner.project / "new net.py").write_text(HIT)
    added = runner.use(targets="net.py\nnew net.py\n", arguments="--select=TCR1", **{"diff-base": "HEAD"})
    assert added.code == 1, added.printed
    assert added.printed.count("::error") == 1
    assert "::error file=new net.py," in added.printed
    (runner.project / "new net.py").unlink()


def test_an_input_is_never_code(runner: Runner) -> None:
    """Neither of the shell nor an option; and what cannot be established fails without a report."""
    for name in ("targets", "fail-on", "baseline"):
        ran = runner.use(**{name: '$(touch hacked)"; touch hacked; `touch hacked`'})
        assert ran.code == 2, ran.printed
        assert "tcready: error: " in ran.printed
        assert ran.outputs == {"exit-code": "2", "reports": ""}
        assert ran.uploads == {}
        assert ran.summary == ""
    assert runner.use(targets="--exit-zero").code == 2
    assert {path.name for path in runner.project.iterdir()} - {".tcready_cache"} == {".git", "net.py"}


def test_the_gitlab_job(runner: Runner) -> None:
    """In one shell, as GitLab runs the lines of a script; installed is what the action installed."""
    job = yaml.safe_load((ROOT / "docs" / "ci" / "gitlab.yml").read_text(encoding="utf-8"))["tcready"]
    install, *script = job["script"]
    assert install.startswith("python -m pip install ")
    path = os.pathsep.join([str(runner.temp / "tcready" / "bin"), os.environ["PATH"]])
    variables = {**job["variables"], "PATH": path}
    done = runner.bash("\n".join(script), **variables)
    assert done.returncode == 1, done.stdout + done.stderr
    made = job["artifacts"]["reports"]
    (found,) = json.loads((runner.project / made["codequality"]).read_text())
    assert (found["location"]["path"], found["check_name"]) == ("net.py", "TCR101")
    assert len(list(ET.parse(runner.project / made["junit"]).iter("failure"))) == 1
    for name in job["artifacts"]["paths"]:
        assert "TCR101" in (runner.project / name).read_text()

    (runner.project / "tcready.json").unlink()
    wrong = runner.bash("\n".join(script), **variables | {"TCREADY_TARGETS": "absent.py"})
    assert wrong.returncode == 2, wrong.stdout + wrong.stderr


def test_the_image_takes_what_is_there_and_starts_what_exists() -> None:
    """The image is not built here: what it copies, and what it starts, is held to the tree and the command line."""
    text = (ROOT / "docs" / "ci" / "Dockerfile").read_text("utf-8")
    lines = [line.split() for line in re.sub(r"\\\n\s*", "", text).splitlines()]
    copied = [name for words in lines if words[:1] == ["COPY"] for name in words[1:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    built = {*project["tool"]["setuptools"]["package-dir"].values(), project["project"]["readme"]}
    assert {"pyproject.toml", *built, *project["project"]["license-files"]} <= {*copied}
    (entry,) = [words[1:] for words in lines if words[:1] == ["ENTRYPOINT"]]
    (started,) = [words[1:] for words in lines if words[:1] == ["CMD"]]
    assert json.loads(" ".join(entry)) == ["tcready"]
    name, *arguments = json.loads(" ".join(started))
    command = cli.app.commands[name]  # type: ignore[attr-defined]
    assert command.make_context(name, arguments, parent=click.Context(cli.app)).params["run"] is False
