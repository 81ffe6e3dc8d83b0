"""`[tool.tcready.targets]`, weights of named cases, and the device that is found."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch
from observing import observe_target
from tcready.api import check
from tcready.config.pyproject import inside, target_tables
from tcready.pipeline.run_selection import matching
from tcready.reports.shared.wording import cases_sentence
from tcready.schema.enums import TcreadyError
from tcready.schema.observation import Observation
from tcready.schema.report import Report

MODEL = """\
import time

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        if x.shape[1] == 1:
            x = x + x.sum().item()
        return self.lin(x)


class Other(nn.Module):
    def forward(self, y):
        return y + 1


def example():
    return {
        "cases": {"prefill": torch.ones(2, 4, 8), "decode": torch.ones(2, 1, 8)},
        "weights": {"prefill": 3},
    }


def one():
    return torch.ones(2, 4, 8)


def late():
    time.sleep(60)
    return torch.ones(2, 4, 8)
"""
TABLE = '[tool.tcready.targets.net]\ntarget = "src/model.py::Net"\n'


def project(root: Path, table: str) -> None:
    (root / "src").mkdir(exist_ok=True)
    (root / "src/model.py").write_text(MODEL)
    (root / "pyproject.toml").write_text(table)


def ran(report: Report) -> list[str]:
    return [target.target for target in report.targets if target.environment is not None]


def run(root: Path, *targets: str, **options: Any) -> tuple[Report, list[str]]:
    told: list[str] = []
    return check(targets, root=root, announce=told.append, **options), told


def test_a_file_is_run_as_the_project_says(tmp_path: Path) -> None:
    project(
        tmp_path,
        TABLE
        + dedent("""\
        inputs = "src/model.py::one"
        mode = "train"
        device = "auto"
    """),
    )
    report, told = run(tmp_path, "src/model.py")
    assert told == ["running src/model.py::Net with inputs from src/model.py::one"]
    assert ran(report) == ["src/model.py::Net"]
    net = report.targets[0]
    assert net.observation.convention == "[tool.tcready.targets.net]"
    assert net.observation.inputs_from == "project"
    assert net.mode == "train"
    found = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert net.environment is not None
    assert net.environment["device"] == found
    build = next(stage for stage in net.stages if stage.stage == "build")
    assert build.detail.endswith(f"; device auto: {found}")
    assert [target.target for target in report.targets[1:]] == ["src/model.py::Other"], "it is still read"


@pytest.mark.release
def test_flags_win_over_the_project(tmp_path: Path) -> None:
    project(
        tmp_path,
        TABLE
        + dedent("""\
        inputs = "src/model.py::one"
        mode = "train"
        dtype = "float64"
        timeout = 0.01
    """),
    )
    report, _ = run(tmp_path, "src/model.py::Net", mode="infer", dtype="bfloat16", timeout=300)
    net = report.targets[0]
    assert net.mode == "infer"
    assert net.environment is not None
    assert net.environment["dtype"] == "bfloat16"
    assert net.verdict == "ready"


@pytest.mark.release
def test_weights_of_a_table_are_left_out_with_other_inputs(tmp_path: Path) -> None:
    project(tmp_path, TABLE + 'inputs = "src/model.py::example"\nweights = { prefill = 5 }\n')
    report, said = run(tmp_path, "src/model.py::Net", inputs="src/model.py::one")
    assert said == ["running src/model.py::Net with inputs from src/model.py::one"]
    (net,) = report.targets
    assert (net.verdict, [stage.detail for stage in net.stages if stage.state == "fail"]) == ("ready", [])
    assert net.observation.inputs_from != "project"


def test_the_autocast_of_a_table_is_checked(tmp_path: Path) -> None:
    project(tmp_path, TABLE + 'inputs = "src/model.py::one"\nautocast = "int8"\n')
    with pytest.raises(TcreadyError, match="autocast int8: expected one of bfloat16"):
        run(tmp_path, "src/model.py::Net")


def test_the_project_s_limits_hold(tmp_path: Path) -> None:
    project(tmp_path, TABLE + 'inputs = "src/model.py::late"\ntimeout = 0.5\n')
    report, _ = run(tmp_path, "src/model.py::Net")
    details = [stage.detail for stage in report.targets[0].stages if stage.state == "fail"]
    assert details
    assert details[0].startswith("no answer within 0.")


def test_nothing_is_run_for_a_folder_nor_when_forbidden_nor_for_another_class(tmp_path: Path) -> None:
    project(tmp_path, TABLE + 'inputs = "src/model.py::one"\n')
    for targets, options in ((["src"], {}), (["src/model.py"], {"run": False}), (["src/model.py::Other"], {})):
        report, told = run(tmp_path, *targets, **options)
        assert ran(report) == []
        assert told == []


@pytest.mark.release
def test_a_folder_that_is_run_has_the_project_s_targets(tmp_path: Path) -> None:
    project(tmp_path, TABLE + 'inputs = "src/model.py::one"\n')
    report, told = run(tmp_path, "src", run=True)
    assert told == ["running src/model.py::Net with inputs from src/model.py::one"]
    assert ran(report) == ["src/model.py::Net"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TABLE + "wieghts = {a = 1}\n", "[tool.tcready.targets.net] has no key wieghts: did you mean weights?"),
        (TABLE + "colour = 1\n", "[tool.tcready.targets.net] has no key colour: it takes target, inputs, mode"),
        (TABLE + 'mode = "both"\n', 'mode = "both": it takes one of infer, train'),
        (TABLE + "timeout = -1\n", "timeout = -1: it takes a number of seconds above 0"),
        (TABLE + "timeout = true\n", "timeout = true: it takes a number of seconds"),
        (TABLE + 'weights = {a = "b"}\n', "it takes a table of case names to numbers above 0"),
        ('[tool.tcready.targets.net]\ninputs = "a.py::b"\n', "[tool.tcready.targets.net] needs a target"),
        ('[tool.tcready.targets]\nnet = "a.py::b"\n', "[tool.tcready.targets.net] is no table"),
        ("[tool.tcready\n", "pyproject.toml cannot be read: "),
    ],
)
def test_a_table_that_says_what_it_cannot_say(tmp_path: Path, text: str, message: str) -> None:
    project(tmp_path, text)
    with pytest.raises(TcreadyError) as caught:
        check(["src/model.py"], root=tmp_path)
    assert message in str(caught.value)
    check(["src/model.py"], root=tmp_path, run=False)  # reads the sources alone


def test_tables_match_by_file_and_name(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        dedent("""\
            [tool.tcready.targets]
            a = {target = "m.py::A"}
            b = {target = "m.py::B"}
            c = {target = "pkg.m::A"}
        """)
    )
    tables = target_tables(tmp_path)

    def names(told: str) -> list[str]:
        return [table.name for table in matching(told, tables, tmp_path)]

    assert names("m.py") == names("./m.py") == names(str(tmp_path / "m.py")) == ["a", "b"]
    assert names("m.py::B") == ["b"]
    assert names("pkg.m::A") == names("pkg.m") == ["c"]
    assert names("other.py") == []
    assert [table.name for table in inside(".", tables, tmp_path)] == ["a", "b", "c"]
    assert inside("sub", tables, tmp_path) == ()
    assert target_tables(tmp_path / "nowhere") == ()


def seen(root: Path, **options: Any) -> Observation:
    return observe_target("src/model.py::Net", inputs="src/model.py::example", root=str(root), **options)


def test_a_module_in_a_table_is_the_file_that_is_named_and_the_other_way_round(tmp_path: Path) -> None:
    package = tmp_path / "src" / "mypackage"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "net.py").write_text("class Net: ...\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(
        dedent("""\
            [tool.tcready.targets.net]
            target = "mypackage.net::Net"
            inputs = "inputs.py::make"
            [tool.tcready.targets.other]
            target = "src/mypackage/net.py::Other"
            inputs = "inputs.py::make"
        """),
        encoding="utf-8",
    )
    tables = target_tables(tmp_path)

    def matched(named: str) -> list[str]:
        return [table.target for table in matching(named, tables, tmp_path)]

    file = "src/mypackage/net.py"
    assert matched(file) == [f"{file}::Net", f"{file}::Other"]
    assert matched(f"{file}::Net") == [f"{file}::Net"]
    assert matched("mypackage.net::Net") == ["mypackage.net::Net"]
    assert matched("mypackage.net::Other") == ["mypackage.net::Other"]
    assert matched("mypackage.other::Net") == matched("src/mypackage/other.py") == []


@pytest.mark.release
def test_coverage_is_weighted_by_case(tmp_path: Path) -> None:
    project(tmp_path, "")
    cover = seen(tmp_path).coverage
    assert cover is not None
    prefill, decode = cover.cases
    assert (prefill.case, prefill.weight, prefill.share) == ("prefill", 3, 1)
    assert (decode.case, decode.weight) == ("decode", 1), "the default"
    assert 0 < decode.share < 1
    assert cover.ops_total == prefill.ops_total + decode.ops_total
    dispatched = 3 * prefill.ops_total + decode.ops_total
    assert cover.share == pytest.approx((3 * prefill.ops_captured + decode.ops_captured) / dispatched)
    told = seen(tmp_path, weights=(("decode", 9.0), ("prefill", 1.0))).coverage
    assert told is not None
    assert cases_sentence(told).startswith(
        f"prefill 100 % ({prefill.ops_total} of {prefill.ops_total}, weight 1); decode "
    )
    assert [case.weight for case in told.cases] == [1, 9], "what is asked for wins over what the inputs give"
    assert told.share < cover.share


def test_a_weight_for_a_case_that_is_not_there(tmp_path: Path) -> None:
    project(tmp_path, "")
    stages = seen(tmp_path, weights=(("prefil", 1.0),)).stages
    assert [(stage.stage, stage.detail) for stage in stages if stage.state == "fail"] == [
        ("build", "a weight names the case prefil, which the inputs do not: did you mean prefill?")
    ]
