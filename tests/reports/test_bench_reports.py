"""What the readable formats say of a bench: units, tables, drawings, and two benches compared."""

from __future__ import annotations

import dataclasses
import math
import re

import pytest
from bench_samples import VENDOR, full_bench
from report_samples import benched, changed, sample
from rich.cells import cell_len
from tcready.pipeline.comparison import compare, compare_benches
from tcready.portable.quantities import plain_number, size_text, time_text
from tcready.reports import render, render_comparison
from tcready.reports.bench.bench_view import (
    COSTS,
    TIMES,
    calls_interval,
    columns_of_times,
    facts,
    loader_sentence,
    phases,
    ratio_interval,
    relative,
    table,
    time_interval,
)
from tcready.reports.bench.charts import case_charts, charts
from tcready.reports.html.drawing import Scale
from tcready.schema.bench import ArmBench, Bench, BenchCase, Figure, Items, LoaderShare, Noise
from tcready.schema.codec import as_json, from_json
from tcready.schema.comparison import Comparison
from tcready.schema.report import Report


def with_bench(bench: Bench | None) -> Report:
    return dataclasses.replace(benched(), targets=(changed(benched().targets[0], bench=bench),))


def small(seconds: float, wide: float, *, arm: str = "default", case: str = "all cases") -> Bench:
    """One arm, its interval `wide` of its median to either side."""
    figure = Figure(seconds, seconds * (1 - wide), seconds * (1 + wide), 3)
    return Bench("no_gain", "", (BenchCase(case, (ArmBench(arm, "no_gain", figure),)),))


def test_what_was_not_measured_is_said_beside_the_tables() -> None:
    arms = [ArmBench(name, "no_gain", None, energy_reason="not run: no NVIDIA GPU") for name in ("eager", "default")]
    plain = Bench("no_gain", "", (BenchCase("all cases", tuple(arms)),))
    said = dict(facts(plain))
    assert said["energy"] == "not run: no NVIDIA GPU"
    assert said["noise"].startswith("not measured")
    measured = [dataclasses.replace(arm, energy_joules=1.0) for arm in arms]
    assert "energy" not in dict(facts(dataclasses.replace(plain, cases=(BenchCase("all cases", tuple(measured)),))))


def test_resident_memory_stands_beside_that_of_a_device() -> None:
    def shown(resident: int) -> bool:
        arm = ArmBench("default", "no_gain", None, memory_steady_bytes=5_000_000, resident_steady_bytes=resident)
        return "resident memory" in table(BenchCase("all cases", (arm,)), COSTS).headings

    assert shown(9_000_000)
    assert not shown(5_000_000)


def test_throughput_makes_no_report_longer_or_wider() -> None:
    bench = full_bench()
    without = dataclasses.replace(bench, cases=tuple(dataclasses.replace(case, items=()) for case in bench.cases))
    for width in range(70, 140, 5):
        found, before = (
            render(with_bench(each), "text", width=width, verbose=True).splitlines() for each in (bench, without)
        )
        assert len(found) <= len(before), width
        assert max(map(cell_len, found)) <= max(width, *map(cell_len, before))
        shown = [line for line in found if "tokens/s" in line]
        assert len(shown) == len(bench.cases), width


def test_every_unit_is_on_the_page_and_the_first_one_in_markdown() -> None:
    found = columns_of_times(full_bench().cases[0])
    assert [column.heading for column in found][-3:] == ["calls a second", "tokens/s", "samples/s"]
    steps = dataclasses.replace(full_bench().cases[0], items=(Items("steps", 1.0, "steps: one a call"),))
    assert [column.heading for column in columns_of_times(steps)][-2:] == ["p99", "steps/s"]
    markdown = render(benched(), "markdown")
    assert "prefill, 25 % of the weight; tokens: 4 x 512 input" in markdown.replace("\\", "")
    assert "497,000" in markdown


# Units


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (4.2e-8, "0.0420 µs"),
        (8.1234e-4, "812 µs"),
        (9.9996e-4, "1.00 ms"),
        (0.00192, "1.92 ms"),
        (12.34, "12.3 s"),
        (412.0, "412 s"),
        (600.0, "10.0 min"),
        (9000.0, "2.50 h"),
        (math.inf, "∞ h"),
    ],
)
def test_times_have_three_digits_in_the_unit_that_reads_best(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (999_950, "1.00 MB"), (1.2e9, "1.20 GB"), (8.12e8, "812 MB")]
)
def test_memory_is_told_in_powers_of_1000(count: float, text: str) -> None:
    assert size_text(count) == text


def test_an_interval_has_the_unit_of_its_median_and_as_many_digits_as_it_tells() -> None:
    assert time_interval(Figure(0.00192, 0.0019, 0.00195, 3)) == "1.92 ms (1.90\u20131.95)"
    assert time_interval(Figure(0.9, 0.8, 1.1, 3)) == "900 ms (800\u20131,100)"
    assert ratio_interval(Figure(1.0021, 1.0002, 1.0049, 5)) == "1.002x (1.000\u20131.005)"
    assert ratio_interval(Figure(1.3, 1.3, 1.3, 1)) == "1.30x"
    assert time_interval(Figure(5.58e-4, 1.3e-5, 0.02465, 1)) == "558 µs (far apart)"
    assert ratio_interval(Figure(0.324, 2.4e-9, 42_693_842.818, 1)) == "0.324x (far apart)"
    assert calls_interval(Figure(24_637.0, 22_111.0, math.inf, 3)) == "24,600 (22,100\u2013∞)"
    assert plain_number(math.nan) == "\u2013"


def test_what_did_not_change_is_no_plus() -> None:
    assert [relative(now, 100.0) for now in (100.0, 100.01, 101.5, 80.0, 250.0)] == [
        "0 %",
        "0 %",
        "+1.5 %",
        "-20 %",
        "+150 %",
    ]


# Tables


def test_a_column_in_which_nothing_was_measured_is_left_out() -> None:
    (case,) = small(1e-3, 0.01).cases
    assert table(case, TIMES).headings == ("verdict", "one call")
    assert table(case, COSTS).headings == ()
    eager = ArmBench("eager", "baseline", None, memory_peak_bytes=100)
    more = ArmBench("default", "regression", None, memory_peak_bytes=150, cold_seconds=Figure(1, 1, 1, 1))
    cells = [row.cells for row in table(BenchCase("x", (eager, more)), COSTS).rows]
    assert cells == [("\u2013", "100 B"), ("1.00 s", "150 B (+50 %)")]


def test_what_is_never_won_back_is_told_from_what_is_not_known() -> None:
    def pays(arm: ArmBench) -> str:
        shown = table(BenchCase("x", (arm,)), COSTS)
        return dict(zip(shown.headings, shown.rows[0].cells, strict=True)).get("pays after calls", "")

    one = Figure(1.0, 0.9, 1.1, 3)
    slower, either = Figure(0.8, 0.7, 0.9, 3), Figure(1.3, 0.98, 1.6, 3)
    assert pays(ArmBench("default", "regression", one, speedup=slower, cold_seconds=one)) == "never"
    assert pays(ArmBench("default", "inconclusive", one, speedup=either, cold_seconds=one)) == "not sure"
    assert pays(ArmBench("default", "no_gain", one, memory_peak_bytes=1)) == ""


def test_phases_that_are_longer_than_the_start_leave_no_rest() -> None:
    arm = ArmBench("a", "no_gain", None, cold_seconds=Figure(2, 2, 2, 1), cold_phases=(("dynamo", 1.5), ("new", 1.0)))
    assert phases(arm) == (("Dynamo", 1.5), ("new", 1.0))


def test_where_the_time_goes_names_the_bound() -> None:
    text = loader_sentence(LoaderShare("data.py::loader", 50, 0.62, 0.0, 0.38, 1.61))
    assert text.startswith("your pipeline waits 62 % of the time for data; compile can gain at most 1.61x")
    assert loader_sentence(LoaderShare("x", 0, 0.0, 0.0, 0.0)) == "x: nothing measured"


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_the_text_keeps_within_its_width(width: int) -> None:
    lines = render(benched(), "text", width=width, verbose=True).splitlines()
    first = next(at for at, line in enumerate(lines) if "is it worth compiling" in line)
    prose = [line for line in lines[first:] if not line.startswith("    repeat it ") and " not measured " not in line]
    assert max(map(cell_len, prose)) <= width
    assert sum(VENDOR in line for line in lines) > 0 or width < 80


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_the_short_text_is_short_and_narrow(width: int) -> None:
    bench = full_bench()
    last = bench.cases[-1]
    cases = (dataclasses.replace(last, arms=last.arms[:2]),)
    one = with_bench(dataclasses.replace(bench, cases=cases, longer="tcready bench m.py --soak 600"))
    lines = render(one, "text", width=width).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert len(lines) <= (25 if width >= 80 else 32)
    text = " ".join(" ".join(lines).split())
    assert "SPEED model.py::Net: REAL GAIN" in text
    assert "cold start" in text
    assert text.count("not measured") == 1
    assert "tcready bench m.py --soak 600" in text


def test_of_many_cases_only_the_whole_is_told_at_length() -> None:
    bench = full_bench()
    cases = tuple(dataclasses.replace(bench.cases[0], case=f"shape {n}") for n in range(6))
    many = with_bench(dataclasses.replace(bench, cases=(*cases, bench.cases[2])))
    text, comment = render(many, "text", verbose=True), render(many, "markdown")
    assert text.count("one call") == 7
    assert text.count("memory peak") == 1
    before, _, folded = comment.partition("<details>")
    assert before.count("| verdict |") == 1
    assert folded.count("| verdict |") == 6


def test_the_verdict_of_speed_stands_last_and_on_the_ladder() -> None:
    text = render(benched(), "text", verbose=True)
    assert "✅ speed     real gain: default 1.43x (412 s)" in text
    last = text[text.index("\nVERDICT ") + 1 :]
    assert [line[:5] for line in last.splitlines() if line[0] != " "] == ["VERDI", "SPEED", "FIRST"]
    assert "\nSPEED   model.py::Net: REAL GAIN: default is 1.43x" in last
    assert "\nFIRST   compile it like the arm default, which was measured to pay\n      > " in last


def test_eager_is_recommended_in_words() -> None:
    bench = dataclasses.replace(small(1.0, 0.01), recommended="eager")
    for form in ("text", "html", "markdown"):
        verbose = {"verbose": True} if form == "text" else {}
        made = render(with_bench(bench), form, **verbose)
        assert "eager: leave it as it is" in made.replace("Eager:", "eager:")
    assert "leave it eager" in render(with_bench(bench), "text")


def test_a_bench_that_could_not_be_made_is_rendered() -> None:
    for form in ("text", "html", "markdown"):
        text = render(with_bench(Bench("not_run", "no arm compiled anything", ())), form)
        assert "not run" in text.lower()
        assert "no arm compiled anything" in text


def test_the_answer_of_a_bench_stands_above_that_of_the_check() -> None:
    page = render(benched(), "html")
    assert ": real gain</h1>" in page
    first, then = (page.index(f'<span class="word">{word}</span>') for word in ("real gain", "ready"))
    assert first < then
    assert page.index('id="bench"') < page.index('id="first"')


def test_a_bench_of_which_every_arm_failed_says_failed() -> None:
    arms = (ArmBench("eager", "baseline", Figure(1, 1, 1, 3)), ArmBench("default", "failed", None, "it differs"))
    bench = Bench("no_gain", "default failed: it differs", (BenchCase("x", arms),))
    assert "FAILED: default failed: it differs" in render(with_bench(bench), "text")
    assert '<span class="word">failed</span>' in render(with_bench(bench), "html")
    assert "**failed**: default failed: it differs" in render(with_bench(bench), "markdown")


@pytest.mark.parametrize("form", ["text", "html", "markdown"])
def test_noise_is_told_by_case_and_notes_are_told(form: str) -> None:
    bench = full_bench()
    noise = Noise(Figure(1.25, 1.2, 1.3, 3), "inconclusive", 0.1)
    cases = (dataclasses.replace(bench.cases[0], noise=noise), *bench.cases[1:])
    made = with_bench(dataclasses.replace(bench, cases=cases, notes=("busy: much",)))
    text = render(made, form, **({"verbose": True} if form == "text" else {}))
    assert text.lower().replace("\\", "").count("eager against itself 1.25x") == 1
    assert "busy: much" in text.lower()
    assert "busy: much" in render(made, "text")


# Drawings


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.00281, 0.00426), (7.7e8, 7.9e8), (1.0, 1.0), (0.0, 3e7)])
def test_ticks_are_few_and_inside(low: float, high: float) -> None:
    ticks = Scale(low, high, 0, 100).ticks()
    assert 1 <= len(ticks) <= 8
    assert all(low - 1e-9 * abs(low) <= tick <= high * (1 + 1e-9) for tick in ticks)


def test_every_arm_that_was_timed_is_drawn_with_its_numbers() -> None:
    bench = full_bench()
    calls, single, pays = case_charts(bench.cases[0])
    assert {row[0] for row in calls.rows} == {"eager", "default", "reduce-overhead"}
    assert [row[0] for row in single.rows] == ["eager", "default", "reduce-overhead"]
    half = next(curve for curve in single.curves if curve.title.startswith("eager: half of the calls within"))
    ups = [y for _, y in half.points]
    assert ups == sorted(ups, reverse=True)
    assert len(calls.dots) == 90
    assert [row[0] for row in pays.rows] == ["eager", "default", "default, warm cache", "reduce-overhead"]
    assert pays.rows[3][-1] == "not sure"
    cold, latency, resident, device = charts(bench)
    assert cold.headings == ("start", "Dynamo", "AOTAutograd", "Inductor", "Triton", "the rest", "whole")
    assert [row[0] for row in cold.rows].count("default") == 1  # the same in every case
    assert len(latency.rows) == 11
    assert sum("dashed" in curve.kind and len(curve.points) > 2 for curve in latency.curves) == 1
    assert sum(curve.kind == "s1" and bool(curve.title) for curve in resident.curves) == 1
    assert sum(curve.kind == "s1" and bool(curve.title) for curve in device.curves) == 2  # a point is missing


@pytest.mark.parametrize("own", [None, 1.7])
def test_arms_cross_where_they_pay(own: float | None) -> None:
    """What is won back is what a start takes beyond eager's own."""
    case = full_bench().cases[0]
    eager_arm, default_arm, *rest = case.arms
    cold = None if own is None else Figure(own, own, own, 1)
    later = Figure(14.2 + (own or 0.0), 14.0, 14.9, 3)
    arms = (
        dataclasses.replace(eager_arm, cold_seconds=cold),
        dataclasses.replace(default_arm, cold_seconds=later, cold_warm_cache_seconds=None),
        *rest,
    )
    (_, _, pays) = case_charts(dataclasses.replace(case, arms=arms))
    eager, default = (next(c for c in pays.curves if c.title.startswith(f"{name}:")) for name in ("eager", "default"))
    (dot, *_) = pays.dots

    def height(curve: tuple[tuple[float, float], ...], x: float) -> float:
        (x0, y0), (x1, y1) = curve
        return y0 + (x - x0) / (x1 - x0) * (y1 - y0)

    assert height(eager.points, dot.x) == pytest.approx(dot.y, abs=1)
    assert height(default.points, dot.x) == pytest.approx(dot.y, abs=1)


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_odd_numbers_are_drawn_by_nobody(value: float) -> None:
    odd = Figure(value, value, value, 1)
    eager = ArmBench("eager", "baseline", odd, blocks=((value, value),))
    arm = ArmBench("default", "no_gain", odd, cold_seconds=odd, break_even_calls=odd, blocks=((value,), ()))
    case = BenchCase("x", (eager, arm))
    text = render(with_bench(Bench("no_gain", "", (case,))), "html")
    drawn = "".join(re.findall(r'<svg viewBox="0 0 1000.*?</svg>', text, re.DOTALL))
    assert re.findall(r'"[^"]*\b(?:nan|inf)\b[^"]*"', drawn) == []


# Two benches


@pytest.mark.parametrize(
    ("before", "after", "wide", "noise", "state"),
    [
        (1.0, 0.8, 0.02, 1.01, "faster"),
        (1.0, 1.2, 0.02, 1.01, "slower"),
        (1.0, 1.025, 0.02, 1.01, "within_noise"),
        (1.0, 1.2, 0.02, 1.25, "within_noise"),
        (0.0, 1.2, 0.02, 1.0, "within_noise"),
    ],
)
def test_what_changed_is_beyond_both_the_intervals_and_the_noise(
    before: float, after: float, wide: float, noise: float, state: str
) -> None:
    one = dataclasses.replace(small(before, wide), noise=Noise(Figure(1.0, 1 / noise, noise, 3), "no_gain", 0.01))
    found = compare_benches(one, small(after, wide))
    assert found is not None
    assert [change.state for change in found.arms] == [state]


def test_another_machine_is_not_compared_and_another_torch_is_named() -> None:
    one, two = small(1.0, 0.01), small(0.5, 0.01)
    here = dataclasses.replace(one, stack=(("gpu", "A100"), ("torch", "2.13.0")))
    there = dataclasses.replace(two, stack=(("gpu", "H200"), ("torch", "2.14.0")))
    newer = dataclasses.replace(two, stack=(("gpu", "A100"), ("torch", "2.14.0")))
    for after, state, named in ((there, "not_comparable", ["gpu"]), (newer, "faster", [])):
        found = compare_benches(here, after)
        assert found is not None
        assert [change.state for change in found.arms] == [state]
        assert [d.name for d in found.machine] == named
        assert [d.name for d in found.differences] == ["torch"]
    told = render_comparison(compare(with_bench(here), with_bench(there)), "text")
    assert "no gain; not comparable: gpu A100 -> H200" in told
    assert "default in all cases: not comparable: 1.00 s (0.99\u20131.01) -> 500 ms (495\u2013505)\n" in told


def test_arms_of_one_bench_alone_and_a_bench_of_one_report_alone_are_told() -> None:
    found = compare_benches(small(1.0, 0.01), small(1.0, 0.01, arm="plan"))
    assert found is not None
    assert found.missing == ("default in all cases", "plan in all cases")
    alone = compare(with_bench(None), with_bench(full_bench()))
    assert "speed: not measured -> real gain" in render_comparison(alone, "text")
    assert compare(with_bench(None), with_bench(None)).targets[0].bench is None


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_a_comparison_of_benches_is_told_in_each_format_and_read_back(form: str) -> None:
    slower = dataclasses.replace(
        full_bench(),
        verdict="regression",
        cases=tuple(
            dataclasses.replace(
                case,
                arms=tuple(
                    dataclasses.replace(
                        arm, seconds=Figure(*(2 * each for each in (found.median, found.low, found.high)), found.n)
                    )
                    if (found := arm.seconds) and arm.arm == "default"
                    else arm
                    for arm in case.arms
                ),
            )
            for case in full_bench().cases
        ),
    )
    made = compare(sample("benched"), with_bench(slower))
    assert from_json(Comparison, as_json(made)) == made
    text = render_comparison(made, form)
    words = {
        "text": "default in prefill: slower: 2.88 ms (2.86\u20132.91) -> 5.76 ms (5.72\u20135.81), +100 %",
        "markdown": "| prefill | default | 2.88 ms \\(2.86\u20132.91\\) | 5.76 ms \\(5.72\u20135.81\\) | \\+100 % | slower |",
        "json": '"state": "slower"',
    }
    assert words[form] in text
