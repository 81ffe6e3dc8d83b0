"""Edits on text, and as patches that the real `git apply` accepts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tcready import api
from tcready.fixes.rewriting.suggestions import Proposal, for_finding
from tcready.schema.edit import Edit
from tcready.schema.enums import TcreadyError
from tcready.source.edits import apply_edits, patch
from tcready.static.diagnostics.cst_view import Concrete
from tcready.static.frontend import source

TEXT = "".join(f"line {number}\n" for number in range(1, 31))


def edit(start: tuple[int, int], end: tuple[int, int], new: str, path: str = "model.py") -> Edit:
    return Edit(path, *start, *end, new)


def git_applied(folder: Path, texts: dict[str, str], diff: str) -> dict[str, str]:
    """What `git apply` makes of files."""
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode())
    command = ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", "-"]
    subprocess.run(command, cwd=folder, input=diff.encode(), check=True, capture_output=True)
    return {path: (folder / path).read_bytes().decode() for path in texts}


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize(
    "edits",
    [
        pytest.param([edit((3, 6), (3, 7), "three")], id="one"),
        pytest.param([edit((3, 6), (3, 7), "three"), edit((5, 1), (5, 5), "row")], id="two-in-one-hunk"),
        pytest.param([edit((25, 6), (25, 8), "x"), edit((3, 1), (5, 1), "")], id="two-hunks"),
        pytest.param([edit((3, 6), (3, 7), "a"), edit((3, 1), (3, 5), "row")], id="two-on-one-line"),
        pytest.param([edit((1, 1), (1, 1), "import torch\n"), edit((2, 1), (2, 5), "row")], id="a-line-put-in"),
        pytest.param([edit((31, 1), (31, 1), "more\n")], id="at-the-end"),
        pytest.param([edit((30, 1), (31, 1), "")], id="the-last-line-goes"),
        pytest.param([edit((30, 8), (31, 1), "")], id="the-last-line-end-goes"),
    ],
)
def test_a_patch_gives_what_the_edits_give(edits: list[Edit], end: str, tmp_path: Path) -> None:
    text = TEXT.replace("\n", end)
    edits = [Edit(*_fields(each)[:-1], each.new_text.replace("\n", end)) for each in edits]
    diff = patch({"model.py": text}, edits)
    assert diff.count("--- a/model.py") == 1
    changed = apply_edits(text, edits)
    assert changed != text
    assert git_applied(tmp_path, {"model.py": text}, diff) == {"model.py": changed}


def _fields(each: Edit) -> tuple[str, int, int, int, int, str]:
    return each.path, each.start_line, each.start_column, each.end_line, each.end_column, each.new_text


@pytest.mark.parametrize("text", ["", "x", "a\nb", "\n", "a\n\n", "é\n漢\n", "a\x0cb\nc\u2028d\n", "a\rb\nc\n"])
def test_odd_texts(text: str, tmp_path: Path) -> None:
    edits = [edit((1, 1), (1, 1), "new ")]
    diff = patch({"model.py": text}, edits)
    assert git_applied(tmp_path, {"model.py": text}, diff) == {"model.py": f"new {text}"}


@pytest.mark.parametrize("path", ["a b.py", "sub/dir/é.py", 'q"uote.py', "back\\slash.py", "tab\there.py", "-.py"])
def test_odd_paths(path: str, tmp_path: Path) -> None:
    diff = patch({path: TEXT}, [edit((3, 1), (3, 5), "row", path)])
    assert "row 3\n" in git_applied(tmp_path, {path: TEXT}, diff)[path]


def test_several_files_are_one_patch(tmp_path: Path) -> None:
    texts = {"a.py": TEXT, "b.py": TEXT.replace("\n", "\r\n")}
    edits = [edit((3, 1), (3, 5), "row", "a.py"), edit((4, 1), (4, 5), "row", "b.py")]
    made = git_applied(tmp_path, texts, patch(texts, edits))
    assert made == {path: apply_edits(texts[path], [e for e in edits if e.path == path]) for path in texts}


@pytest.mark.parametrize(
    "edits",
    [
        [edit((3, 1), (3, 5), "a"), edit((3, 4), (3, 6), "b")],
        [edit((2, 1), (9, 1), ""), edit((4, 1), (4, 1), "b")],
        [edit((3, 1), (3, 5), "a"), edit((3, 1), (3, 5), "b")],
    ],
)
def test_edits_that_overlap_are_refused(edits: list[Edit]) -> None:
    for order in (edits, edits[::-1]):
        with pytest.raises(TcreadyError, match=r"model\.py: two changes overlap in line [34]"):
            apply_edits(TEXT, order)
        with pytest.raises(TcreadyError, match="overlap"):
            patch({"model.py": TEXT}, order)


def test_the_same_edit_twice_is_one() -> None:
    one = edit((3, 1), (3, 5), "row")
    assert apply_edits(TEXT, [one, one]) == apply_edits(TEXT, [one])


@pytest.mark.parametrize(
    "wrong", [edit((32, 1), (32, 1), ""), edit((3, 9), (3, 9), ""), edit((0, 1), (1, 1), ""), edit((4, 1), (3, 1), "")]
)
def test_an_edit_outside_of_the_text_is_refused(wrong: Edit) -> None:
    with pytest.raises(TcreadyError, match=r"model\.py: "):
        apply_edits(TEXT, [wrong])


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, list[Edit]]:
    """A text of few kinds of lines, and edits of it that do not overlap."""
    end = draw(st.sampled_from(["\n", "\r\n"]))
    rows = draw(st.lists(st.sampled_from(["", "a", "b", "  a"]), max_size=40))
    text = end.join(rows)
    places = sorted(draw(st.lists(st.integers(0, len(rows) - 1), max_size=8, unique=True))) if rows else []
    new = st.lists(st.sampled_from(["", "a", "c"]), max_size=3).map(end.join)
    edits = []
    for first, following in zip(places, [*places[1:], len(rows)], strict=False):
        last = draw(st.integers(first, following - 1))
        column = draw(st.integers(1, len(rows[last]) + 1))
        start = 1 if last > first else draw(st.integers(1, column))
        edits.append(edit((first + 1, start), (last + 1, column), draw(new)))
    return text, edits


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes())
def test_any_patch_gives_what_the_edits_give(tmp_path: Path, change: tuple[str, list[Edit]]) -> None:
    text, edits = change
    changed = apply_edits(text, edits)
    diff = patch({"model.py": text}, edits)
    assert bool(diff) == (changed != text)
    if diff:
        assert git_applied(tmp_path, {"model.py": text}, diff) == {"model.py": changed}


MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        print(x.shape)
        if x.sum() > 0:
            x = x * 2
        return x if x.mean() > 0 else -x"""


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("tail", ["", "\n"], ids=["open", "closed"])
def test_what_rules_suggest_is_one_patch(end: str, tail: str, tmp_path: Path) -> None:
    text = (MODEL + tail).replace("\n", end)
    (tmp_path / "model.py").write_bytes(text.encode())
    report = api.check(["model.py"], run=False, root=tmp_path)
    concrete, rules = (Concrete(source.read(tmp_path / "model.py")), {rule.code: rule for rule in api.load_rules()})
    found = [list(for_finding(concrete, rules[each.rule or ""], each)) for each in report.findings]
    changes = [next(each for each in ways if isinstance(each, Proposal)) for ways in found]
    assert len(changes) == 3
    for number, change in enumerate(changes):
        diff = patch({"model.py": text}, change.edits)
        single = git_applied(tmp_path / str(number), {"model.py": text}, diff)
        assert single == {"model.py": apply_edits(text, change.edits)}
    edits = [each for change in changes for each in change.edits]
    made = git_applied(tmp_path, {"model.py": text}, patch({"model.py": text}, edits))["model.py"]
    assert made == apply_edits(text, edits)
    assert made.count("torch.where") == 2
    assert made.count("is_compiling") == 1
    assert ("\r" in made) == (end == "\r\n")
    assert "\n" not in made.replace(end, "")
    assert api.check(["model.py"], run=False, root=tmp_path).findings == ()
