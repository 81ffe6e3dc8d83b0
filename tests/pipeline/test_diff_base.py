"""`--diff-base`: findings on the lines that changed, as a real git tells them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from tcready.api import check
from tcready.cli import main
from tcready.pipeline.git import changed_lines
from tcready.schema.enums import TcreadyError

NET = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        y = x.where(
            x.max().item()
            > 0,
            x,
        )
        return y
"""
Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """git in a new repository, which is the working folder, untouched by the configuration of whoever tests."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    (tmp_path / "gitconfig").write_text(
        dedent("""\
        [user]
        name = Tests
        email = tests@example.invalid
    """)
    )
    top = tmp_path / "top"
    top.mkdir()
    monkeypatch.chdir(top)

    def ask(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=top, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    ask("init", "-q", "-b", "main")
    return ask


def commit(git: Git, **files: str) -> None:
    for name, text in files.items():
        Path(f"{name}.py").write_text(text)
    git("add", "-A")
    git("commit", "-qm", "x")


def told(revision: str = "main", *targets: str, root: Path | None = None) -> list[tuple[str, int]]:
    report = check(targets or ["."], run=False, diff_base=revision, root=root)
    return [(found.path, found.line) for found in report.findings]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["check", "--no-run", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_findings_on_changed_lines_alone(git: Git, capsys: pytest.CaptureFixture[str]) -> None:
    commit(git, net=NET, other=NET)
    assert told() == []
    assert run("--diff-base", "main") == 0
    assert "4 findings on lines unchanged since main" in " ".join(capsys.readouterr().out.split())
    changed = "# moved\n" + NET.replace("x.sum() > 0", "x.sum() > 1")
    Path("net.py").write_text(changed)
    assert told() == [("net.py", 7)]
    assert run("--diff-base", "main") == 1
    git("add", ".")
    assert told() == [("net.py", 7)], "staged"
    git("switch", "-qc", "topic")
    commit(git)
    assert told() == [("net.py", 7)], "committed"
    assert told("HEAD") == []
    Path("net.py").write_text(changed.replace("            > 0,\n", "            > 1,\n"))
    assert told() == [("net.py", 7)], "a changed line beside a span of several lines is none of it"
    report = check(["net.py"], run=False, diff_base="main")
    assert report.narrowed is not None
    assert (report.narrowed.commit, report.narrowed.unchanged) == (git("rev-parse", "main"), 1)


SPAN = NET.replace(
    "if x.sum() > 0:",
    dedent("""\
    if (
                x.sum()
                + 1
                > 0
            ):"""),
)


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("            > 0\n", "            > 1\n", [7]),
        ("            + 1\n", "", [7]),
        ("            + 1\n", "            + 1\n            + 2\n", [7]),
        ("        if (\n", "        if (  # why\n", []),
        ("        ):\n", "\n        ):\n", []),
        ("        return y\n", "", []),
    ],
)
def test_a_span_of_several_lines_has_changed_with_any_of_them(git: Git, old: str, new: str, lines: list[int]) -> None:
    commit(git, net=SPAN)
    Path("net.py").write_text(SPAN.replace(old, new))
    assert [line for _, line in told()] == lines


def test_what_others_did_on_the_base_since_does_not_count(git: Git) -> None:
    commit(git, net=NET)
    git("switch", "-qc", "topic")
    commit(git, mine="x = 1\n")
    git("switch", "-q", "main")
    commit(git, net=NET.replace("x.sum() > 0", "x.sum() > 1"))
    git("switch", "-q", "topic")
    assert told() == []


def test_new_files_count_and_ignored_ones_do_not(git: Git) -> None:
    commit(git, net=NET)
    Path(".gitignore").write_text("ignored.py\n")
    for name in ("new.py", "ignored.py", "sub dir/größe.py"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(NET)
    assert {path for path, _ in told()} == {"new.py", "sub dir/größe.py"}


@pytest.mark.parametrize("name", ["sub dir/with space.py", "größe/模型.py", 'quo"te\\back\ttab.py', "++ b.py"])
def test_any_name_of_a_file(git: Git, name: str) -> None:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(NET)
    commit(git)
    path.write_text(NET.replace("x.sum() > 0", "x.sum() > 1"))
    assert told() == [(name, 6)]


def test_from_a_folder_below_the_top(git: Git) -> None:
    Path("below").mkdir()
    for folder in (".", "below"):
        Path(folder, "net.py").write_text(NET)
    commit(git)
    Path("below", "net.py").write_text("\n" + NET.replace("x.sum() > 0", "x.sum() > 1"))
    Path("below", "new.py").write_text(NET)
    assert told(root=Path("below")) == [("net.py", 7), ("new.py", 6), ("new.py", 9)]
    outside = check(["../net.py"], run=False, root=Path("below"), diff_base="main")
    assert outside.findings == ()
    Path("net.py").write_text(NET.replace("x.sum() > 0", "x.sum() > 1"))
    outside = check(["../net.py"], run=False, root=Path("below"), diff_base="main")
    assert [found.line for found in outside.findings] == [6]


def test_a_renamed_file_counts_where_it_changed(git: Git) -> None:
    commit(git, net=NET)
    git("mv", "net.py", "renamed.py")
    Path("renamed.py").write_text(NET.replace("x.sum() > 0", "x.sum() > 1"))
    assert told() == [("renamed.py", 6)]


def test_carriage_returns_and_odd_lines_count_as_python_counts_them(git: Git) -> None:
    odd = NET.replace("        y =", "        '\x0c \u2028 \x85'\n        y =").replace("\n", "\r\n")
    Path("net.py").write_bytes(odd.encode())
    commit(git)
    Path("net.py").write_bytes(odd.replace(".item()", ".item( )").encode())
    assert told() == [("net.py", 10)]


def test_no_configuration_of_the_user_changes_what_is_told(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(git, net=NET)
    like_a_patch = '"""\n++ b/other.py\n-- a/net.py\n@@ -1 +1 @@\ndiff --git a/net.py b/net.py\n"""\n'
    Path("net.py").write_text(like_a_patch + NET.replace("x.sum() > 0", "x.sum() > 1"))
    with (tmp_path / "gitconfig").open("a") as file:
        file.write(
            dedent("""\
                [color]
                ui = always
                [diff]
                noprefix = true
                mnemonicPrefix = true
                external = false
                interHunkContext = 9
                context = 7
                relative = true
                [core]
                quotepath = true
            """)
        )
    monkeypatch.setenv("GIT_DIFF_OPTS", "-u5")
    assert told() == [("net.py", 12)]


def test_a_revision_that_is_not_there_is_one_line_and_exit_2(
    git: Git, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(git, net=NET)
    for revision in ("absent", "--help", "HEAD~5", ""):
        assert run("--diff-base", revision) == 2
        told = capsys.readouterr()
        assert (told.out, len(told.err.splitlines())) == ("", 1)
        assert "no such commit" in told.err
    git("switch", "-q", "--orphan", "alone")
    commit(git, other=NET)
    with pytest.raises(TcreadyError, match="no commit in common"):
        changed_lines(Path.cwd(), "main")
    with pytest.raises(TcreadyError, match="no git checkout"):
        changed_lines(tmp_path, "main")


def test_with_a_baseline_what_it_holds_is_left_out_first(git: Git) -> None:
    commit(git, net=NET)
    check(["."], run=False, write_baseline="known.json")
    Path("net.py").write_text(NET.replace("x.sum() > 0", "(x.sum() > 0)").replace(".max()", ".min()"))
    report = check(["."], run=False, baseline="known.json", diff_base="main")
    assert [found.line for found in report.findings] == [9]
    assert report.narrowed is not None
    assert (report.narrowed.known, report.narrowed.gone, report.narrowed.unchanged) == (1, 1, 0)


def test_files_that_git_tells_nothing_of_count_as_changed(git: Git) -> None:
    commit(git, net=NET, hidden=NET, skipped=NET, binary=NET)
    Path(".gitattributes").write_text("binary.py binary\n")
    git("update-index", "--assume-unchanged", "hidden.py")
    git("update-index", "--skip-worktree", "skipped.py")
    Path("nested").mkdir()
    subprocess.run(["git", "init", "-q"], cwd="nested", check=True)
    for name in ("nested/net", "hidden", "skipped", "binary"):
        Path(f"{name}.py").write_text(NET.replace("> 0:", "> 1:"))
    told = {finding.path for finding in check(["."], run=False, diff_base="HEAD").findings}
    assert told == {"nested/net.py", "hidden.py", "skipped.py", "binary.py"}


def test_a_finding_that_is_told_for_another_of_its_line_has_changed_with_that(git: Git) -> None:
    text = dedent("""\
            import torch
            from torch import nn


            class Net(nn.Module):
                def forward(self, a, b):
                    return [torch.stack([a, b]).sum().item(), torch.stack([a, b]).max(
                        dim=0
                    ).values.sum().item()]
        """)
    commit(git, net=text)
    Path("net.py").write_text(text.replace("dim=0", "dim=1"))
    report = check(["net.py"], run=False, diff_base="HEAD")
    assert [finding.rule for finding in report.findings] == ["TCR201"]
