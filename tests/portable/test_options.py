"""Options as values: each is declared once, can be asked for, and its source is known."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from pathlib import Path
from textwrap import dedent
from typing import Any, get_args

import pytest
from tcready import api
from tcready.cli import CHECK_OPTIONS, CommandOptions, app
from tcready.config.pyproject import options, target_tables
from tcready.config.resolution import (
    COMMAND_LINE,
    DEFAULT,
    PROJECT,
    VALUES,
    TargetTable,
    from_python,
    keywords,
    resolve,
    shown,
    takes,
)
from tcready.dynamic.standalone import _parser
from tcready.portable.option_fields import Declared, declared, words
from tcready.portable.options import BenchOptions, ReadOptions, ReportOptions, RunOptions, WorkOptions
from tcready.schema import codec
from tcready.schema.enums import TcreadyError

FIELDS = [(value, field) for value in CHECK_OPTIONS for field in dataclasses.fields(value)]
DECLARED = declared(*CHECK_OPTIONS)
PAGES = Path(__file__).resolve().parents[2] / "docs" / "pages"


def test_options_whose_fields_have_one_name_take_the_same_values() -> None:
    """The command line is read by the names of fields, whatever command they belong to."""
    kinds: dict[str, set[str]] = {}
    for each in (*DECLARED, *declared(BenchOptions)):
        kinds.setdefault(each.field, set()).add(each.option.kind)
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


@pytest.mark.parametrize(("value", "field"), FIELDS, ids=lambda each: getattr(each, "name", None) or each.__name__)
def test_every_field_has_a_flag_or_a_reason_why_not(value: type, field: dataclasses.Field[Any]) -> None:
    assert ("option" in field.metadata) != ("no_option" in field.metadata)
    if "no_option" in field.metadata:
        assert len(field.metadata["no_option"]) > 20
        return
    option = field.metadata["option"]
    assert option.flag != bool(option.no_flag)
    assert not option.flag or option.help


def test_every_option_of_the_command_is_a_field() -> None:
    check = app.commands["check"]
    flags = {each.field: each for each in DECLARED if each.option.flag}
    found = {each.name for each in check.params}
    assert found == {*flags, "targets", "isolated", "show_settings", "help_all"}
    for each in check.params:
        if each.name in flags:
            assert f"--{flags[each.name].name}" in each.opts
            assert flags[each.name].option.short in (None, *each.opts)


def test_every_option_of_the_standalone_worker_is_a_field_of_a_run() -> None:
    taken = {action.dest for action in _parser()._actions}
    there = {each.field for each in declared(RunOptions) if each.option.worker}
    measured = {"bench", "arm", "quick", "accumulate", "bench_budget"}
    assert taken == {*there, *measured, "target", "root", "output", "help"}
    given = _parser().parse_args(["--target", "m.py::Net"])
    assert {name: getattr(given, name) for name in there} == {
        each.field: each.default for each in declared(RunOptions) if each.option.worker
    }


def test_flags_are_named_once_and_what_a_table_says_decides_a_run() -> None:
    flags = [each.name for each in DECLARED if each.option.flag]
    assert len(flags) == len(set(flags))
    assert all(each.option.table is False for each in declared(ReadOptions, ReportOptions, WorkOptions))


@pytest.mark.parametrize("each", DECLARED, ids=lambda each: each.name)
def test_the_kind_of_an_option_is_that_of_its_field(each: Declared) -> None:
    owner = next(value for value in CHECK_OPTIONS if each in declared(value))
    hint = typing.get_type_hints(owner, localns=codec.all_names())[each.field]
    kinds: dict[str, Any] = {
        "flag": bool,
        "text": str,
        "number": float,
        "count": int,
        "list": tuple[str, ...],
        "texts": tuple[str, ...],
        "files": tuple[str, ...],
        "command": tuple[str, ...],
        "globs": tuple[tuple[str, tuple[str, ...]], ...],
        "weights": tuple[tuple[str, float], ...],
        "version": tuple[int, int],
    }
    alternatives = {hint, *get_args(hint)}
    if each.option.kind == "choice":
        literal = next((part for part in alternatives if typing.get_origin(part) is typing.Literal), None)
        assert literal is None or set(get_args(literal)) == set(each.option.choices)
        assert each.default in each.option.choices or type(None) in alternatives
    else:
        assert kinds[each.option.kind] in alternatives


def test_the_pages_name_every_key_and_no_other() -> None:
    page = (PAGES / "configuration.md").read_text("utf-8")
    first, second = page.split("## Targets")
    table = "\n".join(line for line in first.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`([a-z-]+)`", table)) == {each.name for each in DECLARED if each.option.project}
    keys = {key for row in re.findall(r"^\| (`.*?) \|", second, re.M) for key in re.findall(r"`(\w+)`", row)}
    assert keys == {"target"} | {each.name for each in DECLARED if each.option.table}


# who said what


TABLE = TargetTable(
    "net", "net.py::Net", {"device": "cuda", "inputs": "net.py::mine", "weights": (("one", 2.0),), "mode": "train"}
)
MINE = "[tool.tcready.targets.net]"


def test_the_command_line_wins_over_the_table_and_that_over_the_project(tmp_path: Path) -> None:
    settings = resolve({"device": "mps"}, TABLE, {"device": "cpu", "dtype": "float16", "mode": "both"}, root=tmp_path)
    run = settings.run
    assert (run.device, settings.sources["device"]) == ("mps", COMMAND_LINE)
    assert (run.inputs, settings.sources["inputs"]) == ("net.py::mine", MINE)
    assert (run.mode, settings.modes, settings.sources["mode"]) == ("train", ("train",), MINE)
    assert (run.dtype, settings.sources["dtype"]) == ("float16", PROJECT)
    assert (run.timeout, settings.sources["timeout"]) == (600, DEFAULT)
    assert settings.read == ReadOptions(tmp_path, mode="train", dtype="float16")
    assert settings.report == ReportOptions()
    assert settings.work == WorkOptions()


def test_over_both_modes_there_is_one_run_after_the_other(tmp_path: Path) -> None:
    settings = resolve({"mode": "both"}, TABLE, root=tmp_path)
    assert (settings.modes, settings.run.mode, settings.read.mode) == (("infer", "train"), "infer", "both")


def test_weights_of_a_table_hold_for_its_own_inputs_alone(tmp_path: Path) -> None:
    mine = resolve({}, TABLE, root=tmp_path)
    assert mine.run.weights == (("one", 2.0),)
    other = resolve({"inputs": "net.py::other"}, TABLE, root=tmp_path)
    assert (other.run.inputs, other.run.weights) == ("net.py::other", ())
    assert (other.sources["inputs"], other.sources["weights"]) == (COMMAND_LINE, DEFAULT)
    assert other.run.device == "cuda"


def test_defaults_of_the_command_are_not_those_of_a_call(tmp_path: Path) -> None:
    assert resolve({}, root=tmp_path).work == WorkOptions(cache=False, jobs=1)
    assert resolve({}, root=tmp_path, at_command=True).work == WorkOptions(cache=True, jobs=None)


def test_what_is_shown_names_every_flag(tmp_path: Path) -> None:
    settings = resolve({"launcher": ("srun", "-n 1")}, root=tmp_path, more=(CommandOptions,))
    rows = [line.split() for line in shown(settings, CHECK_OPTIONS).splitlines()]
    assert [row[0] for row in rows] == [each.name for each in DECLARED if each.option.flag]
    assert next(" ".join(row[1:]) for row in rows if row[0] == "launcher") == "\"srun '-n 1'\" command line"


# by keyword


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"select": ["TCR1"]}, "select", ("TCR1",)),
        ({"per_file_ignores": {"a": ["TCR1"]}}, "per_file_ignores", (("a", ("TCR1",)),)),
        ({"per_file_ignores": (("a", ("TCR1",)),)}, "per_file_ignores", (("a", ("TCR1",)),)),
        ({"launcher": "srun -n1"}, "launcher", ("srun", "-n1")),
        ({"launcher": ("srun", "-n1")}, "launcher", ("srun", "-n1")),
        ({"torch_version": "2.11"}, "torch", (2, 11)),
        ({"torch": (2, 11)}, "torch", (2, 11)),
        ({"memory": 3}, "memory_gb", 3.0),
        ({"memory_gb": 3}, "memory_gb", 3.0),
        ({"baseline": Path("known.json")}, "baseline", "known.json"),
        ({"jobs": None}, "jobs", None),
    ],
)
def test_keywords_are_fields_or_flags(given: dict[str, Any], field: str, value: Any) -> None:
    assert keywords(given) == {field: value}


def test_none_says_nothing() -> None:
    assert keywords({"mode": None, "device": None, "baseline": None}) == {}


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"devise": "cpu"}, TypeError, "check() takes no option devise: did you mean device?"),
        ({"weights": {"a": 1}}, TypeError, "check() takes no option weights"),
        ({"fail_on": "note"}, TypeError, "check() takes no option fail_on"),
        ({"mode": "fast"}, TcreadyError, "mode = 'fast': it takes one of infer, train, both"),
        ({"timeout": 0}, TcreadyError, "timeout = 0: it takes a number of seconds above 0"),
        ({"select": "TCR1"}, TcreadyError, "select = 'TCR1': it takes a list of strings"),
        ({"per_file_ignores": 3}, TcreadyError, "it takes a table of globs"),
        ({"per_file_ignores": {"a": "TCR1"}}, TcreadyError, "it takes a table of globs"),
        ({"jobs": 0}, TcreadyError, "jobs = 0: it takes a whole number above 0"),
        ({"device": 3}, TcreadyError, "it takes a string: cpu, cuda"),
    ],
)
def test_a_keyword_that_is_not_there_and_a_value_that_is_not_taken(
    given: dict[str, Any], error: type[Exception], words: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=re.escape(words)):
        api.check([], root=tmp_path, **given)


def test_a_run_alone_takes_every_field_of_a_run() -> None:
    names = {each.field for each in declared(RunOptions)}
    fields = dataclasses.fields(RunOptions)
    assert names == {field.name for field in fields if "no_option" not in field.metadata}
    assert keywords({"synthesise": True, "weights": {"a": 1}}, (RunOptions,), "observe") == {
        "synthesise": True,
        "weights": (("a", 1.0),),
    }
    with pytest.raises(TcreadyError, match="mode = 'both': it takes one of infer, train"):
        api.observe("net.py::Net", mode="both")


def test_what_was_said_is_said_again_on_the_command_line() -> None:
    said = {
        "inputs": "data.py::x",
        "fullgraph": True,
        "shapes": False,
        "launcher": ("srun", "-n1"),
        "timeout": 90.0,
        "processes": 2,
        "config": ("a=1", "b=2"),
        "weights": (("a", 1.0),),
        "exclude": ("x", "y"),
        "torch": (2, 11),
        "dtype": None,
        "html": "page.html",
    }
    assert words(said, ReadOptions, RunOptions) == (
        *("--torch-version", "2.11", "--exclude", "x,y", "--inputs", "data.py::x", "--fullgraph", "--no-shapes"),
        *("--launcher", "srun -n1", "--nproc-per-node", "2", "--timeout", "90", "--config", "a=1", "--config", "b=2"),
    )


def test_no_function_of_the_facade_has_more_than_ten_parameters() -> None:
    public = [item for name, item in vars(api).items() if inspect.isfunction(item) and name[0] != "_"]
    assert api.check in public
    assert max(len(inspect.signature(item).parameters) for item in public) <= 10


def test_what_a_project_says_is_read_by_kind(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        dedent("""\
            [tool.tcready]
            memory = 3
            torch-version = "2.11"
            backend = true
            [tool.tcready.targets.net]
            target = "net.py::Net"
            memory = 4
        """)
    )
    assert options(tmp_path, *VALUES) == {"memory_gb": 3.0, "torch": (2, 11), "backend": True}
    assert target_tables(tmp_path) == (TargetTable("net", "net.py::Net", {"memory_gb": 4.0}),)


@pytest.mark.parametrize("each", DECLARED, ids=lambda each: each.name)
def test_every_option_takes_its_own_default_and_says_what_it_takes(each: Declared) -> None:
    assert takes(each.option)
    if each.default not in (None, ()):
        assert from_python(each.option, each.default) == each.default
