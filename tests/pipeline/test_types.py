"""A report says for which type of numbers it holds: what only float16 or bfloat16 breaks is read, and run, in these.

Models of `fixtures/tricky/` with `# in float16, bfloat16: GB0170` beside a line break there in these types, and nowhere
without a type. The marks are Dynamo's.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest
from commands import run
from fixture_markers import ROOT
from tcready import api
from tcready.schema.enums import BREAKING
from tcready.schema.report import Report
from tcready.static.domain.values import FLOATS
from tcready.static.library.dtype_tests import LIMITS, float_type

FOLDER = ROOT / "fixtures" / "tricky"
TYPES = ("float32", "float16", "bfloat16")
MARK = re.compile(r"  # in ([a-z0-9]+(?:, [a-z0-9]+)*): (GB\d{4})$")


@dataclass(frozen=True)
class Typed:
    """A model with breaks that hang on the type it computes in."""

    path: Path
    marks: dict[int, tuple[frozenset[str], str]]
    """By line the types, and the id of the break."""

    def breaks_in(self, dtype: str) -> dict[int, str]:
        return {line: gb_id for line, (types, gb_id) in self.marks.items() if dtype in types}


def _typed(path: Path) -> Typed:
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    found = {number: match for number, line in lines if (match := MARK.search(line))}
    return Typed(path, {number: (frozenset(m[1].split(", ")), m[2]) for number, m in found.items()})


MODELS = tuple(model for path in sorted(FOLDER.glob("*.py")) if (model := _typed(path)).marks)
each_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.path.stem)
each_type = pytest.mark.parametrize("dtype", TYPES)


@pytest.fixture(autouse=True)
def _in_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)


def _read(model: Typed, **options: str) -> Report:
    return api.check(model.path.name, run=False, **options)  # type: ignore[arg-type]


def _sure(report: Report) -> set[int]:
    return {f.line for f in report.findings if f.effect in BREAKING and f.level == "error"}


def _conditional(report: Report) -> dict[int, tuple[str, ...]]:
    return {f.line: f.dtypes for f in report.findings if f.dtypes}


def test_there_are_models_for_each_type() -> None:
    assert len(MODELS) >= 3
    types = {frozenset(types) for model in MODELS for types, _ in model.marks.values()}
    assert types >= {frozenset({"float16"}), frozenset({"bfloat16"}), frozenset({"float16", "bfloat16"})}


@each_type
@each_model
def test_what_is_read_in_a_type_breaks_where_dynamo_does(model: Typed, dtype: str) -> None:
    report = _read(model, dtype=dtype)
    assert _sure(report) == model.breaks_in(dtype).keys()
    assert _conditional(report) == {}


@each_model
def test_without_a_type_the_others_are_conditions(model: Typed) -> None:
    report = _read(model)
    assert _sure(report) == set()
    found = {line: set(types) & set(TYPES) for line, types in _conditional(report).items()}
    assert found == {line: set(types) for line, (types, _) in model.marks.items()}
    assert all(f.level == "note" for f in report.findings)
    assert not any(module.breaks for target in report.predicted for module in target.modules)


@each_model
def test_under_autocast_nothing_is_decided(model: Typed) -> None:
    """The type of a product is either: what hangs on it is neither left out nor said of one type."""
    report = _read(model, autocast="bfloat16")
    product = {
        line
        for line, (types, _) in model.marks.items()
        if types != {"bfloat16"}  # a buffer keeps its type
    }
    assert product <= _sure(report) | {f.line for f in report.findings if f.effect in BREAKING}
    assert _conditional(report).keys() <= model.marks.keys() - product


@pytest.mark.torch
@pytest.mark.slow
@each_type
@each_model
@pytest.mark.sampled(4)
def test_dynamo_breaks_where_it_is_marked(model: Typed, dtype: str) -> None:
    report = api.check(model.path.name, run=True, dtype=dtype)
    (target,) = report.targets
    assert [(s.stage, s.detail) for s in target.stages if s.state == "fail" and s.stage != "fullgraph"] == []
    seen = {site.line: site.gb_id for site in target.break_sites}
    assert seen == model.breaks_in(dtype)
    assert {f.line for f in report.findings if f.status == "confirmed"} == seen.keys()


# what is told


def _check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code, and what is printed."""
    code = run("check", *arguments, "--no-run")
    return code, capsys.readouterr().out


def test_a_report_says_for_which_type_it_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    model = "clean_clamp_of_float16.py"
    code, shown = _check(capsys, model, "--no-cache", "--dtype", "float16", "--html", str(page))
    assert code == 1
    assert "hold for float16" in " ".join(shown.split())
    assert "hold for float16" in page.read_text(encoding="utf-8")
    _, made = _check(capsys, model, "--no-cache", "--dtype", "torch.float16", "--output-format", "json")
    assert [reading["dtype"] for reading in json.loads(made)["readings"]] == ["float16"]


def test_conditions_do_not_fail_and_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    code, shown = _check(capsys, "clean_clamp_of_float16.py", "--no-cache")
    assert code == 0
    assert "TCR101 note" in shown
    assert "predicted in float16 only" in shown
    assert "Breaks in float16 only: 1 place (--dtype float16 follows it)." in shown


@pytest.mark.parametrize(
    "table",
    [
        '[tool.tcready]\ndtype = "float16"\n',
        dedent("""\
            [tool.tcready.targets.net]
            target = "net.py::Model"
            dtype = "float16"
        """),
    ],
)
def test_a_project_says_the_type_as_well(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (FOLDER / "clean_clamp_of_float16.py").read_text(encoding="utf-8")
    (tmp_path / "net.py").write_text(text, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(table, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    code, shown = _check(capsys, "net.py::Model")
    assert (code, "TCR101 error" in shown) == (1, True)
    code, _ = _check(capsys, "net.py::Model", "--dtype", "float32")
    assert code == 0  # the cache holds the type


# the tables


def test_spellings_of_types() -> None:
    assert [float_type(name) for name in ("torch.half", "float", "double", "bfloat16")] == [
        "float16",
        "float32",
        "float64",
        "bfloat16",
    ]
    assert float_type("int64") is None
    assert float_type("float8_e4m3fn") is None


def test_limits_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    dtypes = [getattr(torch, name) for name in FLOATS]
    for name, row in LIMITS.items():
        of = dtypes if name == "itemsize" else map(torch.finfo, dtypes)
        assert row == tuple(getattr(each, name) for each in of), name
