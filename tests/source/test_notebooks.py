"""Notebooks as `tcready check` reads them: written by nbformat, told by cell to people and by line of the file to CI."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import nbformat
import pytest
from commands import run
from nbformat import v3, v4
from tcready import TcreadyError, api, check
from tcready.static.frontend.notebook import NotebookError, read

IMPORTS = "%matplotlib inline\n!pip install torch \\\n  numpy\nimport torch\nfrom torch import nn"
NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return helper(self.lin(x))"""
HELPER = dedent("""\
    %%time
    def helper(y):
        files = !ls "a b"
        return y.tolist()""")


def written(path: Path, *cells: str, language: str = "python") -> Path:
    """A notebook of a heading and code cells: the first of these is cell 2."""
    notebook = v4.new_notebook(cells=[v4.new_markdown_cell("# A model"), *map(v4.new_code_cell, cells)])
    notebook.metadata.kernelspec = {"name": "kernel", "language": language, "display_name": "kernel"}
    nbformat.write(notebook, path)
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "nb.ipynb", IMPORTS, NET, HELPER, "%%bash\nif x; then", "net = Net()\nnet?")
    return tmp_path


def found(report: api.Report) -> list[tuple[str, int, int]]:
    return [(f.rule or "", f.cell.number, f.cell.line) for f in report.findings if f.cell is not None]


@pytest.mark.parametrize("target", ["nb.ipynb", "nb.ipynb::Net", ".", "./nb.ipynb"])
def test_cells_in_order_are_one_program(folder: Path, target: str) -> None:
    report = check(target, run=False)
    assert found(report) == [("TCR101", 3, 7), ("TCR202", 4, 4)]
    assert report.findings[1].reached_by == ("Net.forward", "helper")
    assert {f.path for f in report.findings} == {"nb.ipynb"}


def test_text_and_page_tell_the_cell(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "nb.ipynb", "--html", "page.html") == 1
    text = capsys.readouterr().out
    assert "nb.ipynb:cell 3:7:12: TCR101" in text
    assert "    7 |         if x.sum() > 0:" in text
    assert "nb.ipynb:cell 4:4:12: TCR202" in text
    assert "--run --plan" not in text, "a notebook is not run by the command"
    page = (folder / "page.html").read_text("utf-8")
    assert "nb.ipynb:cell 3:7" in page
    assert run("report", "page.html", "--output-format", "markdown") == 0
    assert "`nb.ipynb:cell 3:7`" in capsys.readouterr().out


def test_ten_cells_are_told_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nets = [NET.replace("Net(", f"Net{at}(").replace("helper", "") for at in range(10)]
    written(tmp_path / "nb.ipynb", IMPORTS, *nets)
    text = api.render(check("nb.ipynb", run=False), "text")
    places = [line.split(":")[1] for line in text.splitlines() if line.startswith("nb.ipynb:cell")]
    assert places == [f"cell {at}" for at in range(3, 13)]


@pytest.mark.parametrize("indent", [1, None])
def test_ci_is_given_lines_of_the_file(folder: Path, indent: int | None) -> None:
    path = folder / "nb.ipynb"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")), indent=indent), encoding="utf-8")
    lines = path.read_text("utf-8").splitlines()
    report = check("nb.ipynb", run=False)
    log = json.loads(api.render(report, "sarif"))
    regions = [r["locations"][0]["physicalLocation"]["region"] for r in log["runs"][0]["results"]]
    assert all("startColumn" not in region for region in regions)
    assert "if x.sum() > 0:" in lines[regions[0]["startLine"] - 1]
    assert "return y.tolist()" in lines[regions[1]["startLine"] - 1]
    annotations = api.render(report, "github").splitlines()
    assert f"file=nb.ipynb,line={regions[0]['startLine']},endLine={regions[0]['endLine']},title" in annotations[0]
    if indent:
        assert regions[0]["startLine"] != regions[1]["startLine"]
    quality = json.loads(api.render(report, "gitlab"))
    assert quality[0]["location"]["lines"]["begin"] == regions[0]["startLine"]


def test_json_has_both_and_is_read_back(folder: Path) -> None:
    report = check("nb.ipynb", run=False)
    data = json.loads(api.render(report, "json"))
    finding = data["findings"][0]
    assert (finding["path"], finding["cell"]["number"], finding["cell"]["line"]) == ("nb.ipynb", 3, 7)
    file = (folder / "nb.ipynb").read_text("utf-8").splitlines()
    assert "if x.sum()" in file[finding["cell"]["file_line"] - 1]
    (source,) = data["sources"]
    assert source["text"].splitlines()[finding["line"] - 1] == "        if x.sum() > 0:"
    (folder / "report.json").write_text(api.render(report, "json"))
    assert api.load("report.json") == report


def test_noqa_in_a_cell(folder: Path) -> None:
    written(folder / "nb.ipynb", IMPORTS, NET, HELPER + "  # noqa: TCR202", "x = 1  # noqa: TCR101")
    assert found(check("nb.ipynb", run=False)) == [("TCR101", 3, 7)]
    written(folder / "nb.ipynb", IMPORTS, NET, HELPER + "  # noqa: TCR201")
    assert "nb.ipynb:cell 4:4: unused noqa TCR201" in check("nb.ipynb", run=False).warnings


def test_no_change_is_offered(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printing = NET.replace("x = x + 1", "print('positive')")
    written(folder / "nb.ipynb", IMPORTS, printing, HELPER)
    before = (folder / "nb.ipynb").read_bytes()
    assert all(f.fix is None or not f.fix.edits for f in check("nb.ipynb", run=False).findings)
    assert run("fix", "nb.ipynb", "--apply") == 2
    assert "not notebooks" in capsys.readouterr().err
    assert run("fix", ".", "--apply", "--unsafe", "--allow-dirty") in (0, 1)
    assert "nb.ipynb:cell 3:7 TCR101: no change\n    The code is in a notebook" in capsys.readouterr().err
    assert (folder / "nb.ipynb").read_bytes() == before


@pytest.mark.parametrize("arguments", [["--run"], ["--inputs", "nb.ipynb::x"]])
def test_a_notebook_is_not_run(folder: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "nb.ipynb::Net", *arguments) == 2
    assert "a notebook is read, not run" in capsys.readouterr().err


def test_what_cannot_be_read_leaves_the_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cut.ipynb").write_text('{"cells": [{"cell_type": "code", "source": ["import torch')
    written(folder / "typo.ipynb", "import torch", "def f(:\n")
    written(folder / "r.ipynb", "library(torch)", language="R")
    assert run("check", ".", "--no-run") == 2
    text = capsys.readouterr().out
    assert "nb.ipynb:cell 3:7:12: TCR101" in text
    assert "cut.ipynb: not a notebook: " in text
    assert "typo.ipynb: syntax error in cell 3, line 1: " in text
    assert "r.ipynb: its language is R" in text
    written(folder / "other.ipynb", "x <- 1", language="R")
    report = check("other.ipynb", run=False, lenient=True)
    assert not report.skipped, "the hook passes by what names no torch"


@pytest.mark.parametrize(
    "metadata", ["text", [], {"language_info": "python"}, {"kernelspec": [3]}, {"language_info": None}]
)
def test_metadata_of_another_shape_say_nothing_of_the_language(tmp_path: Path, metadata: object) -> None:
    path = written(tmp_path / "odd.ipynb", "x = 1")
    book = json.loads(path.read_text())
    book["metadata"] = metadata
    path.write_text(json.dumps(book))
    report = api.check(["odd.ipynb"], run=False, root=tmp_path)
    assert all(skip.reason.startswith(("not a notebook: ", "nothing was checked: ")) for skip in report.skipped)


def test_without_nbformat_nothing_is_claimed(folder: Path) -> None:
    hidden = "import sys; sys.modules['nbformat'] = None; from tcready.cli import main; main(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", hidden, "check", "nb.ipynb", "--no-run", "--no-cache"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "pip install 'tcready[notebook]'" in done.stdout
    assert "No findings" not in done.stdout


def test_a_plain_file_loads_no_nbformat(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\n")
    code = "import sys, tcready; tcready.check('a.py', run=False); print('nbformat' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_lines_changed_since_a_commit(folder: Path) -> None:
    from scratch_git import git

    git(folder, "init", "--quiet")
    written(folder / "nb.ipynb", IMPORTS, NET, HELPER)
    git(folder, "add", "nb.ipynb")
    git(folder, "commit", "--quiet", "-m", "x")
    path = folder / "nb.ipynb"
    path.write_text(path.read_text("utf-8").replace("return y.tolist()", "return [y.tolist()]"), encoding="utf-8")
    assert found(check("nb.ipynb", run=False, diff_base="HEAD")) == [("TCR202", 4, 4)]


CELLS = {
    "a magic behind a bracket is none": ("x = (7\n% 4)", "x = (7\n% 4)"),
    "nor in a long string": ('x = """\n%time\n!ls\n"""', 'x = """\n%time\n!ls\n"""'),
    "nor behind a backslash": ("x = 7 \\\n% 4", "x = 7 \\\n% 4"),
    "a bracket in a string opens nothing": ("x = '('\n%time y = 1", "x = '('\npass"),
    "nor one in a comment": ("x = 1  # (\n!ls", "x = 1  # (\npass"),
    "help": (
        dedent("""\
        x?
        ?x
        x.y??
        z = 1"""),
        dedent("""\
        pass
        pass
        pass
        z = 1"""),
    ),
    "inside a block": ("if a:\n    !ls\n    %cd b", "if a:\n    pass\n    pass"),
    "a shell line that goes on": (
        "!a \\\n  b \\\n  c\nx = 1",
        dedent("""\
        pass


        x = 1"""),
    ),
    "assigned": ("a, b = !ls\nc = %pwd", "a, b = get_ipython()\nc = get_ipython()"),
    "modulo that is assigned": ("c = a % b\nd = '%s' % c", "c = a % b\nd = '%s' % c"),
    "a cell of another language": ("%%html\n<b>\n%x", "\n\n"),
    "a cell of Python": ("\n%%timeit -n 3\nx = 1", "\npass\nx = 1"),
    "indented as a whole": ("\n    y = 1\n    if y:\n        %time z", "\ny = 1\nif y:\n    pass"),
    "prompts of Python": (
        dedent("""\
        >>> def f():
        ...     return 1
        ...
        >>> f()"""),
        dedent("""\
        def f():
            return 1

        f()"""),
    ),
    "prompts of IPython": ("In [12]: if y:\n    ...:     z = 1", "if y:\n    z = 1"),
    "dots of code stay": ("def f():\n    ...\n...", "def f():\n    ...\n..."),
    "called without brackets": (
        dedent("""\
        /print 1
        ,f a b
        ;f a b
        y = 1"""),
        dedent("""\
        pass
        pass
        pass
        y = 1"""),
    ),
    "division behind a bracket": ("x = (y\n/z\n, 3)", "x = (y\n/z\n, 3)"),
    "awaited at the top": ("x = await f()", "x = await f()"),
}


@pytest.mark.parametrize(("cell", "program"), CELLS.values(), ids=CELLS)
def test_what_only_ipython_understands(cell: str, program: str, tmp_path: Path) -> None:
    text = read(written(tmp_path / "nb.ipynb", cell).read_bytes()).text
    assert text == program + "\n"


def _compact(data: Any) -> str:
    return json.dumps(data)


@pytest.mark.parametrize("render", [_compact, lambda data: json.dumps(data, indent=4), nbformat.writes])
def test_every_line_is_found_in_the_file(tmp_path: Path, render: Any) -> None:
    path = written(tmp_path / "nb.ipynb", "a = 'é\\n\"{['\n\nb = 1\n", "", "c = 2")
    text = render(nbformat.from_dict(json.loads(path.read_text("utf-8"))))
    program = read(text.encode())
    file, lines = text.splitlines(), program.text.split("\n")
    for cell in program.cells:
        for line, file_line in enumerate(cell.file_lines, cell.line):
            word = lines[line - 1].partition(" ")[0]
            assert word in file[file_line - 1], (cell, line)


def test_older_notebooks_are_read() -> None:
    sheet = v3.new_worksheet(cells=[v3.new_text_cell("markdown", "x"), v3.new_code_cell("a = 1\nb = 2")])
    text = v3.writes_json(v3.new_notebook(worksheets=[sheet]))
    program = read(text.encode())
    assert program.text == "a = 1\nb = 2\n"
    (cell,) = program.cells
    assert [text.splitlines()[line - 1].strip()[:6] for line in cell.file_lines] == ['"a = 1', '"b = 2']


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "1", '{"nbformat": 4}', '{"nbformat": 99}', "\ud800"])
def test_what_is_no_notebook(text: str) -> None:
    with pytest.raises(NotebookError, match=r"not a notebook|cannot be decoded"):
        read(text.encode("utf-8", "surrogatepass"))


def test_a_name_that_is_not_there(folder: Path) -> None:
    with pytest.raises(TcreadyError, match=r"no 'Nett' in nb\.ipynb"):
        check("nb.ipynb::Nett", run=False)
