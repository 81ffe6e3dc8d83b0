"""The hook as a user's repository meets it: real pre-commit, a scratch repository, an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest
from scratch_git import git, tool_tree

pytest.importorskip("pre_commit")

HIT = """\
import torch.nn as nn


class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return x
"""
MENDED = HIT.replace("x.sum() > 0", "x.shape[0] > 1")
NO_TORCH = "def double(x):\n    return 2 * x\n"


@dataclass(frozen=True)
class Scratch:
    """A user's repository with the hook configured, and where pre-commit keeps what it installs."""

    folder: Path
    home: Path
    tool: str
    """The URL of tcready's repository."""
    tag: str
    """That of its release."""

    def commit_ready(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")
        git(self.folder, "add", name)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.call(sys.executable, "-m", "pre_commit", "run", *arguments)

    def call(self, *command: str) -> subprocess.CompletedProcess[str]:
        """With the environment of these tests activated, as a user has his."""
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
            "GIT_CONFIG_GLOBAL": os.devnull,
            "PRE_COMMIT_HOME": str(self.home),
            "PRE_COMMIT_COLOR": "never",
            "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]]),
        }
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=600, check=False
        )


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    base = tmp_path_factory.mktemp("precommit")
    tool, tag = tool_tree(base)
    user = base / "user"
    user.mkdir()
    git(user, "init", "--quiet")
    repository = Scratch(user, base / "home", tool.as_uri(), tag)
    repository.commit_ready(
        ".pre-commit-config.yaml",
        f"""\
repos:
  - repo: {repository.tool}
    rev: {repository.tag}
    hooks:
      - id: tcready
      - id: tcready-run
""",
    )
    return repository


@pytest.mark.slow
def test_the_hook_in_a_repository(scratch: Scratch) -> None:
    scratch.commit_ready("net.py", HIT)
    hit = scratch.run()
    output = hit.stdout + hit.stderr
    assert hit.returncode == 1, output
    assert "TCR101" in output
    assert "net.py:6" in output
    assert "exit code: 1" in output

    scratch.commit_ready("net.py", MENDED)
    clean = scratch.run()
    assert clean.returncode == 0, clean.stdout + clean.stderr
    assert "Passed" in clean.stdout

    scratch.commit_ready("plain.py", NO_TORCH)
    without_torch = scratch.run("--files", "plain.py")
    assert without_torch.returncode == 0, without_torch.stdout + without_torch.stderr
    assert "Passed" in without_torch.stdout

    # No model, and no Python that this one reads: a template.
    scratch.commit_ready("template.py", "{{ name }} = {% if x %}\n")
    template = scratch.run("--files", "template.py")
    assert template.returncode == 0, template.stdout + template.stderr
    scratch.commit_ready("template.py", "import torch\n{% if x %}\n")
    unreadable = scratch.run("--files", "template.py")
    assert unreadable.returncode == 1
    assert "syntax error in line 2" in unreadable.stdout
    git(scratch.folder, "rm", "--quiet", "--force", "template.py")
    deleted = scratch.run()
    assert deleted.returncode == 0, deleted.stdout + deleted.stderr

    scratch.commit_ready("notes.txt", "no Python at all\n")
    empty = scratch.run("--files", "notes.txt")
    assert empty.returncode == 0
    assert "Skipped" in empty.stdout

    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": HIT}]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    scratch.commit_ready("net.ipynb", json.dumps(notebook, indent=1))
    in_notebook = scratch.run()
    assert in_notebook.returncode == 1
    assert "net.ipynb:cell 1:6:12: TCR101" in in_notebook.stdout
    git(scratch.folder, "rm", "--quiet", "--force", "net.ipynb")

    (python,) = scratch.home.glob("repo*/py_env-*/bin/python")
    probe = "import importlib.util as u; print(u.find_spec('tcready') is not None, u.find_spec('torch'))"
    found = subprocess.run([str(python), "-c", probe], cwd=scratch.home, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "None"]


@pytest.mark.release
def test_the_hook_is_tried_at_the_tag_of_a_release(scratch: Scratch) -> None:
    """As by somebody who has not configured it. pre-commit installs it anew for each try."""
    scratch.commit_ready("hazard.py", HIT)
    scratch.commit_ready("clean.py", MENDED)
    tried = ("try-repo", scratch.tool, "tcready", "--ref", scratch.tag, "--files", "hazard.py", "clean.py")
    done = scratch.call(sys.executable, "-m", "pre_commit", *tried)
    git(scratch.folder, "rm", "--quiet", "--force", "hazard.py", "clean.py")
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"rev: {scratch.tag}" in done.stdout
    assert "hazard.py:6" in done.stdout
    assert "clean.py" not in done.stdout


TABLE = """\
[tool.tcready.targets.net]
target = "net.py::Net"
inputs = "net.py::example"
"""
EXAMPLE = """

def example():
    import torch

    return torch.ones(4)
"""


@pytest.mark.torch
@pytest.mark.release
def test_the_run_before_a_push(scratch: Scratch) -> None:
    """At the manual stage and before a push, in this environment; never at a commit."""
    manual = ("--hook-stage", "manual", "tcready-run", "--all-files")

    scratch.commit_ready("net.py", MENDED + EXAMPLE)
    nothing = scratch.run(*manual)
    assert nothing.returncode == 1
    assert "exit code: 2" in nothing.stdout
    assert "[tool.tcready.targets.NAME]" in " ".join(nothing.stdout.split()), "it says what to do"

    scratch.commit_ready("pyproject.toml", TABLE)
    assert "tcready (run)" not in scratch.run("--all-files").stdout
    clean = scratch.run(*manual)
    assert clean.returncode == 0, clean.stdout + clean.stderr

    remote = scratch.folder.parent / "remote.git"
    git(scratch.folder.parent, "init", "--quiet", "--bare", str(remote))
    installed = scratch.call(sys.executable, "-m", "pre_commit", "install", "--hook-type", "pre-push")
    assert installed.returncode == 0, installed.stdout + installed.stderr
    # Only the run sees this one: the name is no tensor to whoever reads the source.
    scratch.commit_ready("net.py", MENDED.replace("x.shape[0]", "getattr(x, 'su' + 'm')()") + EXAMPLE)
    git(scratch.folder, "commit", "--quiet", "--no-verify", "--message", "breaks")
    refused = scratch.call("git", "push", "--quiet", str(remote), "HEAD:main")
    output = refused.stdout + refused.stderr
    assert refused.returncode != 0, output
    assert "net.py:6" in output
    assert git(remote, "branch", "--list") == ""
