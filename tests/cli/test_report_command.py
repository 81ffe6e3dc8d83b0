"""`tcready report`: reports read back, put together with runs made elsewhere, and held against each other."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fixture_markers import ROOT
from tcready import api
from tcready.api import check, combine, compare, exit_code, load, render
from tcready.cli import main
from tcready.schema.bench import ArmBench, Bench, BenchCase, Figure
from tcready.schema.codec import as_json, from_json
from tcready.schema.comparison import Comparison
from tcready.schema.enums import SCHEMA_VERSION, TcreadyError
from tcready.schema.observation import ModuleShare, Observation, Stage
from tcready.schema.report import Report
from tcready.schema.run import BreakSite, Coverage, LineSet, Placement, Plan, RegionTrial

NET = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        x = self.a(x)
        if x.sum() > 0:
            x = x + 1
        print(x.shape)
        if x.dim() > 3:
            x = x * x.max().item()
        other(x)
        return x
"""
MODULES = (ModuleShare("", "Net", 5, 4, path="net.py", line=9), ModuleShare("a", "Linear", 1, 1))
RUN = Observation(
    target="net.py::Net",
    convention="get_inputs()",
    inputs_from="convention",
    mode="infer",
    stages=(
        Stage("parse", "pass", ""),
        Stage("import", "pass", ""),
        Stage("build", "pass", ""),
        Stage("eager", "pass", ""),
        Stage("capture", "pass", ""),
    ),
    environment={"torch": "2.11.0", "device": "cuda", "packages": {"transformers": "4.0"}},
    break_sites=(
        BreakSite("net.py", 11, "Net.forward", "Data-dependent branching", "GB0170", 1, "own", ()),
        BreakSite("net.py", 16, "Net.forward", "Unsupported: other", "GB0099X", 1, "own", ()),
    ),
    coverage=Coverage(5, 4, 0.8),
    modules=MODULES,
    executed=(LineSet("net.py", ((9, 13), (16, 17))),),
    traced=(LineSet("net.py", ((9, 13), (16, 17))),),
    warnings=("slow machine",),
    digests=(("net.py", hashlib.sha256(NET.encode()).hexdigest()),),
)


PLACED = Placement(
    "whole", "model.compile()", 0.8, 2, 0, True, "", time_share=0.9, compile_seconds=0.5, backend="eager"
)
PLAN = Plan(
    "whole",
    "model.compile()",
    0.8,
    "80.0% of the operations run in graphs",
    (PLACED,),
    "rollback",
    "production",
    regions=(
        RegionTrial("a", ("a",), "proved", "compiled alone", "model.a.compile()", ops_share=0.2),
        RegionTrial("", ("",), "refuted", "Unsupported", "model.compile()", site=RUN.break_sites[1]),
    ),
)


def arm(seconds: float) -> ArmBench:
    return ArmBench("default", "no_gain", Figure(seconds, seconds * 0.99, seconds * 1.01, 3))


BENCH = Bench("no_gain", "within noise", (BenchCase("all cases", (arm(1.0),)),), stack=(("gpu", "H200"),))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    Path("other.py").write_text(NET.replace("Net", "Other"))
    keep("gpu.json", RUN)
    keep("net.json", check(["net.py"], run=False))
    return tmp_path


def keep(name: str, value: Report | Observation) -> None:
    Path(name).write_text(json.dumps(as_json(value)))


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["report", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


# Read back, rendered again


def test_a_plan_survives_reading_back_merging_and_comparing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep("planned.json", dataclasses.replace(RUN, plan=PLAN))
    report = check(["net.py"], observations=["planned.json"])
    keep("report.json", report)
    keep("other.json", check(["other.py"], run=False))
    assert [(region.name, region.state, region.code) for region in report.targets[0].regions] == [
        ("a", "proved", "model.a.compile()"),
        ("", "refuted", ""),
        ("Net.forward:13-15", "predicted", ""),
    ]
    for one in (load("report.json"), combine(["report.json", "other.json"]), combine(["net.json", "planned.json"])):
        target = next(target for target in one.targets if target.target == "net.py::Net")
        assert target.observation.plan == PLAN
        assert target.regions == report.targets[0].regions
    assert run("report.json", "-q", "-v") == 0
    assert "recommended: the whole model: 80.0%" in capsys.readouterr().out
    assert run("report.json", "-q") == 0
    assert "FIRST   compile the whole model, as planned; in graphs: 80 % of the operations" in (capsys.readouterr().out)
    assert run("--compare", "net.json", "report.json", "-q") in (0, 1)
    assert run("--compare", "report.json", "report.json", "-q") == 0


def test_a_bench_survives_reading_back_merging_and_comparing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep("benched.json", dataclasses.replace(RUN, bench=BENCH))
    report = check(["net.py"], observations=["benched.json"])
    keep("report.json", report)
    keep("run.json", RUN)
    keep("other.json", check(["other.py"], run=False))
    for one in (
        load("report.json"),
        combine(["report.json", "other.json"]),
        combine(["net.json", "benched.json"]),
        combine(["report.json", "run.json"]),  # a run without a bench stands beside the one with it
    ):
        benches = [target.observation.bench for target in one.targets if target.target == "net.py::Net"]
        assert [bench for bench in benches if bench is not None] == [BENCH]
    assert run("report.json", "-q") == 0
    assert "SPEED   net.py::Net: NO GAIN: within noise" in capsys.readouterr().out
    slower = dataclasses.replace(BENCH, cases=(BenchCase("all cases", (arm(1.5),)),))
    keep("slow.json", dataclasses.replace(RUN, bench=slower))
    keep("after.json", check(["net.py"], observations=["slow.json"]))
    assert run("--compare", "report.json", "after.json", "-q") == 0
    assert "default in all cases: slower: 1.00 s (0.99\u20131.01) -> 1.50 s" in capsys.readouterr().out


@pytest.mark.parametrize("form", sorted(api.FORMATS))
def test_a_report_is_rendered_again_in_every_format(project: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    report = check(["net.py"], observations=["gpu.json"])
    keep("report.json", report)
    assert run("report.json", "--output-format", form, "-o", "out", "-q") == 0
    of_text = {"width": 100, "stored": "report.json"} if form == "text" else {}
    assert Path("out").read_text() == render(report, form, **of_text)


def test_a_page_is_a_report_too(project: Path) -> None:
    report = check(["."], observations=["gpu.json"])
    Path("page.html").write_text(render(report, "html"))
    assert load("page.html") == report
    hostile = 'x = \'</script><script type="application/json" id="tcready-report">{}\'\n' + NET
    Path("net.py").write_text(hostile)
    report = check(["net.py"], run=False)
    Path("page.html").write_text(render(report, "html"))
    assert load("page.html") == report


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "neither a report"),
        *(
            (f'{{"schema_version": 1, "findings": [], "targets": [{number}]}}', "too large, infinite")
            for number in ("1" + "0" * 400, "1e305", "1e999", "NaN")
        ),
        ('{"tcready_baseline": 1, "findings": []}', "neither a report"),
        ("<!doctype html><html></html>", "without a whole tcready report"),
        ('<script id="tcready-report">{"cut', "whole"),
        (json.dumps({"schema_version": SCHEMA_VERSION + 1, "findings": [], "targets": []}), "newer tcready"),
        (json.dumps({"schema_version": SCHEMA_VERSION + 1, "later": []}), "newer tcready"),
        (json.dumps({"findings": [{}], "targets": [], "tool": {"name": "t", "version": "0"}}), "Report.findings"),
        (json.dumps(as_json(RUN) | {"stages": 3}), "Observation.stages"),
        (b"\xff\x00", "neither a report"),
        (None, "No such file"),
    ],
)
def test_what_is_no_report_is_one_line_and_exit_2(
    project: Path, capsys: pytest.CaptureFixture[str], text: str | bytes | None, words: str
) -> None:
    if text is not None:
        Path("bad.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    for arguments in (["bad.json"], ["--compare", "net.json", "bad.json"]):
        assert run(*arguments) == 2
        told = capsys.readouterr()
        assert (told.out, len(told.err.splitlines())) == ("", 1)
        assert words in told.err
        assert "bad.json" in told.err


def test_a_report_cut_short_anywhere_is_told(project: Path) -> None:
    whole = Path("net.json").read_text()
    for end in range(1, len(whole), len(whole) // 50):
        Path("cut.json").write_text(whole[:end])
        with pytest.raises(TcreadyError, match=r"cut\.json"):
            load("cut.json")


# Put together


def test_a_report_and_a_run_made_elsewhere_give_what_a_check_of_both_gives(project: Path) -> None:
    checked = check(["net.py"], observations=["gpu.json"])
    assert [(f.line, f.status) for f in checked.findings] == [
        (11, "confirmed"),
        (13, "not_observed"),
        (15, "not_reached"),
        (16, "runtime_only"),
    ]
    assert combine(["net.json", "gpu.json"]) == checked
    assert combine(["gpu.json", "net.json"]) == checked
    keep("checked.json", checked)
    assert combine(["checked.json"]) == checked
    for files in (["checked.json", "gpu.json"], ["checked.json", "net.json"], ["checked.json", "checked.json"]):
        again = combine(files)
        assert (again.findings, again.targets) == (checked.findings, checked.targets)


def test_a_second_run_is_judged_beside_the_first(project: Path) -> None:
    laptop = dataclasses.replace(
        RUN,
        environment={"torch": "2.13.0", "device": "cpu"},
        break_sites=RUN.break_sites[1:],
        executed=(LineSet("net.py", ((9, 17),)),),
        traced=(LineSet("net.py", ((9, 17),)),),
    )
    keep("cpu.json", laptop)
    keep("checked.json", check(["net.py"], observations=["cpu.json"]))
    both = combine(["checked.json", "gpu.json"])
    at_once = check(["net.py"], observations=["cpu.json", "gpu.json"])
    assert both.targets == at_once.targets
    assert [(f.line, f.status, f.level, f.targets) for f in both.findings] == [
        (f.line, f.status, f.level, f.targets) for f in at_once.findings
    ]
    assert both.findings[0].status == "confirmed", "the first run alone had traced it unharmed"


HIDDEN = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # noqa: TCR101
            x = x + 1
        return x  # noqa: TCR999
"""


@pytest.mark.parametrize("options", [{}, {"ignore": ["TCR1"]}])
def test_what_a_report_hides_is_nothing_new_to_a_run_that_comes_later(project: Path, options: dict[str, Any]) -> None:
    Path("net.py").write_text(HIDDEN)
    shown = dataclasses.replace(
        RUN, break_sites=(dataclasses.replace(RUN.break_sites[0], line=6),), digests=(), modules=()
    )
    keep("gpu.json", shown)
    keep("net.json", check(["net.py"], run=False, **options))
    at_once = check(["net.py"], observations=["gpu.json"], **options)
    assert at_once.findings == ()
    assert combine(["net.json", "gpu.json"]) == at_once
    keep("at_once.json", at_once)
    again = combine(["at_once.json", "net.json"])
    assert (again.findings, again.targets, again.hidden) == ((), at_once.targets, at_once.hidden)
    assert again.warnings == at_once.warnings


def test_what_a_run_changed_is_changed_anew_beside_another(project: Path) -> None:
    """A refuted prediction weighs what the source says again, once a second run may show it."""
    clean = dataclasses.replace(RUN, break_sites=(), stages=RUN.stages)
    keep("cpu.json", dataclasses.replace(clean, environment={"torch": "2.13.0", "device": "cpu"}))
    refuted = check(["net.py"], observations=["cpu.json"])
    assert (refuted.findings[0].status, refuted.findings[0].level) == ("not_observed", "note")
    keep("refuted.json", refuted)
    stopped = dataclasses.replace(
        RUN, stages=(*RUN.stages[:4], Stage("capture", "not_run", "")), break_sites=(), executed=(), traced=()
    )
    keep("gpu.json", stopped)
    both, at_once = (combine(["refuted.json", "gpu.json"]), check(["net.py"], observations=["cpu.json", "gpu.json"]))
    assert both.findings == at_once.findings
    assert both.targets == at_once.targets


def test_reports_of_different_targets_are_one(project: Path) -> None:
    keep("other.json", check(["other.py"], run=False))
    assert run("net.json", "other.json", "--output-format", "json", "-o", "all.json", "--fail-on", "error") == 1
    report = load("all.json")
    assert isinstance(report, Report)
    whole = check(["."], run=False)
    assert report.findings == whole.findings
    assert {target.target for target in report.targets} == {"net.py::Net", "other.py::Other"}
    assert report.statistics == whole.statistics
    schema = json.loads((ROOT / "fixtures" / "report.schema.json").read_text())
    jsonschema.validate(as_json(report), schema)


def test_a_text_that_is_not_what_was_run_is_told(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("net.py").write_text("\n" + NET)
    assert combine(["net.json", "gpu.json"]).warnings == ("net.py::Net: slow machine",)
    keep("moved.json", check(["net.py"], run=False))
    assert "net.py is not what was run in gpu.json" in " ".join(combine(["moved.json", "gpu.json"]).warnings)
    assert "net.py is not the same in net.json and moved.json" in " ".join(combine(["net.json", "moved.json"]).warnings)
    texts = {source.path: source.text for source in combine(["net.json", "moved.json"]).sources}
    assert texts["net.py"] == "", "its lines would stand beside the findings of both"
    assert run("gpu.json") == 0
    assert "NOT READY" in capsys.readouterr().out


def test_a_report_of_before_predictions_were_kept_keeps_its_targets(project: Path) -> None:
    data = json.loads(Path("net.json").read_text())
    del data["predicted"]
    Path("net.json").write_text(json.dumps(data))
    keep("other.json", check(["other.py"], run=False))
    (before,) = combine(["net.json"]).targets
    targets = combine(["net.json", "other.json"]).targets
    assert [target.target for target in targets] == ["other.py::Other", "net.py::Net"]
    assert targets[1] == before
    assert [t.target for t in combine(["net.json", "gpu.json"]).targets] == ["net.py::Net"]


# Compared


def kinds(compared: Comparison) -> dict[str, list[int]]:
    told: dict[str, list[int]] = {}
    for change in compared.findings:
        told.setdefault(change.kind, []).append(change.finding.line)
    return told


def test_what_changed_between_two_reports(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("net.py").write_text(
        NET.replace("x.sum() > 0", "x.sum() > 1").replace("        x = self.a(x)\n", "        x = self.a(x)\n\n\n")
    )
    keep("after.json", check(["net.py"], run=False))
    before, after = load("net.json"), load("after.json")
    assert isinstance(before, Report)
    assert isinstance(after, Report)
    compared = compare(before, after)
    assert kinds(compared) == {"new": [13], "fixed": [11], "moved": [15, 17]}
    assert [c.because for c in compared.findings if c.kind == "new"] == [("net.py changed",)]
    assert compared.own_files == ("net.py",)
    assert kinds(compare(before, before)) == {"unchanged": [11, 13, 15]}
    assert run("--compare", "net.json", "after.json") == 1
    out = capsys.readouterr().out
    assert "1 new, 1 fixed, 2 moved, 0 unchanged" in out
    assert "NEW net.py:13: TCR101 error" in out
    assert "MOVED net.py:15 (was 13)" in out
    assert run("--compare", "net.json", "net.json") == 0
    assert run("--compare", "net.json", "after.json", "--output-format", "json", "-o", "c.json") == 1
    assert from_json(Comparison, json.loads(Path("c.json").read_text())) == dataclasses.replace(
        compared, before="net.json", after="after.json"
    )
    capsys.readouterr()
    assert run("--compare", "net.json", "after.json", "--output-format", "markdown") == 1
    assert "| `net.py:13` |" in capsys.readouterr().out
    assert run("--compare", "net.json", "after.json", "--html", "c.html", "--editor", "vscode") == 1
    told = capsys.readouterr()
    assert "NEW net.py:13" in told.out
    assert told.err == "the page is in c.html\n"
    page = Path("c.html").read_text()
    assert "(was 13)" in page
    assert f"vscode://file{Path.cwd().as_posix()}/net.py:13:" in page
    assert run("--compare", "net.json", "after.json", "--output-format", "html") == 1
    assert str(Path.cwd()) not in capsys.readouterr().out
    assert run("net.json", "--html", "n.html", "-q") == 0
    assert str(Path.cwd()) not in Path("n.html").read_text()
    assert run("net.json", "--html", "n.html", "-q", "--editor", "pycharm") == 0
    assert f"pycharm://open?file={Path.cwd().as_posix()}/net.py&amp;line=" in Path("n.html").read_text()
    assert run("net.json", "--html", "n.html", "--editor", "emacs") == 2
    assert "--editor emacs: use vscode, pycharm, none, or an address" in capsys.readouterr().err
    assert run("--compare", "net.json", "c.html") == 2  # a page of a comparison holds no report
    assert "without a whole tcready report" in capsys.readouterr().err


def test_fail_on_weighs_what_is_new(project: Path) -> None:
    mended = NET.replace("x.sum() > 0", "x.shape[0] > 64")
    Path("net.py").write_text(mended)
    report = check(["net.py"], run=False)
    keep("after.json", report)
    levels = {f.level for f in report.findings if f.line == 11}
    assert levels == {"note"}
    assert run("--compare", "net.json", "after.json", "-o", "out") == 0
    assert run("--compare", "net.json", "after.json", "-o", "out", "--fail-on", "note") == 1


def with_run(change: Any = None, **fields: Any) -> Report:
    keep("run.json", dataclasses.replace(RUN, **fields))
    return check(["net.py"], observations=["run.json"])


def test_a_new_break_is_put_down_to_what_differs(project: Path) -> None:
    before = with_run(break_sites=RUN.break_sites[:1])
    environment = {"torch": "2.13.0", "device": "cuda", "packages": {"transformers": "5.0"}, "cpu": "another"}
    after = with_run(environment=environment, coverage=Coverage(5, 3, 0.6))
    compared = compare(before, after)
    assert kinds(compared) == {"unchanged": [11, 13, 15], "new": [16]}
    (new,) = [change for change in compared.findings if change.kind == "new"]
    facts = ("net.py did not change", "packages.transformers: 4.0 before, 5.0 now", "torch: 2.11.0 before, 2.13.0 now")
    assert new.because == facts
    (target,) = compared.targets
    assert (target.ran, target.before, target.after) == (True, "not_ready", "not_ready")
    assert (target.coverage_before, target.coverage_after) == (0.8, 0.6)
    assert [(s.kind, s.site.line, s.because) for s in target.sites] == [("new", 16, facts)]
    assert {d.name for d in target.differences} == {"torch", "packages.transformers", "cpu"}
    assert exit_code(compared) == 1
    back = compare(after, before)
    assert kinds(back)["fixed"] == [16]
    assert [(s.kind, s.site.line) for s in back.targets[0].sites] == [("fixed", 16)]
    assert exit_code(back) == 0


def test_a_dependency_whose_code_changed_is_named(project: Path) -> None:
    library = ("library/mod.py", "1" * 64)
    before = with_run(break_sites=RUN.break_sites[:1], digests=(*RUN.digests, library))
    after = with_run(digests=(*RUN.digests, (library[0], "2" * 64)))
    compared = compare(before, after)
    assert compared.other_files == ("library/mod.py",)
    (new,) = [change for change in compared.findings if change.kind == "new"]
    assert new.because == ("net.py did not change", "installed code changed in library/mod.py")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("print(x)", "x = x * 2", "print(x)", "x = x * 3"), {"unchanged": [11, 13]}),
        (("x = x * 2", "print(x)", "x = x * 3"), {"fixed": [11], "moved": [12]}),
        (("print(x)", "x = x * 2", "x = x * 3"), {"unchanged": [11], "fixed": [13]}),
        (
            ("print(x)", "print(x)", "x = x * 2", "print(x)", "x = x * 3"),
            {"unchanged": [11], "new": [12], "moved": [14]},
        ),
        (("x = x * 4", "print(x)", "x = x * 5"), {"moved": [12], "fixed": [13]}),  # nothing tells which it is
    ],
)
def test_of_lines_that_are_alike_the_one_that_is_gone_is_fixed(
    lines: tuple[str, ...], expected: dict[str, list[int]], project: Path
) -> None:
    def checked(body: tuple[str, ...]) -> Report:
        head = NET[: NET.index("        if x.sum()")]
        Path("net.py").write_text(head + "".join(f"        {line}\n" for line in (*body, "return x")))
        return check(["net.py"], run=False)

    before = checked(("print(x)", "x = x * 2", "print(x)", "x = x * 3"))
    assert kinds(compare(before, checked(lines))) == expected


def test_a_break_that_moved_is_the_same_one(project: Path) -> None:
    before = with_run()
    Path("net.py").write_text("\n" + NET)
    moved = tuple(dataclasses.replace(site, line=site.line + 1) for site in RUN.break_sites)
    compared = compare(before, with_run(break_sites=moved, executed=(), traced=(), digests=()))
    assert compared.targets[0].sites == ()
    assert kinds(compared)["moved"] == [12, 14, 16, 17]


def test_what_the_later_report_could_not_tell_is_not_fixed(project: Path) -> None:
    before = with_run()
    static = check(["net.py"], run=False)
    assert kinds(compare(before, static)) == {"unchanged": [11, 13, 15], "not_compared": [16]}
    assert kinds(compare(before, check(["other.py"], run=False)))["not_compared"] == [11, 13, 15, 16]
    check(["net.py"], run=False, write_baseline="known.json")
    hidden = check(["net.py"], run=False, baseline="known.json")
    assert set(kinds(compare(static, hidden))) == {"not_compared"}
    with pytest.raises(TcreadyError, match="baseline"):
        compare(hidden, static)


NOQA = NET.replace("x.sum() > 0:", "x.sum() > 0:  # noqa: TCR101")
TRAINED = NET.replace("if x.sum() > 0", "if self.training and x.sum() > 0")


@pytest.mark.parametrize(
    ("text", "then", "later", "now", "why"),
    [
        (NET, {}, NET, {"ignore": ["TCR101"]}, "hides it"),
        (NET, {}, NET, {"select": ["TCR2", "TCR3"]}, "hides it"),
        (NET, {}, NET, {"per_file_ignores": {"net.py": ["TCR10"]}}, "hides it"),
        (NET, {}, NOQA, {}, "hides it"),
        (TRAINED, {"mode": "train"}, TRAINED, {"mode": "infer"}, "--mode train before and infer now"),
        (TRAINED, {"mode": "both"}, TRAINED, {"mode": "infer"}, "--mode both before and infer now"),
        (TRAINED, {"mode": "train"}, NET.replace("x.sum() > 0", "y"), {"mode": "both"}, None),
        (NET, {"torch_version": "2.11"}, TRAINED, {"torch_version": "2.13"}, "torch 2.11 before and 2.13 now"),
        (NET, {"low": True}, TRAINED, {}, "--low before"),
        (NET, {}, TRAINED, {"low": True}, None),
        (NET, {}, TRAINED, {"plain_call": True}, "--plain-call now"),
        (NET, {}, NET.replace("x.sum() > 0", "y"), {}, None),
        (NET, {}, NET.replace("(nn.Module)", ""), {}, "net.py::Net is not in the later report"),
    ],
)
def test_what_is_hidden_or_read_otherwise_is_not_fixed(
    project: Path, text: str, then: dict[str, Any], later: str, now: dict[str, Any], why: str | None
) -> None:
    Path("net.py").write_text(text)
    before = check(["net.py"], run=False, **then)
    Path("net.py").write_text(later)
    after = check(["net.py"], run=False, **now)
    told = [change for change in compare(before, after).findings if change.finding.line == 11]
    (change,) = [change for change in told if change.kind != "new"]
    assert (change.kind, len(change.because)) == (("not_compared", 1) if why else ("fixed", 0))
    assert (why or "") in "".join(change.because)


def test_what_a_run_in_one_mode_showed_is_not_fixed_by_a_run_in_the_other(project: Path) -> None:
    keep("train.json", dataclasses.replace(RUN, mode="train"))
    keep("infer.json", dataclasses.replace(RUN, break_sites=RUN.break_sites[:1]))
    both = check(["net.py"], observations=["train.json", "infer.json"])
    infer = check(["net.py"], observations=["infer.json"])
    assert kinds(compare(both, infer))["not_compared"] == [16]
    keep("train.json", dataclasses.replace(RUN, mode="train", break_sites=RUN.break_sites[:1]))
    mended = check(["net.py"], observations=["train.json", "infer.json"])
    assert kinds(compare(both, mended))["fixed"] == [16]


def test_what_is_new_says_that_it_was_hidden_or_read_otherwise(project: Path) -> None:
    before = check(["net.py"], run=False, ignore=["TCR101"])
    (new,) = [c for c in compare(before, check(["net.py"], run=False, mode="both")).findings if c.kind == "new"]
    assert new.because == (
        "the earlier report hides it: a noqa comment, or the choice of rules",
        "net.py did not change",
        "mode: infer before, both now",
    )


def test_files_that_one_report_alone_read_do_not_differ(project: Path) -> None:
    compared = compare(check(["."], run=False), check(["net.py"], run=False))
    assert compared.own_files == ()


def test_a_target_that_no_longer_compiles_fails_and_one_that_no_longer_runs_could_not(project: Path) -> None:
    keep("before.json", with_run())
    stages = (*RUN.stages[:4], Stage("capture", "fail", "InternalTorchDynamoError: oh", reason="compile_error"))
    keep("after.json", with_run(stages=stages, break_sites=()))
    assert run("--compare", "before.json", "after.json", "-o", "out") == 1
    assert "capture fails now" in Path("out").read_text()
    stages = (*RUN.stages[:2], Stage("build", "fail", "no", reason="error"))
    keep("after.json", with_run(stages=stages, break_sites=(), coverage=None))
    assert run("--compare", "before.json", "after.json", "-o", "out") == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["--compare", "net.json"],
        ["--compare", "net.json", "net.json", "net.json"],
        ["net.json", "--html", "page.html", "--editor", "javascript:{path}"],
        ["--compare", "net.json", "net.json", "--output-format", "sarif"],
        [],
    ],
)
def test_what_cannot_be_asked_is_one_line_and_exit_2(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run(*arguments) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not Path("page.html").exists()


def test_records_of_a_gpu_are_rendered_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cuda = ROOT / "fixtures" / "cuda"
    report = combine([str(cuda / "bert.json"), str(cuda / "moe.json")])
    assert len(report.targets) == 2
    keep("bert.json", combine([str(cuda / "bert.json")]))
    assert run("--compare", "bert.json", str(cuda / "bert.json")) == 0


def test_a_report_is_not_lost_to_its_own_text(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep("run.json", check(["net.py"], run=False))
    stored = (project / "run.json").read_bytes()
    assert run("run.json", "-o", "run.json") == 2
    assert "--output run.json is what is to be read, and would be lost" in capsys.readouterr().err
    assert (project / "run.json").read_bytes() == stored
    assert run("run.json", "--output-format", "json", "-o", "run.json") == 0
