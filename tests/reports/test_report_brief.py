"""What the text shows by default: verdict and what to do first, a line or two a finding, and no more than a screen."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from report_samples import HOSTILE_STRINGS, SAMPLES, broken, changed, clean, failed, planned, report, sample, static
from rich.cells import cell_len
from tcready import api
from tcready.reports import render
from tcready.reports.shared.next_steps import steps
from tcready.reports.shared.wording import visible
from tcready.reports.text.summary_or_full import LINES
from tcready.schema.bench import ArmBench, Bench, BenchCase
from tcready.schema.observation import Stage
from tcready.schema.report import Region, Report
from tcready.schema.short_ids import named_by, short_names
from tcready.schema.static import Fix

ROOT = Path(__file__).resolve().parents[2]
MANY = ROOT / "fixtures" / "many"
SGR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def read() -> Report:
    """A real report of a model with 18 findings, of its source alone."""
    return api.check("model.py", root=MANY, run=False)


@pytest.fixture(scope="module")
def ran() -> Report:
    """The same with a run, which Dynamo did and which was kept (docs/pages/testing.md says how to make it again)."""
    return api.check("model.py", root=MANY, observations=["seen.json"])


def rows(text: str, width: int) -> int:
    return sum(max(1, -(-cell_len(line) // width)) for line in text.splitlines())


def findings_in(text: str) -> list[str]:
    """The short names of the findings that have a line, in order."""
    return re.findall(r"^\S.*?:\d+:\d+: \S+ (?:error|warning|note) .* \([a-z ]+\) (\S+)$", text, re.M)


@pytest.mark.parametrize("which", ["read", "ran"])
def test_a_report_with_eighteen_findings_fits_a_screen(which: str, request: pytest.FixtureRequest) -> None:
    made: Report = request.getfixturevalue(which)
    assert len(made.findings) >= 17
    text = render(made, "text", width=100)
    assert rows(text, 100) <= LINES == 60
    assert len(findings_in(text)) == len(made.findings)
    assert len(render(made, "text", verbose=True, width=100).splitlines()) > 3 * LINES


def test_the_summary_comes_first_and_the_count_last(ran: Report) -> None:
    text = render(ran, "text", width=100)
    lines = text.splitlines()
    summary = " ".join(" ".join(text.split("\n\n")[0].split()).split())
    assert lines[0].startswith("VERDICT model.py::Model: READY BY REGION: 10 break sites")
    assert "in graphs: 72 % of the time, 60 % of the operations (62 of 103)" in summary
    assert "FIRST compile regions, as planned; in graphs: 99.6 % of the time (now 75 %)" in summary
    assert "> model.compile()" in summary
    assert re.search(r"THEN fix TCR101 at model\.py:41 and 3 more places \([0-9a-f]{7}\): it makes", summary)
    assert re.fullmatch(r"18 errors in your code \(.*\)\.", lines[-1])


def test_the_code_that_is_shown_is_that_of_the_plan(ran: Report) -> None:
    plan = ran.targets[0].observation.plan
    assert plan is not None
    shown = [line[8:] for line in render(ran, "text").splitlines() if line.startswith("      > ")]
    assert shown == plan.code.splitlines()


def test_without_a_run_what_is_surest_comes_first_and_the_way_to_prove_it_is_told(read: Report) -> None:
    text = render(read, "text", width=100)
    assert "VERDICT" not in text
    assert text.count("othing was run") == 1
    assert re.search(r"^FIRST   fix TCR\d{3} at model\.py:\d+ ", text, re.M)
    assert "✅" not in text
    one = render(static(), "text")
    assert "To prove what is predicted, run `tcready check model.py::Net --run --plan`" in " ".join(one.split())


def test_of_a_model_whose_build_failed_it_is_asked_how_it_is_made_unless_that_was_said() -> None:
    stage = Stage("build", "fail", "TypeError: missing 1 required positional argument", reason="not_built")
    target = changed(broken().targets[0], stages=(stage,), verdict="unknown")

    def first(**given: Any) -> str:
        made = report(targets=(changed(target, **given),))
        return " ".join(render(made, "text", width=200).split())

    assert "say how it is made: --model" in first(asked=("model.py::Net",))
    assert "say how it is made" not in first(asked=("hf:bert", "--tiny"))
    assert "say how it is made" not in first(asked=("--model", "acme.Net(3)"))
    stages = (Stage("build", "fail", "a weight names the case x, which the inputs do not", reason="error"),)
    assert "say how it is made" not in first(asked=("model.py::Net",), stages=stages)


def test_what_to_do_first_is_what_costs_most_in_the_run() -> None:
    """Of the changes that findings ask for, by the time that they keep out of graphs."""
    found = broken()
    again = next(each for each in found.findings if each.effect == "recompile" and each.status == "confirmed")
    assert f"THEN    fix {again.rule} at " in render(found, "text"), "at the limit all of it is lost"
    before = dataclasses.replace(found, findings=tuple(f for f in found.findings if f is not again))
    assert "THEN    fix TCR101 at model.py:15 (" in render(before, "text")
    cost = {"operations": 1, "seconds": 9.0}
    dear = next(f for f in before.findings if f.origin == "own" and f.rule not in (None, "TCR101"))
    findings = tuple(dataclasses.replace(f, cost=cost) if f is dear else f for f in before.findings)
    after = dataclasses.replace(before, findings=findings)
    assert f"THEN    fix {dear.rule} at {dear.path}:{dear.line} (" in render(after, "text")
    assert "it makes 1 operation (9.0 s) run eagerly" in " ".join(render(after, "text").split())


@pytest.mark.parametrize(
    ("share", "verdict", "named"),
    [
        (0.93, "not_ready", True),
        (0.51, "not_ready", True),
        (0.5, "not_ready", False),
        (None, "not_ready", False),
        (0.93, "unknown", False),
    ],
)
def test_a_region_with_most_of_the_time_is_named_first(share: float | None, verdict: str, named: bool) -> None:
    regions = (
        Region("head", 1, "predicted", "", "model.head.compile()", 0.3, 0.02),
        Region("body", 1, "predicted", "", "model.body.compile()", 0.1, share),
        Region("gone", 1, "refuted", "", "", 0.9, 0.99),
    )
    target = changed(broken().targets[0], verdict=verdict, regions=regions, plan=None, bench=None)
    text = " ".join(render(report(targets=(target,)), "text", width=200).split())
    assert ("FIRST compile body (predicted, not run): " in text) is named


def test_advice_that_was_not_tried_is_marked_as_such() -> None:
    found = broken()
    assert "not tried on this code" in render(found, "text", verbose=True)
    assert "<b>Use instead</b> (not tried on this code):" in render(found, "html")
    first = next(f for f in found.findings if f.rule == "TCR101")
    fix = Fix("write torch.where", safe=False, diff="-a\n+b\n", verified=None)
    alone = dataclasses.replace(found, findings=(dataclasses.replace(first, fix=fix),))
    assert "; a change is suggested, not tried" in " ".join(render(alone, "text").split())


@pytest.mark.parametrize(
    ("recommended", "arms", "words"),
    [
        ("patched", ("default", "patched"), "compile it like the arm patched, which was measured to pay"),
        ("eager", ("default", "plan"), "leave it eager: no arm that was measured pays"),
        ("eager", ("default",), "compile regions, as planned"),  # which nobody measured
        (None, ("default", "plan"), "compile regions, as planned"),  # inconclusive
    ],
)
def test_what_was_measured_goes_before_what_is_captured(
    ran: Report, recommended: str | None, arms: tuple[str, ...], words: str
) -> None:
    rows = tuple(ArmBench(name, "no_gain", None) for name in ("eager", *arms))
    bench = Bench("no_gain", "", (BenchCase("all", rows),), recommended, "# after: git apply own.patch")
    target = ran.targets[0]
    seen = dataclasses.replace(target.observation, bench=bench)
    found = next(
        steps(dataclasses.replace(target, observation=seen), ran, short_names(f.fingerprint for f in ran.findings))
    )
    assert found.words.startswith(words)
    assert (found.code == bench.code) == (recommended == "patched")


def test_a_bench_that_decided_nothing_recommends_no_compiling() -> None:
    rows = tuple(ArmBench(name, "inconclusive", None) for name in ("eager", "default"))
    bench = Bench("inconclusive", "", (BenchCase("all", rows),), None, "")
    whole = clean()
    target = whole.targets[0]
    seen = dataclasses.replace(target.observation, bench=bench)
    found = next(steps(dataclasses.replace(target, observation=seen), whole, {}))
    assert found.words.startswith("the bench did not decide whether compiling pays: repeat it")
    assert not found.code


def test_what_is_ready_says_how_to_compile_it() -> None:
    text = render(clean(), "text")
    assert text.splitlines()[:3] == [
        "VERDICT model.py::Net: READY: captured whole; in graphs: 100 % of the operations (2 of 2)",
        "FIRST   compile it whole",
        "      > model.compile(fullgraph=True)",
    ]
    assert "mend" not in text


def test_what_is_ready_says_why_its_outputs_were_not_compared() -> None:
    target = clean().targets[0]
    why = "two eager runs with the same seeds differ"
    stages = tuple(
        Stage("parity", "not_run", why, reason="not_comparable") if stage.stage == "parity" else stage
        for stage in target.observation.stages
    )
    seen = dataclasses.replace(target.observation, stages=stages)
    text = render(report(targets=(dataclasses.replace(target, observation=seen),)), "text", width=200)
    assert text.splitlines()[0].endswith(f"(2 of 2); outputs not compared: {why}")


def test_a_run_that_failed_says_why() -> None:
    text = render(failed(), "text")
    assert "VERDICT model.py::Net: UNKNOWN: its import failed: No module named 'flash_attn'" in text
    assert "❌ import: ModuleNotFoundError: No module named 'flash_attn' (model.py:3)" in text
    assert "FIRST   import has to pass: ModuleNotFoundError: No module named 'flash_attn' (model.py:3)" in text
    assert "mend" not in text


def test_several_targets_have_a_summary_each_and_many_a_short_one() -> None:
    one = planned().targets[0]
    few = report(targets=(one, changed(one, target="other.py::Other")))
    text = render(few, "text")
    assert re.findall(r"^VERDICT (\S+):", text, re.M) == ["model.py::Net", "other.py::Other"]
    assert len(re.findall(r"^FIRST ", text, re.M)) == 2
    many = report(targets=tuple(changed(one, target=f"m.py::N{number}") for number in range(9)))
    text = render(many, "text", width=200)
    assert len(re.findall(r"^VERDICT ", text, re.M)) == 9
    assert "FIRST" not in text
    assert len(text.splitlines()) < 20
    read = report(targets=tuple(changed(static().targets[0], target=f"m.py::N{i}") for i in range(40)))
    assert render(read, "text").splitlines() == [
        "Nothing was run: `--run` runs a model, with generated inputs unless `--inputs` names some.",
        "No findings in your code.",
    ]


def test_two_findings_on_a_line_show_it_once(read: Report) -> None:
    text = render(read, "text", width=200)
    assert text.count("   24 | ") == 1
    first, second = (text.index(f"model.py:24:{column}:") for column in (9, 25))
    assert first < second < text.index("   24 | ")


def test_a_folder_that_was_read_says_what_to_mend_first(read: Report) -> None:
    targets = tuple(changed(read.targets[0], target=f"m.py::N{number}") for number in range(9))
    text = render(dataclasses.replace(read, targets=targets), "text", width=100)
    assert text.startswith("FIRST   fix TCR101 at model.py:20 and 3 more")
    assert rows(text, 100) <= LINES


@pytest.mark.parametrize("name", sorted(SAMPLES))
@pytest.mark.parametrize("width", [80, 100])
def test_colour_adds_colour_alone_and_prose_keeps_the_width(name: str, width: int) -> None:
    plain = render(sample(name), "text", width=width)
    coloured = render(sample(name), "text", width=width, color=True)
    assert SGR.sub("", coloured) == plain
    assert coloured != plain
    for line in plain.splitlines():
        whole = re.match(r"\S.*:\d+:\d+: |  \S+\.py: |      > |    repeat it  |    \S+ not measured ", line)
        assert whole or cell_len(line) <= width, line
        assert line == line.rstrip()
    assert "\n\n\n" not in plain


def test_nothing_a_model_says_reaches_the_terminal_raw() -> None:
    text = render(sample("hostile"), "text", width=100)
    assert not [
        c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2066\u200f\u2028\ufeff")
    ]
    assert all(visible(value) in text for value in HOSTILE_STRINGS)


def test_one_finding_is_told_as_the_long_form_tells_it(ran: Report) -> None:
    finding = next(f for f in ran.findings if f.line == 41)
    told = api.render_finding(ran, finding, width=100)
    assert told.startswith("model.py:41:16: TCR101 error [data-dependent-if]")
    for words in ("why:", "use instead:", "status:      confirmed by Dynamo", "cost:", "reached by:"):
        assert words in told
    assert told.split("why:")[0] in render(ran, "text", width=100, verbose=True)


@pytest.mark.parametrize(
    ("prints", "names"),
    [
        (["0123456789abcdef"], ["0123456"]),
        (["0123456789abcdef", "0123456789abcdef-2"], ["0123456", "0123456-2"]),
        (["0123456789abcdef", "01234567ffffffff"], ["012345678", "01234567f"]),
        (["ab", "cd"], ["ab", "cd"]),
        ([], []),
    ],
)
def test_short_names_are_as_long_as_it_takes(prints: list[str], names: list[str]) -> None:
    short = short_names(prints)
    assert [short[each] for each in prints] == names
    assert [named_by(name, prints) for name in names] == [[each] for each in prints]


def test_a_beginning_names_all_that_begin_so() -> None:
    prints = ["aa11", "aa22", "bb33", "bb33-2", "cc44-2"]
    assert named_by("aa", prints) == ["aa11", "aa22"]
    assert named_by("AA1", prints) == ["aa11"]
    assert named_by("bb", prints) == ["bb33"]
    assert named_by("bb-2", prints) == ["bb33-2"]
    assert named_by("cc", prints) == ["cc44-2"], "the first of them is not told"
    assert named_by("bb-3", prints) == named_by("", prints) == named_by("dd", prints) == []
