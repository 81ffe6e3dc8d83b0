"""`tcready fix` and `tcready prove` as a user calls them."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import jsonschema
import pytest
from tcready import api
from tcready.fixes.candidates import Candidate, Files, identity_of, next_ones
from tcready.fixes.patching import ChangedFile, apply_patch, changed_by, write
from tcready.fixes.rewriting.changes import LineMap, changed
from tcready.schema.edit import Edit
from tcready.schema.enums import TcreadyError
from tcready.schema.observation import Observation
from tcready.schema.proof import FixChange, Span, Trial
from tcready.static.frontend import source

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "docs" / "schema" / "fixes.schema.json").read_text("utf-8"))
MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def gate(self, x):
        # only large sums
        if x.sum() > 1000:  # why
            x = x * 2
        return x

    def forward(self, x):
        x = self.lin(x)
        print(x.shape)
        x = self.gate(x)
        if x.mean() > 3:
            raise ValueError("too large")
        return x


def get_inputs():
    return [torch.randn(4, 8)]
"""


def tcready(folder: Path, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcready", *arguments]
    return subprocess.run(command, cwd=folder, input=stdin, capture_output=True, text=True, check=False, timeout=300)


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.email=a@b", "-c", "user.name=a", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    git(tmp_path, "init", "-q", ".")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def test_without_a_run_only_what_is_safe_is_proposed(project: Path) -> None:
    done = tcready(project, "fix", "model.py")
    assert done.returncode == 1
    assert "+        if not torch.compiler.is_compiling():" in done.stdout
    assert "torch.where" not in done.stdout
    assert "model.py:12 TCR101 left out" in done.stderr
    subprocess.run(["git", "apply"], cwd=project, input=done.stdout, text=True, check=True)
    again = tcready(project, "fix", "model.py")
    assert again.stdout == ""
    assert again.returncode == 1, "breaks are left"


PRINTS = """\
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        BODY
        return x * 2
"""


@pytest.mark.parametrize(
    ("body", "options", "code"),
    [
        ("print(x.shape)", (), 0),
        ("print(x.shape)", ("--apply", "--allow-dirty"), 0),
        ("print(x.shape)", ("--output-format", "json"), 0),
        ("x = x + 1", (), 0),
        ("if x.sum() > 0:\n            return x", (), 1),
        ("if x.sum() > 0:\n            print(x.shape)", (), 0),
    ],
)
def test_exit_code_of_a_fix_without_a_run(body: str, options: tuple[str, ...], code: int, project: Path) -> None:
    """0 if the proposed changes leave nothing to fix, also if they are only printed."""
    (project / "model.py").write_text(PRINTS.replace("BODY", body))
    done = tcready(project, "fix", "model.py", *options)
    assert done.returncode == code, done.stderr


@pytest.mark.torch
@pytest.mark.slow
def test_changes_are_proved_written_and_not_found_again(project: Path) -> None:
    done = tcready(project, "fix", "model.py", "--verify", "--apply", "--patch-dir", "out")
    assert done.returncode in (0, 1), done.stderr
    made = (project / "model.py").read_text()
    assert "x = torch.where(x.sum() > 1000, x * 2, x)" in made
    assert "# only large sums" in made
    assert "# why" in made
    told = json.loads((project / "out" / "fixes.json").read_text())
    jsonschema.validate(told, SCHEMA)
    assert {change["state"] for change in told["changes"]} == {"proved"}
    sides = [side for change in told["changes"] for side in change["proof"]["sides"]]
    assert all(side["true"] and side["false"] for side in sides)
    assert told["breaks_after"] < told["breaks_before"]
    git(project, "checkout", "-q", "model.py")
    for program in (["git", "apply"], ["patch", "-p1"]):
        subprocess.run(program, cwd=project, input=(project / "out" / "own.patch").read_text(), text=True, check=True)
        assert (project / "model.py").read_text() == made
        git(project, "checkout", "-q", "model.py")
    (project / "model.py").write_text(made)
    again = tcready(project, "fix", "model.py", "--verify")
    assert again.stdout == ""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("        if x.sum() > 1000:  # why\n            x = x * 2\n", "        x = torch.where(x.sum() > 1000, x * 2, x)\n", 0),
        ("        if x.sum() > 1000:  # why\n            x = x * 2\n", "        x = torch.where(x.sum() > 999, x * 3, x)\n", 1),
        ("        # only large sums\n", "", 1),
    ],
    ids=["holds", "does something else", "cures nothing"],
)  # fmt: skip
def test_a_patch_of_anybody_is_proved(old: str, new: str, code: int, project: Path) -> None:
    assert old in MODEL
    (project / "model.py").write_text(MODEL.replace(old, new))
    patch = git(project, "diff")
    git(project, "checkout", "-q", "model.py")
    done = tcready(project, "prove", "-", "model.py", stdin=patch)
    assert done.returncode == code, done.stdout + done.stderr
    assert (project / "model.py").read_text() == MODEL


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("nothing", "is no patch"),
        ("\n", "is empty"),
        (
            dedent("""\
            --- a/no.py
            +++ b/no.py
            @@ -1 +1 @@
            -a
            +b
        """),
            "neither here nor installed",
        ),
        (
            dedent("""\
            --- a/data.json
            +++ b/data.json
            @@ -1 +1 @@
            -1
            +5
        """),
            "only changes of Python sources",
        ),
        (
            dedent("""\
            --- a/../o.py
            +++ b/../o.py
            @@ -1 +1 @@
            -a
            +b
        """),
            "give paths below the working folder",
        ),
        (
            dedent("""\
            --- a/model.py
            +++ b/model.py
            @@ -1 +1 @@
            -no such line
            +b
        """),
            "does not apply",
        ),
    ],
)
def test_a_patch_that_does_not_apply_is_one_line(patch: str, words: str, project: Path) -> None:
    (project / "data.json").write_text("1\n")
    done = tcready(project, "prove", "-", "model.py", stdin=patch)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("no_such_setting", "has no setting 'no_such_setting'"),
        ("capture_scalar_outputs=3", "takes True, as in `capture_scalar_outputs`, not"),
        ("capture_scalar_outputs=abc", "takes True, as in `capture_scalar_outputs`, not"),
        ("recompile_limit", "takes a whole number"),
        ("recompile_limit=print", "takes a whole number, as in `recompile_limit=64`, not"),
        ("reorderable_logging_functions", "takes a function, as in"),
        ("reorderable_logging_functions=3", "takes a function, as in"),
        ("capture_scalar_outputs=False", "is no setting of torch._dynamo.config that can be made"),
    ],
)
def test_a_setting_that_cannot_be_made_is_refused(setting: str, words: str, project: Path) -> None:
    with pytest.raises(TcreadyError, match=words):
        api.prove("", "model.py", root=project, beside=[setting])


def test_uncommitted_changes_are_not_written_over(project: Path) -> None:
    (project / "model.py").write_text(MODEL + "\n# mine\n")
    done = tcready(project, "fix", "model.py", "--apply")
    assert done.returncode == 2
    assert "not committed" in done.stderr
    assert done.stdout == ""  # the named file is asked about before anything is tried
    whole = tcready(project, "fix", ".", "--apply")
    assert whole.returncode == 2
    assert "not committed" in whole.stderr
    assert "+        if not torch.compiler.is_compiling():" in whole.stdout
    assert (project / "model.py").read_text() == MODEL + "\n# mine\n"
    assert tcready(project, "fix", "model.py", "--apply", "--allow-dirty").returncode == 1
    assert "is_compiling" in (project / "model.py").read_text()
    assert (project / "model.py").read_text().endswith("# mine\n")


def file(folder: Path, name: str, before: str, after: str) -> ChangedFile:
    return ChangedFile(folder / name, name, before, after)


def test_nothing_is_written_if_one_file_may_not_be(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    inside, outside = tmp_path / "in" / "a.py", tmp_path / "b.py"
    for path in (inside, outside):
        path.write_text("x = 1\n")
    first = file(tmp_path / "in", "a.py", "x = 1\n", "x = 2\n")
    cases: Sequence[tuple[Sequence[ChangedFile], str]] = (
        ([first, file(tmp_path, "b.py", "x = 1\n", "x = 2\n")], "outside the working folder"),
        ([first, file(tmp_path / "in", "a.py", "x = 0\n", "x = 2\n")], "changed since it was read"),
    )
    for files, words in cases:
        with pytest.raises(TcreadyError, match=words):
            write(files, tmp_path / "in", dirty=True)
        assert inside.read_text() == outside.read_text() == "x = 1\n"
        assert sorted(os.listdir(tmp_path / "in")) == ["a.py"]


@pytest.mark.parametrize("text", ["\ufeffx = 1\r\ny = 'é'\r\n", "# coding: latin-1\nx = 'é'\n"])
def test_encodings_and_line_ends_stay(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    data = text.encode("latin-1" if "latin" in text else "utf-8")
    path.write_bytes(data)
    before = source.read(path).text
    write([ChangedFile(path, "a.py", before, before.replace("x = ", "xx = "))], tmp_path, dirty=True)
    assert path.read_bytes() == data.replace(b"x = ", b"xx = ")


ENCODED = {
    "latin-1": ("# coding: latin-1\n# é\n" + MODEL.replace("# why", "# é")).encode("latin-1"),
    "a byte order mark": b"\xef\xbb\xbf" + MODEL.replace("import torch\nfrom torch import nn", "from torch import nn").encode(),
    "carriage returns": MODEL.replace("\n", "\r\n").encode(),
}  # fmt: skip


@pytest.mark.parametrize("name", ENCODED)
def test_a_patch_has_the_bytes_of_the_file(name: str, project: Path) -> None:
    path, text = project / "model.py", ENCODED[name]
    path.write_bytes(text)
    asked = [sys.executable, "-m", "tcready", "fix", "model.py", "--unsafe", "--patch-dir", "out", "-q"]
    shown = subprocess.run(asked, cwd=project, capture_output=True, check=False).stdout
    subprocess.run([*asked, "--apply", "--allow-dirty"], cwd=project, capture_output=True, check=False)
    jsonschema.validate(json.loads((project / "out" / "fixes.json").read_text()), SCHEMA)
    made = path.read_bytes()
    assert b"torch.where" in made
    for patch in (shown, (project / "out" / "own.patch").read_bytes()):
        path.write_bytes(text)
        subprocess.run(["git", "apply"], cwd=project, input=patch, check=True)
        assert path.read_bytes() == made


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.release
def test_a_file_of_another_encoding_is_proved(project: Path) -> None:
    path = project / "model.py"
    text = ENCODED["latin-1"].replace(b"\n", b"\r\n").replace(b"class", b"\x0c\r\nclass")
    path.write_bytes(text)
    old = b"        if x.sum() > 1000:  # \xe9\r\n            x = x * 2\r\n"
    assert old in text
    git(project, "commit", "-qam", "second")
    path.write_bytes(text.replace(old, b"        x = torch.where(x.sum() > 1000, x * 2, x)  # \xe9\r\n"))
    asked = ["git", "diff", "--output=change.patch"]
    subprocess.run(asked, cwd=project, check=True)
    git(project, "checkout", "-q", "model.py")
    done = tcready(project, "prove", "change.patch", "model.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "`x.sum() > 1000` was true" in done.stdout


@pytest.mark.slow
def test_a_killed_fix_leaves_files_whole(project: Path) -> None:
    fixed = api.fix("model.py", root=project).files[0].after
    draw = random.Random(0)
    for _ in range(8):
        (project / "model.py").write_text(MODEL)
        process = subprocess.Popen([sys.executable, "-m", "tcready", "fix", "model.py", "--apply", "-q"], cwd=project)
        time.sleep(draw.uniform(0.05, 1.2))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (project / "model.py").read_text() in (MODEL, fixed)


HUNK = dedent("""\
     a
    -b
    +c
     d
""")


@pytest.mark.parametrize(
    ("header", "body", "words"),
    [
        ("@@ -1,4 +1,3 @@", HUNK, "line 3 is `@@ -1,4 +1,3 @@`, but 3 old and 3 new lines follow it"),
        ("@@ -1,2 +1,3 @@ def f", HUNK, "line 3 is `@@ -1,2 +1,3 @@`, but 3 old and 3 new lines follow it"),
        ("@@ -1 +1 @@", HUNK + "-- \n2.40\n", "but 3 old and 3 new lines follow it"),
        (
            "@@ -1,9 +1,3 @@",
            HUNK
            + dedent("""\
            --- a/b.py
            +++ b/b.py
            @@ -1 +1 @@
            -a
            +b
        """),
            "line 3 is `@@ -1,9 +1,3 @@`",
        ),
        (
            "@@ -1,3 +1,3 @@",
            HUNK
            + dedent("""\
            @@ -9,7 +9,1 @@
            -x
            +y
        """),
            "line 8 is `@@ -9,7 +9,1 @@`, but 1 old and 1 new lines",
        ),
    ],
)
def test_a_hunk_whose_counts_do_not_fit_is_named(header: str, body: str, words: str) -> None:
    with pytest.raises(TcreadyError, match="does not apply: corrupt patch at line ") as raised:
        changed_by(f"--- a/model.py\n+++ b/model.py\n{header}\n{body}", "p.diff")
    assert words in str(raised.value)


@pytest.mark.parametrize("tail", ["", "\n", "\n\n"])
def test_counts_that_fit_are_not_blamed(tail: str, project: Path) -> None:
    with pytest.raises(TcreadyError, match="does not apply") as raised:
        apply_patch(
            f"--- a/model.py\n+++ b/model.py\n@@ -1,3 +1,3 @@\n{HUNK}{tail}", "p.diff", lambda name: project / name
        )
    assert "correct these counts" not in str(raised.value)


def test_line_ends_that_do_not_fit_are_named(project: Path) -> None:
    """Nobody sees them, and git says no more than where."""
    diff = "--- a/model.py\n+++ b/model.py\n@@ -1,3 +1,3 @@\n-import torch\n+import torch as th\n from torch import nn\n \n"

    def refused(text: str) -> str:
        with pytest.raises(TcreadyError, match=r"does not apply: patch failed: model.py:1") as raised:
            apply_patch(text, "p", lambda name: project / name)
        return str(raised.value)

    assert "the lines of model.py end in LF, those of the patch in CRLF" in refused(diff.replace("\n", "\r\n"))
    assert " end in " not in refused(diff.replace("-import", "-not"))
    (project / "model.py").write_bytes(MODEL.replace("\n", "\r\n").encode())
    assert "the lines of model.py end in CRLF, those of the patch in LF" in refused(diff)
    (found,) = apply_patch(diff.replace("\n", "\r\n"), "p", lambda name: project / name)
    assert found.after.startswith("import torch as th\r\n")


def test_a_patch_of_several_files_is_carried_out_on_copies(project: Path) -> None:
    (project / "sub dir").mkdir()
    (project / "sub dir" / "b.py").write_text("x = 1\n")
    diff = (
        "--- a/model.py\n+++ b/model.py\n@@ -1,3 +1,3 @@\n-import torch\n+import torch as th\n from torch import nn\n \n"
        "--- a/sub dir/b.py\t\n+++ b/sub dir/b.py\t\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
    )
    found = apply_patch(diff, "p", lambda name: project / name)
    assert [(each.shown, each.after.splitlines()[0]) for each in found] == [
        ("model.py", "import torch as th"),
        ("sub dir/b.py", "x = 2"),
    ]
    assert (project / "model.py").read_text() == MODEL


def test_a_branch_that_only_eager_code_keeps_is_taken_away() -> None:
    before = dedent("""\
        def f(x):
            if x > 0:
                return x
            return -x
    """)
    after = dedent("""\
            def f(x):
                if torch.compiler.is_compiling():
                    return torch.cond(x > 0, lambda: x, lambda: -x)
                else:
                    if x > 0:
                        return x
                    return -x
        """)
    path = Path("m.py")
    found = changed("m.py", source.of_text(path, before), source.of_text(path, after))
    assert [span.line for span in found.tests] == [2]
    assert sorted({span.line for span in found.written}) == [3, 6, 7]
    assert {span.line for span in found.compiled} == {3, 6, 7}
    assert found.conditions == ()


@pytest.mark.parametrize(
    ("before", "after", "is_kept"),
    [
        (
            "few and self.sorts is None and not is_compiling()",
            "not is_compiling() and self.sorts is None and few",
            True,
        ),
        ("few or self.flag", "self.flag or few", True),
        ("few and self.flag", "self.flag or few", False),
        ("few and self.flag", "self.flag and not few", False),
        ("few and self.count()", "self.count() and few", False),
        ("few and (self.flag or x)", "(x or self.flag) and few", False),
        ("few and (last := self.flag)", "(last := self.flag) and few", False),
    ],
)
def test_the_order_of_operands_without_effects_takes_no_test_away(before: str, after: str, is_kept: bool) -> None:
    texts = [f"def f(self, few, x):\n    if {test}:\n        x = -x\n    return x\n" for test in (before, after)]
    found = changed("m.py", *(source.of_text(Path("m.py"), text) for text in texts))
    assert [span.line for span in found.tests] == ([] if is_kept else [2])
    assert [span.line for span in found.turned] == ([2] if is_kept else [])


WATCHED = {
    "an operand": ("hot = bool(x) and f(x)", "hot = 1", ["bool(x)"], []),
    "a link": ("hot = 0 < x < 1", "hot = 1", ["0 < x"], []),
    "a new choice": ("y = x", "y = x if g(x) else f(x)", [], ["g(x)"]),
    "a new operand": ("y = x", "y = h() and f(x)", [], ["h()"]),
    "a new filter": ("y = x", "y = [v for v in x if v]", [], ["v"]),
    "a new assertion": ("y = x", "assert f(x), 'no'", [], ["f(x)"]),
    "in a lambda": ("y = lambda: 1 if x else 2", "y = 1", ["x"], []),
    "in a function of its own": ("def y():\n        return 1 if x else 2", "y = 1", ["x"], []),
    "turned round": ("y = f(x) if x is None else x", "y = x if x is not None else f(x)", [], []),
    "apart from Python's part": ("y = 1 if k and x else 2", "y = where(x) if k else 2", ["k and x", "x"], []),
    "compiled alone": ("y = x", "y = f(x) if is_compiling() and x else x", [], ["x"]),
}


@pytest.mark.parametrize("name", WATCHED)
def test_what_decides_is_watched_operand_by_operand(name: str) -> None:
    one, two, gone, asked = WATCHED[name]
    texts = [f"def a(x, k):\n    {body}\n    return x\n" for body in (one, two)]
    sources = [source.of_text(Path("m.py"), text) for text in texts]
    found = changed("m.py", *sources)

    def written(spans: Sequence[Span], text: str) -> list[str]:
        lines = text.splitlines()
        return [lines[span.line - 1][span.column - 1 : span.end_column - 1] for span in spans]

    assert written(found.tests, texts[0]) == gone
    assert written(found.conditions, texts[1]) == asked


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("LIMIT = 1000.0\n", "LIMIT = 1e6\n", [1]),
        ("class A:\n    limit = 3\n", "class A:\n    limit = 4\n", [2]),
        ("def f(x, limit=3):\n    return x\n", "def f(x, limit=4):\n    return x\n", [1]),
        ("import a\n", "import a\na.b = lambda: None\n", [2]),
        (
            "import a\n",
            dedent("""\
            import a
            import b
            LIMIT = 3
        """),
            [],
        ),
        ("f = lambda x: x\n", "f = lambda x: x + 1\n", []),
    ],
)
def test_what_is_given_another_value_at_import_is_told(before: str, after: str, lines: list[int]) -> None:
    found = changed("m.py", *(source.of_text(Path("m.py"), text) for text in (before, after)))
    assert sorted({span.line for span in found.once}) == lines


SELDOM = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)
        self.order = None

    def forward(self, x):
        x = self.lin(x)
        few = int((x > 0).sum()) < 3
        # where sorting pays
        if (few and not torch.compiler.is_compiling()
                and self.order is not None):  # seldom
            x = x.sort()[0]
        return x


def get_inputs():
    return [torch.randn(4, 8)]
"""


def proved(project: Path, text: str) -> dict[str, Any]:
    """What `fix --verify` says of a model; its exit code says whether a break is left."""
    (project / "model.py").write_text(text)
    done = tcready(project, "fix", "model.py", "--verify", "--output-format", "json")
    found = json.loads(done.stdout)
    assert done.returncode == (1 if found["breaks_after"] else 0)
    return found


PARTS = """\
import torch
from torch import nn


def attend(q, k, v, attention_mask=None):
    scores = q @ k.transpose(2, 3)
    scores = scores if attention_mask is None else scores + attention_mask
    return (scores.softmax(-1) @ v).transpose(1, 2), scores


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x, sizes):
        q, k, v = (each.unflatten(-1, (2, 4)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        splits = [torch.split(t, sizes.tolist(), dim=2) for t in (q, k, v)]
        parts = [attend(a, b, c, attention_mask=None)[0] for a, b, c in zip(*splits)]
        return torch.cat(parts, dim=1)


def get_inputs():
    return [torch.randn(1, 7, 8), torch.tensor([3, 4])]
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.release
def test_padded_parts_are_proved_in_a_model_whose_parts_always_fit(project: Path) -> None:
    (project / "model.py").write_text(PARTS)
    done = tcready(project, "fix", "model.py", "--verify", "--output-format", "json")
    (change,) = json.loads(done.stdout)["changes"]
    assert (change["state"], change["reason"]) == ("proved", None)
    assert change["proof"]["breaks_after"] == 0


BREAK_BEHIND = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        for column in range(3):
            rows = torch.where(x[:, column] > 0)[0]
            if rows.shape[0] == 0:
                continue
            x = x + x[rows.tolist()].sum(0)
        return x


def get_inputs():
    return [torch.randn(6, 3)]
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.release
def test_a_setting_behind_which_another_line_breaks_is_no_cure(project: Path) -> None:
    found = proved(project, BREAK_BEHIND)
    assert found["changes"] == []
    assert found["settings_code"] == []
    assert "capture_dynamic_output_shape_ops" in {s for each in found["refused"] for s in each["settings"]}
    assert (found["breaks_before"], found["breaks_after"]) == (1, 1)


@pytest.mark.torch
@pytest.mark.slow
def test_a_setting_and_the_edit_that_it_needs_are_one_change(project: Path) -> None:
    found = proved(project, SELDOM)
    (change,) = found["changes"]
    assert change["settings"] == ["capture_scalar_outputs"]
    assert change["proof"]["breaks_after"] == 0
    assert found["settings"] == {"TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS": "1"}
    lines = [line for line in found["patch"].splitlines() if line[:1] in "+-"][2:]
    assert lines == [
        "-        if (few and not torch.compiler.is_compiling()",
        "-                and self.order is not None):  # seldom",
        "+        if (not torch.compiler.is_compiling() and self.order is not None",
        "+                and few):  # seldom",
    ]


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.release
def test_what_no_call_runs_is_not_proved(project: Path) -> None:
    text = MODEL.replace("def forward(self, x):", "def forward(self, x, mask=None):").replace(
        dedent("""\
                    return x


            def"""),
        dedent("""\
                    if mask is not None:
                        x = x * mask
                    return x


            def"""),
    )
    (project / "model.py").write_text(text)
    git(project, "commit", "-qam", "second")
    where = "        x = torch.where(x.sum() > 1000, x * 2, x)\n"
    cured = text.replace("        if x.sum() > 1000:  # why\n            x = x * 2\n", where)
    (project / "model.py").write_text(cured.replace("x = x * mask", "x = x + mask"))
    patch = git(project, "diff")
    git(project, "checkout", "-q", "model.py")
    done = tcready(project, "prove", "-", "model.py", stdin=patch)
    assert done.returncode == 1
    assert "no call runs the changed code at model.py:23" in done.stdout


def test_what_a_change_takes_away() -> None:
    before = dedent("""\
        class A:
            def f(self, x):
                if x > 0:
                    x = 1
                if self.n:
                    x = 2
                return x


        def g(x):
            return 1 if x else 2
    """)
    after = before.replace("        if x > 0:\n            x = 1\n", "        x = x + 1\n")
    path = Path("m.py")
    found = changed("m.py", source.of_text(path, before), source.of_text(path, after))
    assert [place.name for place in found.functions] == ["A.f"]
    assert [(span.line, span.column, span.end_column) for span in found.tests] == [(3, 12, 17)]
    assert [(span.line, span.end_line) for span in found.gone] == [(4, 4)]
    assert [(span.line, span.end_line) for span in found.written] == [(3, 3)]
    lines = LineMap(before, after)
    assert [lines.came_from(line) for line in (1, 2, 3, 4, 5, 10)] == [1, 2, None, 5, 6, 11]


LIMIT = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        y = self.lin(x) * self.number
        print("block")
        return y


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(number + 2) for number in range(10)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            torch._dynamo.graph_break()
        return x


def get_inputs():
    return [torch.randn(4, 8)]
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.release
def test_a_higher_limit_is_not_given_where_another_setting_makes_it_needless(project: Path) -> None:
    (project / "model.py").write_text(LIMIT)
    done = tcready(project, "fix", "model.py", "--verify", "--output-format", "json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert found["settings"] == {}
    assert found["settings_code"] == ["torch._dynamo.config.allow_unspec_int_on_nn_module = True"]
    reasons = {tuple(each["settings"]): each["reason"] for each in found["refused"]}
    assert reasons["recompile_limit=64",] == "not needed: the other changes achieve the same without it"
    assert found["breaks_after"] == 1  # the one that is asked for
    left = [LIMIT.splitlines()[line - 1].strip() for _, line in found["left"]]
    assert left == ["torch._dynamo.graph_break()"]


GRID = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, grid, kinds, mask):
        counts = grid[:, 0] * grid[:, 1]
        widths = torch.repeat_interleave(grid[:, 1], counts)  # of each row
        x = x.sum() * (torch.arange(counts.sum()) % widths)
        return x, self.kept(kinds, mask)

    def kept(self, kinds, mask):
        found = 0
        for kind in kinds[mask].tolist():
            found = found + kind
        return found


def get_inputs():
    return torch.randn(10, 8), torch.tensor([[2, 3], [2, 2]]), torch.arange(4), torch.tensor([True, False] * 2)
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.release
def test_a_size_is_read_where_the_setting_for_all_sizes_does_not_hold(project: Path) -> None:
    """With that setting the mask is read inside the graph, and Dynamo raises at `tolist()` of what has no known length."""
    (project / "model.py").write_text(GRID)
    done = tcready(project, "fix", "model.py", "--verify", "--output-format", "json")
    found = json.loads(done.stdout)
    lines = [line for line in found["patch"].splitlines() if line[:1] in "+-"][2:]
    was = "        widths = torch.repeat_interleave(grid[:, 1], counts"
    assert lines == [f"-{was})  # of each row", f"+{was}, output_size=counts.sum().item())  # of each row"]
    assert found["settings"] == {"TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS": "1"}
    refused = {"capture_dynamic_output_shape_ops": "Could not guard on data-dependent expression"}
    for name, why in refused.items():
        assert any(each["settings"] == [name] and why in each["reason"] for each in found["refused"])
    assert found["left"] == [["model.py", GRID.splitlines().index("        for kind in kinds[mask].tolist():") + 1]]


def test_what_is_tried_next_for_each_break() -> None:
    def candidate(line: int, text: str = "", *settings: str) -> Candidate:
        edits = (Edit("a.py", line, 1, line, 2, text),) if text else ()
        return Candidate(FixChange("a.py", line, "f", None, (), "", edits, settings, None, "not_run"), {})

    edit, second, setting = candidate(1, "y"), candidate(1, "z"), candidate(2, "", "s")
    with_setting, elsewhere = candidate(2, "n.item()", "t"), candidate(3, "n.item()", "t")
    every = [edit, second, setting, with_setting, elsewhere]
    assert next_ones(every, set()) == [edit, setting], "no edit beside a setting before settings alone were tried"
    tried = {identity_of(each.change) for each in (edit, setting)}
    assert next_ones(every, tried) == [second, with_setting, elsewhere]
    tried.add(identity_of(with_setting.change))
    assert elsewhere in next_ones(every, tried), "the same text elsewhere is another change"
    assert next_ones([candidate(1, "", "s"), edit], set()) == [edit], "the edit was not tried yet"


def test_lines_as_they_stood_before_changes(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one = 1\ntwo = 2\n")
    files = Files(tmp_path, ())
    path = str(tmp_path / "a.py")
    assert files.original_lines(path, [2, 1]) == [1, 2]
    files.now[path] = dedent("""\
        import torch
        one = 1
        two = 2
    """)
    assert files.original_lines(path, [3, 2]) == [1, 2]


OF_TWO = """\
import torch
from torch import nn
from shared import gate


class Model(nn.Module):
    def forward(self, x):
        return gate(x) + 1


def get_inputs():
    return [torch.randn(4, 8)]
"""
GATE = """\
import torch


def gate(x):
    if x.sum() > 1000:
        x = x * 0.5
    return x
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(
    "whole",
    [
        pytest.param(False, id="both of floats", marks=pytest.mark.release),
        pytest.param(True, id="one of whole numbers"),
    ],
)
def test_several_targets_are_proved_one_after_the_other(whole: bool, project: Path) -> None:
    """A change of what both call holds in both, or is made for neither; what cannot be run is told beside it."""
    (project / "shared.py").write_text(GATE)
    (project / "one.py").write_text(OF_TWO)
    other = OF_TWO.replace("torch.randn(4, 8)", "torch.ones(4, 8, dtype=torch.long)") if whole else OF_TWO
    (project / "two.py").write_text(other)
    git(project, "add", ".")
    git(project, "commit", "-qm", "second")
    done = tcready(project, "fix", "one.py", "gone.py", "two.py", "--verify", "--apply", "--output-format", "json")
    assert done.returncode == 2
    assert "gone.py: no such file" in done.stderr
    told = json.loads(done.stdout)
    jsonschema.validate(told, SCHEMA)
    assert [each["target"] for each in told["targets"]] == ["gone.py", "one.py::Model", "two.py::Model"]
    made = (project / "shared.py").read_text()
    if whole:
        assert made == GATE
        assert told["changes"] == []
        assert any("in two.py::Model" in each["reason"] for each in told["refused"])
        assert [each["breaks_after"] for each in told["targets"]] == [None, 1, 1]
    else:
        assert "torch.where(x.sum() > 1000, x * 0.5, x)" in made
        assert [each["targets"] for each in told["changes"]] == [["one.py::Model", "two.py::Model"]]
        assert [each["breaks_after"] for each in told["targets"]] == [None, 0, 0]


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [("x = x * 2", "refused", "left out"), ("self.rows.append(x)", "no_fix", "no change")],
    ids=["not safe", "no rewrite"],
)
def test_operators_of_one_test_are_told_once(body: str, kind: str, words: str, tmp_path: Path) -> None:
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
        f"        if x.sum() > 0 and x.max() > 1 or not x.min() > 2:\n            {body}\n        return x\n"
    )
    (tmp_path / "model.py").write_text(text)
    result = api.fix("model.py", root=tmp_path).result
    assert len(getattr(result, kind)) == 1
    assert api.render(result, "text").count(words) == 1
    made = api.fix("model.py", root=tmp_path, unsafe=True).result
    assert len(made.changes) == (kind == "refused")
    twice = replace(result, **{kind: tuple(replace(each, gb_ids=("GB1",)) for each in getattr(result, kind)) * 2})
    assert api.render(twice, "text").count(words) == 1


FAMILIES = """\
import copy, ctypes, threading, time
import scipy.special
import torch
from torch import nn

libm = ctypes.CDLL("libm.so.6")
LOCK = threading.Lock()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = []
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        {line}
        return x
"""


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("x = torch.ops.mine.scale(x, 2.0)", "TCR404"),
        ("x = x * libm.abs(3)", "TCR402"),
        ("x = x + torch.from_numpy(scipy.special.expit(x.numpy()))", "TCR416"),
        ("self.rows.append(x)", None),
        ("x = x * (time.time() - 1)", "TCR305"),
        ("with LOCK: self.rows.append(x)", "TCR407"),
        ("x = nn.Linear(8, 8)(x)", "TCR315"),
        ("self.last = copy.deepcopy(self.lin)", "TCR321"),
        ("x = x + x.new_zeros(int(x.abs().sum())).sum()", "TCR203"),
        ("x = x + torch.unique(x).sum()", "TCR206"),
    ],
)
def test_families_that_the_page_lists_are_not_written_anew(line: str, rule: str | None, tmp_path: Path) -> None:
    """With a rewrite, a row of the table in docs/pages/fix.md goes."""
    (tmp_path / "model.py").write_text(FAMILIES.replace("{line}", line))
    result = api.fix("model.py", root=tmp_path, unsafe=True).result
    assert result.changes == ()
    assert {each.rule for each in result.no_fix} == ({rule} if rule else set())
    page = (Path(__file__).resolve().parents[2] / "docs" / "pages" / "fix.md").read_text("utf-8")
    rows = page.partition("## Limits")[2].partition("\n\nPrinting")[0]
    assert (rule or "TCR312") in rows


@pytest.mark.torch
def test_a_finding_that_stays_has_the_reasons_of_its_own_rule(tmp_path: Path) -> None:
    """What rules of the same kind of break say of the line is none of it."""
    (tmp_path / "model.py").write_text(
        dedent("""\
            import torch
            from torch import nn


            class Model(nn.Module):
                def forward(self, x, scale=1.0):
                    if (x.sum() > 0) + scale:
                        self.seen = x
                    return x * 2


            def get_inputs():
                return [torch.randn(4, 8)]
        """)
    )
    result = api.fix("model.py", root=tmp_path, verify=True).result
    (left,) = result.no_fix
    assert left.rule == "TCR101"
    assert "validate_args" not in left.reason
    assert "torch has no function for" not in left.reason


SPEAKING = """\
import logging
import warnings

import torch
from torch import nn

logger = logging.getLogger(__name__)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        y = self.lin(x)
        print("mean", y.mean())
        y = y * 2
        warnings.warn("careful")
        return y.relu()


def get_inputs():
    return [torch.randn(4, 8)]
"""
BEHIND = "torch._dynamo.config.reorderable_logging_functions.add(print)"


def test_output_that_is_to_be_kept_is_not_left_out(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(SPEAKING.replace("y = y * 2", "logger.info('here')"))
    assert "is_compiling" in tcready(tmp_path, "fix", "model.py").stdout
    done = tcready(tmp_path, "fix", "model.py", "--keep-output")
    assert done.stdout == ""
    assert "model.py:17 TCR301 left out: It is printed after the graph has run" in done.stderr
    assert "model.py:18 TCR302: no change\n    Compiled code would not print, log or warn" in done.stderr
    done = tcready(tmp_path, "fix", "model.py", "--keep-output", "--unsafe", "--output-format", "json")
    told = json.loads(done.stdout)
    jsonschema.validate(told, SCHEMA)
    warned = "import warnings; torch._dynamo.config.reorderable_logging_functions.add(warnings.warn)"
    assert told["settings_code"] == [BEHIND, warned]
    assert told["edits"] == []


def test_what_dynamo_would_print_otherwise_is_not_put_behind_the_graph(tmp_path: Path) -> None:
    wrong = ('print("a", y, sep="-")', "print(*[y])", 'warnings.warn("a", UserWarning)', 'print("a").x')
    for statement in wrong:
        (tmp_path / "model.py").write_text(SPEAKING.replace('print("mean", y.mean())', statement))
        found = api.fix("model.py", root=tmp_path, unsafe=True, keep_output=True).result
        assert [change.line for change in found.changes] == [19], statement


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.release
def test_printing_behind_the_graph_is_proved_by_what_is_printed(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(SPEAKING)
    found = api.fix("model.py", root=tmp_path, verify=True, keep_output=True).result
    assert {change.state for change in found.changes} == {"proved"}
    assert sorted(name for change in found.changes for name in change.settings) == [
        "reorderable_logging_functions=print",
        "reorderable_logging_functions=warnings.warn",
    ]
    assert (found.breaks_before, found.breaks_after) == (2, 0)
    in_place = SPEAKING.replace("y.mean()", "y").replace("y = y * 2", "y.mul_(2)")
    (tmp_path / "model.py").write_text(in_place.replace('        warnings.warn("careful")\n', ""))
    found = api.fix("model.py", root=tmp_path, verify=True, keep_output=True).result
    assert found.changes == ()
    refused = [change.reason or "" for change in found.refused if SPEAKS in change.how]
    assert len(refused) == 1
    assert "compiled code differs from eager code: only compiled code prints 'mean tensor(" in refused[0]


SPEAKS = "reorderable_logging_functions"


COUNTING = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        return self.lin(x) * self.n


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(n) for n in range(2, 5))
        self.step = 0

    def forward(self, x):
        self.step += 1
        for block in self.blocks:
            x = block(x)
        return x / (self.step + 1)


def get_inputs():
    return [torch.randn(4, 8)]
"""
DISABLED = dedent("""\
    @torch.compiler.disable
    def note(x):
        return x + 0


    class Block""")


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.release
def test_what_is_compiled_at_every_call_is_compiled_once_with_a_buffer(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(COUNTING)
    found = api.fix("model.py", root=tmp_path, verify=True).result
    (change,) = found.changes
    assert (change.rule, change.state, change.fewer_compiles) == ("TCR311", "proved", True)
    assert change.unsafe is not None
    assert change.unsafe.startswith("after the call, step is a tensor instead of a number; code that reads `step`")
    assert change.proof is not None
    assert (change.proof.compiled_again_before, change.proof.compiled_again_after) == (2, 0)
    assert '+        self.register_buffer("step", torch.tensor(0), persistent=False)' in found.patch


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.release
def test_integers_that_differ_by_layer_are_no_constants_with_a_setting(tmp_path: Path) -> None:
    text = COUNTING.replace("class Block", DISABLED).replace("self.lin(x) *", "self.lin(note(x)) *")
    (tmp_path / "model.py").write_text(text.replace("        self.step += 1\n", ""))
    found = api.fix("model.py", root=tmp_path, verify=True).result
    (change,) = found.changes
    assert change.settings == ("allow_unspec_int_on_nn_module",)
    assert change.proof is not None
    assert (change.proof.compiled_again_before, change.proof.compiled_again_after) == (2, 1)
    assert change.proof.breaks_after == change.proof.breaks_before == 1


OPERATORS = """\
import numpy as np
import torch
from torch import nn


@torch.library.custom_op("tcr_fixed::sine", mutates_args=())
def sine(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.sin(x.detach().numpy()))


@torch.library.custom_op("tcr_fixed::where_large", mutates_args=())
def where_large(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() > 0.5)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        y = self.lin(x).detach()
        y = sine(y)
        return y * where_large(y)


def get_inputs():
    return [torch.randn(4, 8)]
"""


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.release
def test_operators_that_end_the_capture_are_told_of(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(OPERATORS)
    found = api.fix("model.py", root=tmp_path, verify=True).result
    assert found.failure is None
    (change,) = found.changes
    assert (change.rule, change.state, change.line) == ("TCR404", "proved", 23)
    made = [line for line in found.patch.split("\n") if line.startswith("+torch")]
    assert made == [
        '+torch.library.register_fake("tcr_fixed::sine", lambda x: torch.empty_like(x))',
        '+torch.library.register_fake("tcr_fixed::where_large", lambda x: torch.empty_like(x, dtype=torch.bool))',
    ]
    assert (found.share_before, found.share_after) == (None, 1.0)
    (tmp_path / "model.py").write_text(OPERATORS.replace("x.detach().numpy() > 0.5)", "np.zeros(3, bool))[:1]"))
    found = api.fix("model.py", root=tmp_path, verify=True).result
    assert found.changes == ()
    assert "capture: TorchRuntimeError: RuntimeError when making fake" in (found.failure or "")


OF_EVERY_KIND = COUNTING.replace(
    "        return x / (self.step + 1)",
    "        if x.sum() > 5:\n            x = x * 2\n        return x / (self.step + 1)",
)


@pytest.mark.torch
@pytest.mark.slow
def test_a_report_has_the_changes_with_their_proof(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(OF_EVERY_KIND)
    (tmp_path / "sines.py").write_text(OPERATORS.replace("tcr_fixed", "tcr_report"))
    report = api.check(["model.py", "sines.py"], root=tmp_path, run=True, verify_fixes=True)
    fixes = {each.rule: each.fix for each in reversed(report.findings) if each.fix is not None}
    assert {"TCR101", "TCR311", "TCR404"} <= set(fixes)
    for rule in ("TCR101", "TCR311", "TCR404"):
        assert (rule, fixes[rule].verified, fixes[rule].declined) == (rule, True, None)
        assert fixes[rule].evidence is not None
    assert "torch.where" in (fixes["TCR101"].diff or "")
    assert fixes["TCR404"].diff is not None
    assert "buffer" in fixes["TCR311"].title  # it is proved in the next round, of a text that the report does not have
    assert "register_fake" in (fixes["TCR404"].diff or "")
    proofs = [each.fix.verified for each in report.findings if each.fix and each.fix.verified is not None]
    assert f"Of {len(proofs)} changes put to the proof, {sum(proofs)} hold." in api.render(report, "text")


def test_a_line_that_is_left_out_whole_is_not_left_over(tmp_path: Path) -> None:
    """What a logger is handed goes the way of the logger."""
    (tmp_path / "model.py").write_text(
        dedent("""\
            import logging
            from torch import nn

            LOGGER = logging.getLogger(__name__)


            class Model(nn.Module):
                def forward(self, x):
                    LOGGER.info("mean %f", x.mean().item())
                    return x * 2
        """)
    )
    found = api.fix("model.py", root=tmp_path).result
    assert len(found.changes) == 1
    assert found.no_fix == ()


def test_changes_of_one_line_are_written_one_after_the_other(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        dedent("""\
            from torch import nn


            class Model(nn.Module):
                def forward(self, x):
                    y = x + 1; print("sum", y.sum()); z = y * 2; print("mean", z.mean())  # both
                    print("max", z.max())
                    return z
        """)
    )
    done = tcready(tmp_path, "fix", "model.py", "--apply", "--allow-dirty", "--output-format", "json")
    told = json.loads(done.stdout)
    jsonschema.validate(told, SCHEMA)
    assert [(each["line"], each["round"]) for each in told["changes"]] == [(6, 1), (7, 1), (6, 2)]
    assert (told["refused"], told["no_fix"], done.returncode) == ([], [], 0)
    assert model.read_text().count("if not torch.compiler.is_compiling():") == 3
    assert '            print("mean", z.mean())  # both\n        if not' in model.read_text()
    again = tcready(tmp_path, "fix", "model.py")
    assert (again.returncode, again.stdout) == (0, "")


@pytest.mark.torch
@pytest.mark.release
def test_a_file_of_a_folder_that_cannot_be_read_is_told(project: Path) -> None:
    (project / "broken.py").write_text(
        dedent("""\
        import torch


        def f(:
    """)
    )
    done = tcready(project, "fix", ".", "--verify", "--output-format", "json")
    assert done.returncode == 2
    assert "left out: broken.py cannot be judged: syntax error in line 4" in done.stderr
    told = json.loads(done.stdout)
    assert [each["target"] for each in told["targets"]] == ["broken.py", "model.py::Model"]
    assert told["changes"] != []


def test_an_assertion_in_the_graph_is_told_from_other_limits() -> None:
    asserts = Trial(
        "check",
        Observation("model.py::Model", None, "infer", (), None),
        compiled_raises=("RuntimeError",),
        compiled_raises_text="that compiled code raises RuntimeError where eager code raises ValueError",
    )
    assert asserts.only_asserts
    both = replace(asserts, condition="for empty inputs: another text is printed")
    assert not both.only_asserts
    assert both.limits == (
        "for empty inputs: another text is printed; that compiled code raises RuntimeError where eager code raises "
        "ValueError"
    )
    assert not replace(asserts, compiled_raises=("RuntimeError", "TypeError")).only_asserts
    assert replace(asserts, compiled_raises=(), compiled_raises_text=None).limits is None
