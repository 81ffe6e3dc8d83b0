"""The command that makes a release, in a clone of this tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scratch_git import git, tool_tree

pytest.importorskip("towncrier", reason="the extra `dev` brings it")

COMMAND = ".ci/release.py"


def run(tool: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, COMMAND, *arguments], cwd=tool, capture_output=True, text=True, timeout=120)


def refused(tool: Path, *arguments: str) -> str:
    """Run the command, which must change nothing, and return what it says."""
    before = git(tool, "rev-parse", "HEAD"), git(tool, "tag"), git(tool, "status", "--porcelain")
    done = run(tool, *arguments)
    assert done.returncode == 1
    assert (git(tool, "rev-parse", "HEAD"), git(tool, "tag"), git(tool, "status", "--porcelain")) == before
    return done.stderr


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """This tree with one entry for the changelog, and an identity for commits."""
    tool, _ = tool_tree(tmp_path)
    git(tool, "config", "user.name", "Tests")
    git(tool, "config", "user.email", "tests@example.invalid")
    (tool / "changelog.d" / "+new.added.md").write_text("Something new.\n")
    git(tool, "add", "--all")
    git(tool, "commit", "--quiet", "--message", "Add something")
    return tool


def test_a_release_is_one_commit_and_its_tag(tool: Path) -> None:
    done = run(tool, "98.7.6")
    assert done.returncode == 0, done.stderr
    assert "git push --atomic origin HEAD v98.7.6" in done.stdout
    assert git(tool, "cat-file", "-t", "v98.7.6") == "tag\n"
    assert git(tool, "rev-parse", "v98.7.6^{commit}") == git(tool, "rev-parse", "HEAD")
    assert git(tool, "log", "-1", "--format=%s") == "Release 98.7.6\n"
    assert git(tool, "status", "--porcelain") == ""
    changed = set(git(tool, "diff", "--name-only", "HEAD~1").split())
    assert {"CHANGELOG.md", "docs/sbom.cdx.json", "pyproject.toml"} == {
        name for name in changed if not name.startswith("changelog.d/")
    }
    assert [path.name for path in (tool / "changelog.d").iterdir()] == ["README.md"]
    assert "- Something new.\n" in git(tool, "diff", "HEAD~1", "--", "CHANGELOG.md")
    assert git(tool, "diff", "HEAD~1", "--", "docs/sbom.cdx.json").count("98.7.6") == 4

    # as the workflow does before it builds
    assert run(tool, "--check", "v98.7.6").returncode == 0
    assert "pyproject.toml has version 98.7.6, the tag is v98.7.7" in refused(tool, "--check", "v98.7.7")
    assert "98.7.6 is not the tag of a release" in refused(tool, "--check", "98.7.6")

    assert "v98.7.6 exists" in refused(tool, "98.7.6")
    assert "nothing to release" in refused(tool, "98.7.7")


def test_a_release_that_is_prepared_is_tagged(tool: Path) -> None:
    """As after a pull request with the commit that the command made."""
    assert run(tool, "98.7.6").returncode == 0
    git(tool, "tag", "--delete", "v98.7.6")
    before = git(tool, "rev-parse", "HEAD")
    assert run(tool, "98.7.6").returncode == 0
    assert git(tool, "rev-parse", "HEAD", "v98.7.6^{commit}") == before * 2


def test_what_cannot_be_released_changes_nothing(tool: Path) -> None:
    for version in ("98.7", "v98.7.6", "98.7.06", "98.7.6.dev1", "--help"):
        refused(tool, version)
    (tag,) = git(tool, "tag").split()
    released = tag.removeprefix("v")
    assert f"the tag {tag} exists" in refused(tool, released)
    git(tool, "tag", "--delete", tag)
    if f"## {released}" in (tool / "CHANGELOG.md").read_text("utf-8"):
        assert f"has a section {released} already" in refused(tool, released)
    assert "changelog.d/ has entries" in refused(tool, "--check", tag)
    (tool / "new.txt").write_text("not committed\n")
    assert "the tree is not clean" in refused(tool, "98.7.6")


def test_a_tree_without_git_has_the_version_of_its_tag(tool: Path, tmp_path: Path) -> None:
    """Archives of a tag have no history; neither have the action's checkout and the image."""
    assert run(tool, "98.7.6").returncode == 0
    git(tool, "archive", "--output", str(tmp_path / "tool.tar"), "v98.7.6")
    shutil.unpack_archive(tmp_path / "tool.tar", tmp_path / "archive")
    script = "from setuptools import build_meta as b; print(b.prepare_metadata_for_build_wheel('.'))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path / "archive",
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.splitlines()[-1] == "tcready-98.7.6.dist-info"
