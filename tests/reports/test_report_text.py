"""The long form for a terminal: carets, what is shown when, and that nothing a model says can act on the terminal."""

from __future__ import annotations

import dataclasses
import re
import shlex
from textwrap import dedent

import pytest
from report_samples import (
    HOSTILE_STRINGS,
    NET,
    SAMPLES,
    broken,
    changed,
    failed,
    finding,
    planned,
    report,
    sample,
    source,
    static,
    target,
)
from rich.cells import cell_len
from tcready import reports
from tcready.reports.bench import bench_text
from tcready.reports.shared.phrases import number, percent, reflow
from tcready.reports.shared.wording import kind_of, shape_sentence, time_sentence, visible
from tcready.reports.text.terminal_layout import source_window
from tcready.schema.break_effect import BreakEffect, FrameFate
from tcready.schema.code_line import Frame
from tcready.schema.enums import STAGES, lines_of
from tcready.schema.observation import Stage
from tcready.schema.report import Report
from tcready.schema.run import Coverage, Plan, Training, TrainingPart
from tcready.schema.static import Finding, FindingTarget


def render(made: Report, form: str, **options: object) -> str:
    """As `-v` has it, where the format is text."""
    return reports.render(made, form, **(options | ({"verbose": True} if form == "text" else {})))


SGR = re.compile(r"\x1b\[[0-9;]*m")


def under_caret(text: str, caret: int, length: int) -> str:
    """The characters of `text` in the terminal cells [caret, caret + length)."""
    taken, at = "", 0
    for character in text:
        if caret <= at < caret + length:
            taken += character
        at += cell_len(character)
    return taken


@pytest.mark.parametrize(
    ("line", "span", "shown"),
    [
        ("    if x.sum() > 0:", "x.sum() > 0", "x.sum() > 0"),
        ("\t\ty = x.item()", "x.item()", "x.item()"),
        ("y = '保持 正' + x.item()  # 値", "x.item()", "x.item()"),
        ("名前 = 値.item()", "値.item()", "値.item()"),
        ("a\x1b[0m = x.item()", "x.item()", "x.item()"),
        ("e\u0301 = x.item()", "x.item()", "x.item()"),
        ("y = f(\tx)", "f(\tx)", "f(  x)"),
        ("y = '" + "ab " * 900 + "' + x.item() + '" + "宽" * 500 + "'", "x.item()", "x.item()"),
        ("宽" * 500 + " + x.item()", "x.item()", "x.item()"),
        ("x.item()" + "宽" * 500, "x.item()", "x.item()"),
    ],
)
@pytest.mark.parametrize("room", [40, 72, 120])
def test_the_caret_stands_under_the_span(line: str, span: str, shown: str, room: int) -> None:
    column = line.index(span) + 1
    window = source_window(line, column, column + len(span), room)
    assert under_caret(window.text, window.caret, window.length) == shown
    assert cell_len(window.text) <= room


def test_a_span_longer_than_the_room_is_marked_as_far_as_it_is_seen() -> None:
    line = "    y = " + "+".join(["value"] * 100)
    window = source_window(line, 9, len(line) + 1, 60)
    assert cell_len(window.text) <= 60
    assert window.caret + window.length <= 60
    assert set(under_caret(window.text, window.caret, window.length)) <= set("value+")


@pytest.mark.parametrize(("column", "end"), [(1, 1), (5, 5), (50, 60), (3, 2)])
def test_a_span_outside_the_line_still_has_a_caret(column: int, end: int) -> None:
    assert source_window("abcd", column, end, 40).length == 1


@pytest.mark.parametrize("name", sorted(SAMPLES))
@pytest.mark.parametrize("width", [80, 100])
def test_colour_adds_colour_alone(name: str, width: int) -> None:
    plain = render(sample(name), "text", width=width)
    coloured = render(sample(name), "text", width=width, color=True)
    assert SGR.sub("", coloured) == plain
    assert coloured != plain
    assert plain.endswith("\n")


def test_nothing_a_model_says_reaches_the_terminal_raw() -> None:
    text = render(sample("hostile"), "text", width=100)
    controls = {
        c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2066\u200f\u2028\ufeff")
    }
    assert controls == set()
    for value in HOSTILE_STRINGS:
        assert visible(value) in text


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_prose_keeps_the_width(name: str) -> None:
    for line in render(sample(name), "text", width=80).splitlines():
        whole = re.match(r"\S|  \S+\.py: |      > ", line)
        assert whole or cell_len(line) <= 80, line
        assert line == line.rstrip()


def test_a_finding_says_what_where_why_and_what_instead() -> None:
    text = render(broken(), "text", width=100)
    block = text[text.index("model.py:15:12: TCR101 error [data-dependent-if]") :].split("\n\n")[0].splitlines()
    assert block[1] == "   15 |         if x.sum() > 0:"
    assert block[2] == "      |            ^^^^^^^^^^^"
    body = "\n".join(block[3:])
    for words in (
        "why:         Dynamo traces without values",
        "use instead: Compute both sides",
        "status:      confirmed by Dynamo: GB0170 (high confidence, graph break)",
        "evidence:    `x` is a parameter",
        "frames:      splits Net.forward, Gate.forward (2 call levels); so it was in the run",
        "reached by:  Net.forward > Gate.forward",
        "verified",
    ):
        assert words in body


SPLIT = FrameFate("model.py", 13, "Gate.forward", "split")
LOST = FrameFate("model.py", 28, "Net.forward", "whole_frame", "for")
CALLER = FrameFate("model.py", 28, "Net.forward", "split")


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        (BreakEffect(SPLIT), "splits Gate.forward"),
        (
            BreakEffect(SPLIT, (LOST,), levels=2, chains=3),
            "runs all of Net.forward eagerly (in a `for`); splits Gate.forward (2 call levels, 3 call chains)",
        ),
        (BreakEffect(dataclasses.replace(LOST, because="construct")), "runs all of Net.forward eagerly"),
        (
            BreakEffect(FrameFate("model.py", 40, "say", "not_compiled", "no tensor"), (CALLER,), seen=(CALLER,)),
            "splits Net.forward; say not compiled anyway (no tensor goes in); so it was in the run",
        ),
        (
            BreakEffect(SPLIT, (CALLER,), levels=2, seen=(SPLIT,)),
            "splits Net.forward, Gate.forward (2 call levels); in the run so seen of Gate.forward",
        ),
        (
            BreakEffect(SPLIT, (LOST,), levels=2, seen=(CALLER, SPLIT)),
            "runs all of Net.forward eagerly (in a `for`); splits Gate.forward (2 call levels); "
            "otherwise in the run: splits Net.forward, Gate.forward",
        ),
        (
            BreakEffect(SPLIT, tuple(dataclasses.replace(CALLER, line=n, symbol=f"f{n}") for n in range(6))),
            "splits f0, f1, f2, f3 and 3 more",
        ),
    ],
)
def test_what_a_break_does_to_the_functions_around_it_is_one_sentence(shape: BreakEffect, sentence: str) -> None:
    found = dataclasses.replace(broken().findings[0], break_effect=shape)
    assert shape_sentence(found) == sentence
    assert shape_sentence(dataclasses.replace(found, break_effect=None)) == ""


@pytest.mark.parametrize("form", ["text", "html"])
def test_the_function_that_every_way_to_a_break_leads_through_is_named(form: str) -> None:
    before = broken()
    run = changed(before.targets[0], dominator=Frame("model.py", 32, "Waist.forward"))
    after = render(dataclasses.replace(before, targets=(run, *before.targets[1:])), form)
    assert "Waist.forward" in after
    assert "Waist.forward" not in render(before, form)


def test_own_errors_come_before_notes_and_installed_packages_and_the_verdict_last() -> None:
    lines = render(broken(), "text", width=100).splitlines()
    error = next(i for i, line in enumerate(lines) if " error [" in line)
    note = next(i for i, line in enumerate(lines) if " note [" in line)
    installed = next(i for i, line in enumerate(lines) if line.startswith("In installed packages"))
    verdict = next(i for i, line in enumerate(lines) if line.startswith("VERDICT"))
    assert error < note < installed < verdict
    assert "".join(lines[verdict:]).startswith("VERDICT model.py::Net: READY BY REGION")
    assert [line[:5] for line in lines[verdict:] if line[0] != " "] == ["VERDI", "FIRST", "THEN "]


def test_the_long_form_names_what_to_do_first_as_the_short_one_does() -> None:
    long, short = (reports.render(broken(), "text", width=100, verbose=verbose) for verbose in (True, False))
    (named,) = re.findall(r"^THEN    fix TCR501 at model.py:14 \((\w+)\)", long, re.M)
    assert re.search(rf"^model.py:14:9: TCR501 .* {named}$", long, re.M)
    assert short[short.index("FIRST") : short.index("\n\n")] == long[long.index("FIRST") :].rstrip()


def test_installed_packages_are_one_line_a_file_and_rule_unless_asked_for() -> None:
    made = sample("third_party")
    folded = render(made, "text", width=100)
    assert folded.count("modeling_bert.py: TCR201") == 1
    assert not re.search(r"modeling_bert\.py:\d+:\d+: ", folded)
    shown = render(made, "text", width=100, third_party=True)
    assert len(re.findall(r"modeling_bert\.py:\d+:\d+: TCR201 error", shown)) == 30
    assert "In installed packages" not in shown


def test_without_a_run_one_line_stands_for_the_stages() -> None:
    text = render(static(), "text", width=88)
    assert text.count("static only: nothing was run") == 1
    assert not set("✅❌⚪") & set(text)
    assert "for layer in model.layers:" in text
    assert re.search(r"^VERDICT .* UNKNOWN", text, re.M)


def test_a_hook_over_many_modules_stays_short() -> None:
    many = report(targets=tuple(changed(static().targets[0], target=f"m.py::N{i}") for i in range(40)))
    assert render(many, "text").splitlines() == [
        "static only: nothing was run",
        "",
        "No findings in your code.",
        "VERDICT UNKNOWN for 40 targets: nothing was run",
    ]


@pytest.mark.parametrize("name", ["broken", "clean", "failed", "third_party"])
def test_only_a_stage_that_passed_has_the_sign_of_passing(name: str) -> None:
    made = sample(name)
    passed = sum(stage.state == "pass" for t in made.targets for stage in t.stages)
    refused = sum(stage.state == "fail" for t in made.targets for stage in t.stages)
    text = render(made, "text")
    assert text.count("✅") == passed
    assert text.count("❌") == refused


def test_a_stage_the_report_leaves_out_did_not_run() -> None:
    run = failed().targets[0]
    cut = changed(run, stages=run.stages[:2])
    text = render(report(targets=(cut,)), "text")
    assert "⚪ not run   build, eager, capture, fullgraph, shapes, plan, backend, parity, speed" in text


def test_explain_is_shown_where_it_disagrees() -> None:
    assert "explain said 3 graphs, 2 breaks, 1 reason" in " ".join(render(broken(), "text").split())
    assert "explain" not in render(sample("clean"), "text")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("predicted", "predicted; this run could not show it"),
        ("not_reached", "predicted; the line did not run for these inputs"),
        ("not_observed", "predicted; the line was traced and it did not show"),
        ("not_traced", "predicted; the line ran inside a frame that Dynamo had given up on"),
        ("confirmed", "confirmed by Dynamo: GB0170"),
        ("runtime_only", "seen only in the run: GB0170; no rule predicts it"),
    ],
)
def test_each_status_says_how_it_is_known(status: str, words: str) -> None:
    one = finding(NET, "x.sum() > 0", rule="TCR101", status=status, gb_ids=("GB0170",))
    text = render(report(findings=(one,), targets=broken().targets), "text", width=120)
    assert words in text


def test_cases_that_differ_are_told_apart() -> None:
    one: Finding = finding(
        NET,
        "x.sum() > 0",
        status="confirmed",
        targets=(
            FindingTarget("model.py::Net", "prefill", "not_reached"),
            FindingTarget("model.py::Net", "decode", "confirmed"),
        ),
    )
    text = render(report(findings=(one,)), "text")
    assert "prefill: not reached" in text
    assert "decode: confirmed" in text


def test_a_finding_whose_source_is_not_in_the_report_still_shows() -> None:
    text = render(report(findings=(finding(NET, "x.sum() > 0", rule="TCR101"),)), "text")
    assert text.startswith("model.py:15:12: TCR101 error")


def test_a_span_over_lines_is_marked_on_its_first() -> None:
    code = dedent("""\
        y = torch.where(
            mask,
            x,
        )
    """)
    one = finding(
        code,
        dedent("""\
        torch.where(
            mask,
            x,
        )"""),
    )
    text = render(report(findings=(one,), sources=(source("model.py", code),)), "text")
    assert "    1 | y = torch.where(\n      |     ^^^^^^^^^^^^\n" in text


def test_static_targets_beside_a_run_are_named() -> None:
    both = report(targets=(*sample("clean").targets, target("other.py::Other")))
    assert "static only, not run: other.py::Other" in render(both, "text")


def test_words_for_numbers() -> None:
    assert [percent(share) for share in (0, 0.0001, 0.5, 0.82, 0.9999, 1)] == [
        "0 %",
        "0.1 %",
        "50 %",
        "82 %",
        "99.9 %",
        "100 %",
    ]
    assert [number(count, "match", "matches") for count in (0, 1, -1)] == ["0 matches", "1 match", "-1 matches"]


def test_prose_is_reflowed_and_lists_are_kept() -> None:
    assert reflow(
        dedent("""\
        One
        paragraph.

        Two:
        - a
          b
        - c
    """)
    ) == dedent("""\
        One paragraph.

        Two:
        - a b
        - c""")


def test_a_fix_without_a_change_adds_no_line() -> None:
    text = render(broken(), "text", width=100)
    assert "remove it" not in text
    assert "a change that was tried (safe by construction; a run refuted it)" in text


def test_a_break_site_is_told_by_its_kind() -> None:
    assert kind_of("Data-dependent branching: Detected a branch.\nmore") == "Data-dependent branching"
    assert kind_of("x" * 70 + ": y") == "x" * 70 + ": y"
    assert re.search(r"x3: GB0170 Data-dependent branching; all of Net", render(broken(), "text"), re.MULTILINE)


def test_lines_are_those_that_python_counts() -> None:
    assert lines_of("a\x0cb\u2028c\r\nd\re\nf") == ["a\x0cb\u2028c", "d", "e", "f"]


def with_plan(plan: Plan) -> Report:
    return report(targets=(changed(planned().targets[0], plan=plan),))


def planned_lines(made: Report) -> str:
    text = render(made, "text", width=100)
    return text[text.index("which parts to compile") :].split("\n\n  compile regions")[0]


def test_a_plan_says_what_to_compile_why_and_what_else_was_tried() -> None:
    text = planned_lines(planned())
    assert "recommended: the whole model: 92.0% of the operations run in graphs, the most of 2" in text
    assert "      > model.compile()\n      state_dict keys stay as they are\n" in text
    rows = [line.split() for line in text.splitlines()]
    assert "* the whole model 92 % 97 % 3 0 1.3 s (eager) same".split() in rows
    assert "90 % 90 % 3 2 0.9 s (inductor) unknown".split() in rows
    for out in ("raised: RuntimeError", "differs from eager: output[0]", "compiles again on an identical call"):
        assert f"      out: {out}" in text
    assert "smallest that holds 80 % of the time: regions: 81 % of operations, 86 % of their time" in text
    assert "quickest to compile: regions: 82 % of operations" in text
    assert 'torch.compiler.set_stance("force_eager")' in text
    assert 'torch.compiler.set_stance("eager_on_recompile")' in text
    assert "not done: the budget was spent before regions alone" in text


def test_what_is_recommended_is_not_told_a_second_time() -> None:
    plan = planned().targets[0].observation.plan
    assert plan
    same = dataclasses.replace(plan, smallest=plan.alternatives[0], quickest=plan.alternatives[0])
    text = planned_lines(with_plan(same))
    assert "smallest" not in text
    assert "quickest" not in text
    both = dataclasses.replace(plan, smallest=plan.quickest)
    assert "smallest that holds 80 % of the time, and quickest to compile: regions" in planned_lines(with_plan(both))


@pytest.mark.parametrize("form", ["text", "html", "markdown"])
def test_a_plan_that_recommends_nothing_says_why_and_gives_no_code(form: str) -> None:
    tried = planned().targets[0].observation.plan
    assert tried
    eager = Plan("eager", "", None, "every placement that was tried raised", tried.alternatives[3:4])
    text = render(with_plan(eager), form)
    assert re.search(r"leave it eager(: |\.</b> )every placement that was tried raised", text, re.IGNORECASE)
    nothing = render(with_plan(Plan("none", "", None, "nothing could be tried", ())), form)
    assert re.search(r"no recommendation(: |\.</b> )nothing could be tried", nothing, re.IGNORECASE)
    for shown in (text, nothing):
        assert "keys stay" not in shown
        assert "ack to eager" not in shown


@pytest.mark.parametrize("form", ["text", "html", "markdown"])
def test_keys_that_change_are_named(form: str) -> None:
    plan = planned().targets[0].observation.plan
    assert plan
    moved = dataclasses.replace(plan, state_dict_changes=("a.weight -> _orig_mod.a.weight",))
    text = render(with_plan(moved), form).replace("\\", "").replace("&gt;", ">")
    assert "state_dict keys that change: a.weight -> _orig_mod.a.weight" in text


def test_regions_say_how_they_are_known() -> None:
    text = render(planned(), "text", width=200)
    assert "4 instances, 81 % of ops, 86 % of time, 94 % of parameters, 3 compilations" in text
    assert (
        "instances compile again on self.layer_idx == 0, self.layer_idx == 1; tried: "
        "torch._dynamo.config.allow_unspec_int_on_nn_module = True\n" in text
    )
    refuted = text[text.index("    gate ") :].split("\n")
    assert "refuted" in refuted[0]
    assert refuted[1:3] == ["      Unsupported: Data-dependent branching (model.py:15)", ""]
    assert "To prove" not in text  # the plan tried what it could


def test_a_region_that_is_predicted_says_how_to_prove_it() -> None:
    text = " ".join(render(static(), "text").split())
    assert "layers.* predicted, not run 4 instances" in text
    assert "To prove what is predicted, run `tcready check model.py::Net --run --plan`: " in text
    given = changed(broken().targets[0], inputs_from="option", target="my model.py::Net")
    text = " ".join(render(report(targets=(given,)), "text").split())
    assert "run `tcready check 'my model.py::Net' --run --plan` with the same `--inputs`: it" in text, "older"
    asked = changed(given, asked=("my model.py::Net", "--plan", "--inputs", "data.py::x", "--python", "a b"))
    text = " ".join(render(report(targets=(asked,)), "text").split())
    assert "`tcready check 'my model.py::Net' --inputs data.py::x --python 'a b' --run --plan`: it" in text


def test_a_run_that_was_brought_is_proved_where_it_was_made() -> None:
    given = changed(
        broken().targets[0], asked=("model.py::Net", "--device", "cuda", "--plan"), brought_from="out/net.json"
    )
    text = " ".join(reports.render(report(targets=(given,)), "text", width=400).split())
    assert (
        "where it was run call `python worker.pyz --target model.py::Net --device cuda --plan -o out/net.json`" in text
    )
    assert "and give that file with `--observation` again" in text
    assert "--run --plan" not in text


def test_a_report_on_a_process_names_no_command() -> None:
    """An object or a cell of a notebook: nothing on a command line finds it."""
    for made in (static(), broken()):
        ours = dataclasses.replace(made, in_process=True)
        text = reports.render(ours, "text", width=200, of_a_result=True)
        for shown in (render(ours, "html"), reports.render(ours, "text", of_a_result=True), text):
            assert "tcready explain" not in shown
            assert "tcready check model.py" not in shown
        assert "`to_text(verbose=True)` of this result" in text
        assert "tcready.check(model, inputs, plan=True)" in text
        stored = reports.render(ours, "text", width=200, stored="kept.json")
        assert "kept.json` explains that finding; `-v` shows the full report" in stored
        assert "to_text" not in stored + reports.render(ours, "text", verbose=True), "a file has no such method"


def test_shares_by_operations_and_by_time_say_of_which_calls_they_are() -> None:
    def text(calls: int | None, *, verbose: bool) -> str:
        found = changed(broken().targets[0], coverage=Coverage(10, 8, 0.8, 0.7, timed_calls=calls))
        made = report(targets=(found,))
        return " ".join(reports.render(made, "text", width=200, verbose=verbose).split())

    after = "operations of the third call, times the median of the 5 calls after it"
    brief = text(5, verbose=False)
    assert f"80 % of the operations (8 of 10); {after}" in brief, "it compiles again at every call"
    assert after in text(5, verbose=True)
    assert "operations and times of the third call" in text(0, verbose=True)
    assert "third call" not in text(None, verbose=True), "an older tcready did not say"

    assert "To prove" not in render(sample("clean"), "text")


def test_the_time_of_a_run_has_the_shares_of_its_stages() -> None:
    spent = {"import": 2.0, "build": 0.5, "eager": 0.5, "capture": 1.0, "plan": 2.0, "parity": 1.0, "backend": 2.0}
    stages = tuple(Stage(name, "pass" if name in spent else "not_run", "", spent.get(name)) for name in STAGES)
    training = Training(parts=(TrainingPart("loss", "pass", "", 0.4), TrainingPart("step", "pass", "", 0.5)))
    target = changed(broken().targets[0], stages=stages, training=training, seconds=10.0)
    # The loss is part of parity; 0.5 s lie between stages.
    assert time_sentence(target) == (
        "10.0 s: import 20 %, build 5 %, eager 5 %, Dynamo 35 %, comparison 10 %, Inductor 20 %, other 5 %"
    )
    assert time_sentence(changed(target, seconds=None)) == ""


@pytest.mark.parametrize("width", [10, 30, 200])
def test_a_long_command_can_be_pasted(width: int) -> None:
    command = """tcready bench "my model.py::Net" --arm 'x=torch.compile(model, mode="default")' --budget 600 -v"""
    parts = bench_text._command_parts(command, width)
    pasted = "\n".join(parts).replace("\\\n", "")  # as a shell joins lines
    assert shlex.split(pasted) == shlex.split(command)
    assert all(part.endswith(" \\") for part in parts[:-1])
    assert (len(parts) == 1) == (width == 200)
