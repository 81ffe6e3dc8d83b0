"""What git says of a checkout, asked of real repositories."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tcready.pipeline import git

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    def run(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "net é.py").write_text("x = 1\n")
    (tmp_path / "sub" / "edited.py").write_text("x = 1\n")
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    run("init", "-q")
    run("config", "user.email", "ann@example.org")
    run("config", "user.name", "Ann")
    run("remote", "add", "origin", "git@github.com:ann/net.git")
    run("add", ".")
    run("commit", "-qm", "first")
    (tmp_path / "sub" / "edited.py").write_text("x = 2\n")
    (tmp_path / "sub" / "new.py").write_text("x = 1\n")
    (tmp_path / "sub" / "ignored.py").write_text("x = 1\n")
    run("add", "sub/new.py")
    return tmp_path


def test_only_files_as_committed_have_lines_to_link_to(repository: Path) -> None:
    asked = ("net é.py", "edited.py", "new.py", "ignored.py", "absent.py", "/etc/hostname")
    found = git.checkout(repository / "sub", asked)
    assert found is not None
    assert len(found.commit) == 40
    assert found.files == ("net é.py",)
    assert found.link == f"https://github.com/ann/net/blob/{found.commit}/sub/{{path}}#L{{line}}"
    assert git.checkout(repository, ["sub/net é.py", "sub/edited.py"]).files == ("sub/net é.py",)  # type: ignore[union-attr]


def test_outside_of_a_checkout_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git.checkout(tmp_path, ["x.py"]) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git.checkout(tmp_path, ["x.py"]) is None


def test_a_repository_without_a_commit_or_a_remote_is_no_error(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert git.checkout(tmp_path, ["x.py"]) is None


@pytest.mark.parametrize(
    ("remote", "page"),
    [
        ("https://github.com/a/b.git", "https://github.com/a/b/blob/c0/"),
        ("https://user:secret@github.com/a/b", "https://github.com/a/b/blob/c0/"),
        ("ssh://git@gitlab.example.org:2222/g/s/b.git", "https://gitlab.example.org/g/s/b/-/blob/c0/"),
        ("https://gitlab.example.org:8443/g/b", "https://gitlab.example.org:8443/g/b/-/blob/c0/"),
        ("ann@gitlab.local:/home/ann/b.git", None),
        ("git@bitbucket.org:a/b.git", None),
        ("/srv/git/github.git", None),
        ("file:///srv/github", None),
        ("", None),
    ],
)
def test_pages_of_known_hosts_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remote: str, page: str | None
) -> None:
    answers = {"rev-parse": "c0\n\n", "ls-tree": "m.py\0", "diff": "", "remote": f"{remote}\n"}
    monkeypatch.setattr(git, "ask", lambda _root, command, *_: answers[command])
    (tmp_path / "m.py").write_text("")
    found = git.checkout(tmp_path, ["m.py"])
    assert found is not None
    assert found.link == (f"{page}{{path}}#L{{line}}" if page else None)
    assert "secret" not in str(found)
