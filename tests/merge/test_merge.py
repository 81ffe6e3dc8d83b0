"""Statuses, levels, run-only findings, verdicts and exits, on values built by hand."""

from __future__ import annotations

import dataclasses
import itertools
from textwrap import dedent
from typing import Any

import pytest
from tcready.api import render
from tcready.merge import STRENGTH, exit_code, failures, merge
from tcready.schema.break_effect import BreakEffect, FrameFate
from tcready.schema.code_line import Frame
from tcready.schema.codec import as_json, from_json
from tcready.schema.enums import STAGES, Mode, ShapeSetting
from tcready.schema.observation import ModuleShare, Observation, Stage
from tcready.schema.report import Report, Tool
from tcready.schema.run import (
    BreakSite,
    Cost,
    Coverage,
    LineSet,
    Recompile,
    ShapeCall,
    ShapeStudy,
    ShapeTrial,
    SkippedFrame,
)
from tcready.schema.static import (
    Evidence,
    Finding,
    FindingTarget,
    RuleText,
    Skipped,
    SourceText,
    StaticModule,
    StaticResult,
    StaticTarget,
)

TEXT = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        self.step += 1
        print(x.item())
        return helper(x)


def helper(x):
    return x.tolist()
"""
PATH = "model.py"
FORWARD = 6
BOTH: tuple[Mode, Mode] = ("infer", "train")
RULES = {
    "TCR101": RuleText("TCR101", "data-dependent-if", "s", "w", "i", None, None),
    "TCR401": RuleText("TCR401", "unused", "s", "w", "i", None, None),
}


def finding(line: int = 7, **change: Any) -> Finding:
    base = Finding(
        rule="TCR101",
        name="data-dependent-if",
        effect="graph_break",
        level="error",
        confidence="high",
        message="branches on a tensor",
        path=PATH,
        line=line,
        column=12,
        end_line=line,
        end_column=23,
        symbol="Net.forward",
        origin="own",
        status="predicted",
        gb_ids=("GB0170",),
        targets=(),
        fingerprint=f"static-{line}",
        evidence=(Evidence("static", "x is a parameter of forward"),),
    )
    return dataclasses.replace(base, **change)


def site(line: int = 7, **change: Any) -> BreakSite:
    base = BreakSite(
        path=PATH,
        line=line,
        symbol="Net.forward",
        reason="Data-dependent branching\nlong explanation",
        gb_id="GB0170",
        hits=3,
        origin="own",
        stack=(Frame(PATH, line, "Net.forward"),),
    )
    return dataclasses.replace(base, **change)


def stages(**states: str) -> tuple[Stage, ...]:
    """All passed up to capture unless told otherwise: `STATE`, `STATE:DETAIL`, `fail/REASON:DETAIL`."""
    known = dict.fromkeys(STAGES[: STAGES.index("capture") + 1], "pass") | states
    made = []
    for name, text in known.items():
        words, _, detail = text.partition(":")
        state, _, reason = words.partition("/")
        made.append(Stage(name, state, detail, reason=reason or None))  # type: ignore[arg-type]
    return tuple(made)


def observation(**change: Any) -> Observation:
    base = Observation(
        target="model.py::Net",
        convention=None,
        mode="infer",
        stages=stages(),
        environment={"torch": "2.13.0"},
        coverage=Coverage(4, 4, 1.0),
        modules=(ModuleShare("", "Net", 4, 4, path=PATH, line=FORWARD),),
        executed=(LineSet(PATH, ((7, 11), (15, 15))),),
    )
    return dataclasses.replace(base, **change)


def static(*findings: Finding, **change: Any) -> StaticResult:
    base = StaticResult(findings, (), (SourceText(PATH, "0" * 64, TEXT),), (), (), {})
    return dataclasses.replace(base, **change)


def merged(result: StaticResult, *observations: Observation) -> Report:
    report = merge(result, observations, RULES, Tool("tcready", "0"))
    assert from_json(Report, as_json(report)) == report
    return report


def only(report: Report) -> Finding:
    assert len(report.findings) == 1, report.findings
    return report.findings[0]


# Statuses


def test_a_break_on_the_line_confirms_and_brings_its_ids_and_evidence() -> None:
    seen = observation(break_sites=(site(gb_id="GB0036", gb_ids=("GB0036", "GB0170")),))
    found = only(merged(static(finding(confidence="low", level="note")), seen))
    assert (found.status, found.level, found.confidence) == ("confirmed", "error", "high")
    assert found.gb_ids == ("GB0036", "GB0170")
    assert found.targets == (FindingTarget("model.py::Net", None, "confirmed"),)
    assert found.evidence == (
        Evidence("static", "x is a parameter of forward"),
        Evidence("dynamo", "Data-dependent branching (GB0036, GB0170, 3 hits)"),
    )


def test_the_fates_that_runs_showed_stand_beside_the_prediction() -> None:
    predicted = BreakEffect(FrameFate(PATH, FORWARD, "Net.forward", "split"))
    split, lost = (FrameFate(PATH, FORWARD, "Net.forward", fate) for fate in ("split", "whole_frame"))
    above = FrameFate(PATH, 14, "helper", "split")
    runs = [
        observation(break_sites=(site(frames=(split, above), case="a"), site(frames=(lost,), case="b"))),
        observation(target="model.py::Other", break_sites=(site(frames=(split,)),)),
    ]
    found = only(merged(static(finding(break_effect=predicted)), *runs))
    assert found.break_effect == dataclasses.replace(predicted, seen=(lost, above))
    assert only(merged(static(finding(break_effect=predicted)), observation())).break_effect == predicted
    assert only(merged(static(finding()), *runs)).break_effect is None


def test_a_skipped_frame_shows_the_fate_of_the_function_it_is() -> None:
    predicted = BreakEffect(FrameFate(PATH, FORWARD, "Net.forward", "whole_frame", "construct"))
    frame = SkippedFrame(PATH, FORWARD, "Net.forward", "torch.nn.LSTM", False, 11)
    found = only(
        merged(static(finding(effect="frame_skip", break_effect=predicted)), observation(skipped_frames=(frame,)))
    )
    assert found.break_effect is not None
    assert found.break_effect.seen == (FrameFate(PATH, FORWARD, "Net.forward", "whole_frame"),)


def test_a_run_in_one_mode_says_nothing_of_what_is_predicted_in_the_other() -> None:
    told = StaticModule("", "Net", PATH, FORWARD, ("static-7",))
    result = static(finding(modes=("train",)), targets=(StaticTarget("model.py::Net", (told,), BOTH),))
    other = site(line=10)
    for mode, status in (("infer", "predicted"), ("train", "not_observed")):
        report = merged(result, observation(mode=mode, traced=(LineSet(PATH, ((7, 7),)),), break_sites=(other,)))
        assert {f.line: f.status for f in report.findings}[7] == status
    assert only(merged(result, observation(break_sites=(site(),)))).status == "confirmed"


def test_only_a_break_of_the_runs_mode_counts_against_its_regions() -> None:
    modules = (
        ModuleShare("", "Net", 4, 4, path=PATH, line=FORWARD),
        ModuleShare("part", "Part", 4, 4, path=PATH, line=14),
    )
    told = (StaticModule("part", "Part", PATH, 14, ("static-15",)),)
    result = static(
        finding(line=15, modes=("train",), symbol="helper"), targets=(StaticTarget("model.py::Net", told, BOTH),)
    )
    for mode, free in (("infer", ["part"]), ("train", [])):
        seen = observation(mode=mode, modules=modules, executed=(), break_sites=(site(line=10),))
        shown = dataclasses.replace(
            seen,
            executed=(LineSet(PATH, ((7, 15),)),),
            skipped_frames=(SkippedFrame(PATH, FORWARD, "Net.forward", "x", False, 15),),
        )
        found = merged(result, shown).targets[0].regions
        assert [region.name for region in found if region.kind == "modules"] == free


def test_a_break_anywhere_in_a_span_of_several_lines_confirms() -> None:
    seen = observation(break_sites=(site(8),))
    assert only(merged(static(finding(7, end_line=9)), seen)).status == "confirmed"


def test_a_break_on_another_line_or_in_another_file_does_not() -> None:
    seen = observation(break_sites=(site(8), site(7, path="other.py")))
    report = merged(static(finding(7)), seen)
    assert [f.status for f in report.findings] == ["not_observed", "runtime_only", "runtime_only"]


def test_ids_tell_two_findings_on_one_line_apart() -> None:
    item = finding(10, rule="TCR201", fingerprint="item", gb_ids=("GB0059",))
    printed = finding(10, rule="TCR301", fingerprint="print", gb_ids=("GB0143",))
    seen = observation(break_sites=(site(10, gb_id="GB0143"),))
    report = merged(static(item, printed), seen)
    assert {f.rule: f.status for f in report.findings} == {"TCR201": "not_observed", "TCR301": "confirmed"}


def test_without_ids_every_break_claimed_on_the_line_is_confirmed() -> None:
    both = (finding(7, rule="TCR101", fingerprint="a1"), finding(7, rule="TCR102", fingerprint="a2"))
    report = merged(static(*both), observation(break_sites=(site(gb_id=None),)))
    assert [f.status for f in report.findings] == ["confirmed", "confirmed"]


def test_what_a_frame_skipping_break_left_behind_on_its_line_was_not_traced() -> None:
    item = finding(10, rule="TCR201", fingerprint="item", gb_ids=("GB0059",))
    printed = finding(10, rule="TCR301", fingerprint="print", gb_ids=("GB0143",))
    seen = observation(
        break_sites=(site(10, gb_id="GB0059", action="skip_frame"),), traced=(LineSet(PATH, ((7, 10),)),)
    )
    report = merged(static(item, printed), seen)
    assert {f.rule: f.status for f in report.findings} == {"TCR201": "confirmed", "TCR301": "not_traced"}


LOST = SkippedFrame(PATH, FORWARD, "Net.forward", "loop", benign=False, end_line=11)


@pytest.mark.parametrize(
    ("change", "status", "level"),
    [
        ({}, "not_observed", "note"),
        ({"skipped_frames": (LOST,)}, "not_traced", "error"),
        ({"skipped_frames": (dataclasses.replace(LOST, benign=True),)}, "not_observed", "note"),
        ({"skipped_frames": (dataclasses.replace(LOST, end_line=None),)}, "not_traced", "error"),
        ({"executed": (LineSet(PATH, ((8, 11),)),)}, "not_reached", "error"),
        ({"traced": (LineSet(PATH, ((7, 7),)),), "skipped_frames": (LOST,)}, "not_observed", "note"),
        ({"traced": (LineSet(PATH, ((9, 9),)),)}, "not_traced", "error"),
        ({"traced": (LineSet(PATH, ((9, 9),)),), "executed": ()}, "not_reached", "error"),
        ({"stages": stages(capture="not_run:no device")}, "predicted", "error"),
        ({"stages": stages(eager="fail/error:ValueError", capture="not_run")}, "predicted", "error"),
    ],
)
def test_a_line_without_a_break_is_judged_by_what_covered_it(change: dict[str, Any], status: str, level: str) -> None:
    report = merged(static(finding(7)), observation(**change))
    found = next(f for f in report.findings if f.rule)
    assert (found.status, found.level) == (status, level)


@pytest.mark.parametrize("effect", ["sync", "cudagraph_skip", "slow", "intent", "wrong_result"])
def test_an_effect_that_one_input_cannot_show_stays_predicted(effect: str) -> None:
    found = only(merged(static(finding(effect=effect, level="warning")), observation()))
    assert (found.status, found.level) == ("predicted", "warning")


def test_a_recompile_of_new_lengths_stays_predicted_and_one_of_every_call_is_refuted() -> None:
    per_length = finding(effect="recompile", level="warning")
    every_call = finding(9, effect="recompile", level="error")
    report = merged(static(per_length, every_call), observation())
    assert [(f.status, f.level) for f in report.findings] == [("predicted", "warning"), ("not_observed", "note")]


RECOMPILE = Recompile(PATH, FORWARD, "Net.forward", ("L['self'].step == 1  # self.step += 1",), identical_call=True)


@pytest.mark.parametrize(
    ("recompile", "status"),
    [
        (dataclasses.replace(RECOMPILE, lines=(Frame(PATH, 9, "Net.forward"),)), "confirmed"),
        (dataclasses.replace(RECOMPILE, reasons=("x  # model.py:9 in forward",)), "confirmed"),
        (RECOMPILE, "confirmed"),
        (dataclasses.replace(RECOMPILE, reasons=("L['self'].other == 1  # step",)), "predicted"),
        (dataclasses.replace(RECOMPILE, line=9, reasons=("L['___stack0'] got deallocated",)), "confirmed"),
        (dataclasses.replace(RECOMPILE, line=8, reasons=("L['___stack0'] got deallocated",)), "predicted"),
        (dataclasses.replace(RECOMPILE, path="other.py"), "predicted"),
        (dataclasses.replace(RECOMPILE, identical_call=False), "not_observed"),
    ],
)
def test_a_steady_recompile_confirms_what_its_guards_name(recompile: Recompile, status: str) -> None:
    """Dynamo names the first guard that fails alone, so a steady recompile elsewhere refutes nothing."""
    claim = finding(9, effect="recompile", gb_ids=())
    report = merged(static(claim), observation(recompiles=(recompile,)))
    found = next(f for f in report.findings if f.rule)
    assert found.status == status
    unpredicted = [f for f in report.findings if not f.rule]
    assert len(unpredicted) == (status == "predicted")


def test_a_recompile_for_another_input_confirms_a_warning_and_leaves_its_level() -> None:
    claim = finding(9, effect="recompile", level="warning", gb_ids=())
    found = only(merged(static(claim), observation(recompiles=(dataclasses.replace(RECOMPILE, identical_call=False),))))
    assert (found.status, found.level) == ("confirmed", "warning")


def test_recompiling_until_the_limit_proves_the_claim_of_every_call() -> None:
    limit = dataclasses.replace(LOST, reason="Dynamo recompile limit exceeded")
    growing = dataclasses.replace(RECOMPILE, identical_call=False)
    claim = finding(9, effect="recompile", gb_ids=())
    found = only(merged(static(claim), observation(recompiles=(growing,), skipped_frames=(limit,))))
    assert (found.status, found.level) == ("confirmed", "error")


def test_a_failed_capture_confirms_the_compile_error_at_the_place_it_names() -> None:
    seen = observation(stages=stages(capture="fail/compile_error:UserError at model.py:7: bad branch"))
    at, elsewhere = finding(7, effect="compile_error"), finding(8, effect="compile_error")
    report = merged(static(at, elsewhere), seen)
    assert [f.status for f in report.findings] == ["confirmed", "predicted"]
    assert (report.targets[0].verdict, exit_code(report)) == ("not_ready", 1)


def test_a_frame_skip_is_confirmed_by_the_frame_only_where_no_break_explains_the_skip() -> None:
    claim = finding(8, effect="frame_skip", gb_ids=())
    assert only(merged(static(claim), observation(skipped_frames=(LOST,)))).status == "confirmed"
    explained = observation(skipped_frames=(LOST,), break_sites=(site(7),))
    by_line = {f.line: f.status for f in merged(static(claim), explained).findings}
    assert by_line == {7: "runtime_only", 8: "not_traced"}


def test_over_targets_and_cases_the_status_that_knows_most_stands_and_each_is_told() -> None:
    cases = observation(break_sites=(site(case="decode"), site(case="prefill")))
    other = observation(target="model.py::Other", executed=())
    found = only(merged(static(finding()), other, cases))
    assert found.status == "confirmed"
    assert [(t.target, t.case, t.status) for t in found.targets] == [
        ("model.py::Other", None, "not_reached"),
        ("model.py::Net", "decode", "confirmed"),
        ("model.py::Net", "prefill", "confirmed"),
    ]


def test_strength_orders_every_pair_of_targets() -> None:
    """Whichever target comes first, the overall status is the stronger."""
    runs = {
        "predicted": observation(stages=stages(capture="not_run")),
        "not_reached": observation(executed=()),
        "not_traced": observation(traced=(LineSet(PATH, ((8, 8),)),)),
        "not_observed": observation(),
        "confirmed": observation(break_sites=(site(),)),
    }
    for one, two in itertools.permutations(runs, 2):
        pair = (
            dataclasses.replace(runs[one], target=f"{PATH}::A"),
            dataclasses.replace(runs[two], target=f"{PATH}::B"),
        )
        assert only(merged(static(finding()), *pair)).status == max(one, two, key=STRENGTH.index)


def test_a_run_that_never_came_by_the_file_says_nothing_of_it() -> None:
    elsewhere = (LineSet("other.py", ((1, 9),)),)
    other = observation(target="other.py::Net", executed=elsewhere, traced=elsewhere)
    one = only(merged(static(finding()), observation(break_sites=(site(),)), other))
    assert [(t.target, t.status) for t in one.targets] == [("model.py::Net", "confirmed")]
    nobody = dataclasses.replace(other, target="third.py::Net")
    assert {t.status for t in only(merged(static(finding()), other, nobody)).targets} == {"not_reached"}


def test_what_only_the_source_says_of_a_target_that_did_not_run_is_kept() -> None:
    claim = finding(targets=(FindingTarget("model.py::Other", None, "predicted"),))
    found = only(merged(static(claim), observation()))
    assert [(t.target, t.status) for t in found.targets] == [
        ("model.py::Net", "not_observed"),
        ("model.py::Other", "predicted"),
    ]


@pytest.mark.parametrize(("path", "status"), [("other.py", "predicted"), ("helper.py", "not_reached")])
def test_a_run_of_one_file_says_nothing_of_another_file_that_has_a_target_of_its_own(path: str, status: str) -> None:
    result = static(finding(path=path), targets=(StaticTarget("other.py::Other", ()),))
    assert only(merged(result, observation())).status == status


# What nobody predicted


def test_an_unpredicted_break_becomes_one_finding_over_its_source_line() -> None:
    seen = observation(
        break_sites=(site(case="a"), site(case="b", gb_id="GB0036", action="skip_frame", reason="Other: x"))
    )
    found = only(merged(static(), seen))
    assert (found.rule, found.status, found.effect, found.level) == (None, "runtime_only", "frame_skip", "error")
    assert (found.line, found.column, found.end_column) == (7, 9, 9 + len("if x.sum() > 0:"))
    assert found.gb_ids == ("GB0170", "GB0036")
    assert [t.case for t in found.targets] == ["a", "b"]
    assert len(found.evidence) == 2


def test_a_fingerprint_of_a_run_survives_moved_lines_and_tells_equal_lines_apart() -> None:
    text = TEXT.replace(
        "import torch\n",
        dedent("""\
        import torch


    """),
        1,
    )
    moved = static(sources=(SourceText(PATH, "1" * 64, text),))
    before = only(merged(static(), observation(break_sites=(site(7),))))
    after = only(merged(moved, observation(break_sites=(site(9),))))
    assert before.fingerprint == after.fingerprint
    again = TEXT.replace("self.step += 1", "if x.sum() > 0:\n            pass")
    twice = static(sources=(SourceText(PATH, "1" * 64, again),))
    both = merged(twice, observation(break_sites=(site(7), site(9)))).findings
    assert both[0].fingerprint == before.fingerprint != both[1].fingerprint


def test_a_break_without_its_source_spans_one_character() -> None:
    found = only(merged(static(sources=()), observation(break_sites=(site(7, path="pkg/x.py", origin="third_party"),))))
    assert (found.column, found.end_column, found.origin) == (1, 2, "third_party")


def test_a_lost_frame_that_nothing_explains_becomes_a_finding_at_its_def() -> None:
    generator = dataclasses.replace(LOST, reason="Attempt to trace generator")
    found = only(merged(static(), observation(skipped_frames=(generator,))))
    assert (found.effect, found.line, found.level) == ("frame_skip", FORWARD, "error")
    assert "Attempt to trace generator" in found.message


@pytest.mark.parametrize(
    "explained_by",
    [site(8), site(15, symbol="helper", stack=(Frame(PATH, 11, "Net.forward"), Frame(PATH, 15, "helper")))],
)
def test_a_lost_frame_is_told_once_where_a_break_in_or_below_it_explains_it(explained_by: BreakSite) -> None:
    found = only(merged(static(), observation(skipped_frames=(LOST,), break_sites=(explained_by,))))
    assert found.line == explained_by.line


def test_a_frame_that_a_break_had_skipped_is_one_error_and_one_number() -> None:
    met = (FrameFate(PATH, FORWARD, "Net.forward", "whole_frame"),)
    claim = finding(10, rule="TCR301", gb_ids=("GB0059",))
    report = merged(
        static(claim),
        observation(
            break_sites=(site(15, symbol="helper", gb_id="GB0143"), site(10, gb_id="GB0059", frames=met)),
            skipped_frames=(LOST,),
        ),
    )
    assert [(f.line, f.status) for f in report.findings] == [(10, "confirmed"), (15, "runtime_only")]
    assert report.targets[0].verdict_reason.startswith("2 break sites (skipping 1 frame); ")


def test_the_recompile_limit_is_found_beside_a_break_in_the_same_function() -> None:
    limit = dataclasses.replace(LOST, reason="recompile_limit reached")
    report = merged(static(finding(7)), observation(break_sites=(site(7),), skipped_frames=(limit,)))
    assert [(f.line, f.name) for f in report.findings] == [(FORWARD, "recompile-limit"), (7, "data-dependent-if")]


def test_the_recompile_limit_is_one_finding_that_names_the_guards() -> None:
    limit = dataclasses.replace(LOST, reason="recompile_limit reached")
    found = only(merged(static(), observation(skipped_frames=(limit,), recompiles=(RECOMPILE,))))
    assert (found.name, found.line) == ("recompile-limit", FORWARD)
    assert "L['self'].step == 1" in found.evidence[0].text


def test_an_unpredicted_steady_recompile_is_an_error_where_its_guard_stands() -> None:
    placed = dataclasses.replace(RECOMPILE, lines=(Frame(PATH, 9, "Net.forward"),))
    found = only(merged(static(), observation(recompiles=(placed,))))
    assert (found.effect, found.level, found.line, found.status) == ("recompile", "error", 9, "runtime_only")
    other = dataclasses.replace(placed, identical_call=False)
    assert merged(static(), observation(recompiles=(other,))).findings == ()


def test_one_finding_for_each_place_and_rule_the_surest() -> None:
    unsure = finding(column=3, confidence="low", fingerprint="other")
    assert only(merged(static(unsure, finding()))).confidence == "high"


def test_findings_come_in_order_and_only_their_rules_with_them() -> None:
    report = merged(static(finding(9), finding(7)), observation(break_sites=(site(8),)))
    assert [f.line for f in report.findings] == [7, 8, 9]
    assert [rule.code for rule in report.rules] == ["TCR101"]


def test_what_only_a_run_shows_carries_the_advice_on_its_type() -> None:
    about = {"GB0170": RuleText("GB0170", "n", "s", "why", "instead", None, None), "GB0007": RULES["TCR401"]}
    seen = observation(break_sites=(site(8), site(9, gb_id="GB9999", gb_ids=("GB0007",)), site(10, gb_id=None)))
    report = merge(static(), [seen], RULES, Tool("tcready", "0"), about)
    assert [(f.line, f.advice) for f in report.findings] == [(8, "GB0170"), (9, "TCR401"), (10, None)]
    assert [text.code for text in report.rules] == ["TCR401"]
    assert [text.code for text in report.advice] == ["GB0170"]
    predicted = merge(static(finding(8)), [observation(break_sites=(site(8),))], RULES, Tool("tcready", "0"), about)
    assert only(predicted).advice is None
    again = {"recompile": RuleText("recompile", "n", "s", "why", "instead", None, None)}
    report = merge(static(), [observation(recompiles=(RECOMPILE,))], RULES, Tool("tcready", "0"), again)
    assert only(report).advice == "recompile", "it has no type"
    assert [text.code for text in report.advice] == ["recompile"]
    assert [text.code for text in predicted.rules] == ["TCR101"]


# Targets and verdicts


def verdict(**change: Any) -> tuple[str, str]:
    target = merged(static(), observation(**change)).targets[0]
    return target.verdict, target.verdict_reason


LAYERS = (
    ModuleShare("", "Net", 10, 4, path=PATH, line=FORWARD),
    ModuleShare("good", "Block", 6, 4, path="blocks.py", line=3),
    ModuleShare("good.fc", "Linear", 3, 3),
)


def test_what_runs_in_part_outside_of_graphs_is_not_called_captured_whole() -> None:
    partly = observation(coverage=Coverage(100, 56, 0.56))
    report = merged(static(), partly)
    [target] = report.targets
    assert target.verdict_reason.startswith("no break; as it is, 56% of the operations run in graphs")
    text = render(report, "text")
    assert "captured whole" not in text
    assert "no break; in graphs: 56 %" in text


def test_captured_whole_is_ready_and_names_what_did_not_run() -> None:
    assert verdict() == ("ready", "captured whole; fullgraph, backend, parity and speed not run")
    assert verdict(stages=stages(fullgraph="pass", backend="pass"))[1] == "captured whole; parity and speed not run"


def test_a_call_without_an_operation_leaves_nothing_to_compile() -> None:
    target = merged(static(), observation(coverage=None)).targets[0]
    assert (target.verdict, target.regions) == ("unknown", ())
    assert target.verdict_reason.startswith("the call runs no operation of torch, so there is nothing to compile")
    assert verdict(coverage=None, break_sites=(site(),))[0] != "unknown", "a break says more"


def test_benign_skips_and_recompiles_for_other_inputs_do_not_stand_in_the_way() -> None:
    benign = dataclasses.replace(LOST, benign=True)
    other = dataclasses.replace(RECOMPILE, identical_call=False)
    assert verdict(skipped_frames=(benign,), recompiles=(other,))[0] == "ready"


@pytest.mark.parametrize(
    "trouble", [{"break_sites": (site(),)}, {"skipped_frames": (LOST,)}, {"recompiles": (RECOMPILE,)}]
)
def test_a_break_with_half_of_the_operations_in_free_regions_is_ready_by_region(trouble: dict[str, Any]) -> None:
    assert verdict(modules=LAYERS, **trouble)[0] == "ready_by_region"
    few = (LAYERS[0], dataclasses.replace(LAYERS[1], ops=4))
    found, reason = verdict(modules=few, **trouble)
    assert found == "not_ready"
    assert "40%" in reason


@pytest.mark.parametrize(
    ("ops", "seconds", "expected"),
    [
        (5, None, "ready_by_region"),
        (4, None, "not_ready"),
        (5, 2.5, "ready_by_region"),
        (3, 9.9, "ready_by_region"),
        (5, 2.0, "not_ready"),
        (2, 9.9, "not_ready"),
        (4, 4.0, "not_ready"),
    ],
)
def test_regions_need_half_of_the_operations_or_of_the_time_and_a_quarter_of_the_other(
    ops: int, seconds: float | None, expected: str
) -> None:
    timed = (
        dataclasses.replace(LAYERS[0], seconds=10.0 if seconds is not None else None),
        dataclasses.replace(LAYERS[1], ops=ops, seconds=seconds),
    )
    found, reason = verdict(modules=timed, break_sites=(site(),))
    assert found == expected
    assert f"hold {ops * 10}% of the operations" in reason
    assert ("of their time; fullgraph" in reason) == (seconds is not None)


def test_what_the_model_captures_as_it_is_is_told_beside_every_other_verdict() -> None:
    seen = {"modules": LAYERS[:1], "break_sites": (site(),)}
    _, reason = verdict(coverage=Coverage(1000, 997, 0.997, 0.5), **seen)
    assert reason.startswith(
        "1 break site; as it is, 99.7% of the operations and 50% of their time run in graphs; regions"
    )
    _, reason = verdict(coverage=Coverage(4, 1, 0.25), **seen)
    assert "as it is, 25% of the operations run in graphs" in reason
    assert "as it is, 75% of the operations" in verdict(coverage=Coverage(4, 3, 0.75))[1]


@pytest.mark.parametrize(
    ("shares", "agree", "shown"),
    [
        ((), True, "50 %"),
        ((0.4, 0.9), True, "50 %"),
        ((0.495, 0.5, 0.505), True, "50 %"),
        ((0.1, 0.49, 0.5, 0.505, 0.99), True, "50 %"),
        ((0.46, 0.48, 0.5, 0.52, 0.53), True, "45 % to 55 %"),
        ((0.3, 0.42, 0.5, 0.61, 0.62), False, "40 % to 65 %"),
        ((0.2, 0.5, 0.9), False, "20 % to 90 %"),
    ],
)
def test_times_that_do_not_agree_are_a_range_and_rank_nothing(
    shares: tuple[float, ...], agree: bool, shown: str
) -> None:
    cover = Coverage(10, 5, 0.5, 0.5, 1.0, "host", timed_calls=len(shares) or 5, time_shares=shares)
    quick_and_many, slow = site(7, cost=Cost(4, 0.1)), site(11, cost=Cost(1, 0.4))
    seen = observation(coverage=cover, break_sites=(quick_and_many, slow))
    report = merged(static(finding(7), finding(11, rule="TCR201")), seen)
    assert cover.times_agree is agree
    assert [each.cost for each in report.findings] == (
        [{"operations": 4, "seconds": 0.1}, {"operations": 1, "seconds": 0.4}]
        if agree
        else [{"operations": 4}, {"operations": 1}]
    )
    text = " ".join(render(report, "text").split())
    assert f"in graphs: {shown} of the time" in text
    assert f"FIRST fix {'TCR201' if agree else 'TCR101'}" in text
    assert ("so findings are ranked by operations" in text) is not agree
    assert f"{shown.replace(' %', '%')} of their time run in graphs" in report.targets[0].verdict_reason


def test_a_busy_machine_is_noted_in_each_format() -> None:
    cover = Coverage(10, 10, 1.0, 1.0, 1.0, "host", timed_calls=5, busy="others used 1.5 of 2 CPUs")
    report = merged(static(), observation(coverage=cover))
    for form in ("text", "html"):
        assert "the machine was busy: others used 1.5 of 2 CPUs" in " ".join(render(report, form).split())


def test_single_modules_of_torch_do_not_make_a_model_ready_by_region() -> None:
    bare = (LAYERS[0], ModuleShare("fc", "Linear", 9, 9))
    assert verdict(modules=bare, break_sites=(site(),))[0] == "not_ready"


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({"import": "fail/error:No module named 'x'", "capture": "not_run"}, "unknown"),
        ({"import": "fail/no_torch:torch is not installed", "capture": "not_run"}, "unknown"),
        ({"eager": "fail/error:ValueError: shapes", "capture": "not_run"}, "unknown"),
        ({"capture": "fail/timeout:no answer within 600 s, while in stage capture"}, "unknown"),
        ({"capture": "fail/timeout:case prefill: no answer within 300 s"}, "unknown"),
        ({"capture": "fail/timeout:on rank 1: no answer within 300 s"}, "unknown"),
        ({"capture": "fail/memory:case decode: memory: 9 GB resident, 8 GB allowed"}, "unknown"),
        ({"capture": "fail/crash:the process died by SIGSEGV"}, "unknown"),
        ({"capture": "fail/exit:the process exited with code 3"}, "unknown"),
        ({"capture": "not_run/device_missing:no CUDA device"}, "unknown"),
        ({"capture": "fail/compile_error:InternalTorchDynamoError: x"}, "not_ready"),
        ({"capture": "fail/compile_error:no answer within 600 s is what the model said"}, "not_ready"),
        ({"fullgraph": "fail/timeout:no answer within 600 s"}, "unknown"),
        ({"backend": "fail/compile_error:InductorError: x"}, "not_ready"),
        ({"backend": "fail/timeout:no answer within 600 s, while in stage capture"}, "unknown"),
        ({"shapes": "fail/compile_error:the compiled call raised at batch 5: ValueError: x"}, "not_ready"),
        ({"shapes": "fail/mismatch:the compiled call differs from eager at batch 5: x"}, "not_ready"),
        ({"shapes": "fail/timeout:no answer within 600 s, while in stage shapes"}, "unknown"),
        ({"shapes": "fail/crash:the process died by SIGSEGV"}, "unknown"),
        ({"parity": "fail/mismatch:differs by 3"}, "not_ready"),
        ({"speed": "fail/error:no clock"}, "unknown"),
    ],
)
def test_a_failure_to_compile_is_a_verdict_and_any_other_is_none(states: dict[str, str], expected: str) -> None:
    report = merged(static(), observation(stages=stages(**states)))
    assert report.targets[0].verdict == expected
    assert exit_code(report) == (2 if expected == "unknown" else 1)
    stage, detail = next((name, state.partition(":")[2]) for name, state in states.items() if ":" in state)
    reason = report.targets[0].verdict_reason
    assert detail in reason or f"{stage} failed" in reason
    (line,) = failures(report)
    assert line.endswith(f"{stage} {'did not run' if states[stage].startswith('not_run') else 'failed'}: {detail}")


@pytest.mark.parametrize(
    ("states", "advised"),
    [
        ({"import": "fail/error:No module named 'x'", "capture": "not_run"}, False),
        ({"capture": "fail/timeout:no answer within 600 s"}, False),
        ({"capture": "not_run/device_missing:no CUDA device"}, False),
        ({"capture": "fail/compile_error:InternalTorchDynamoError: x"}, False),
        ({"parity": "fail/mismatch:differs by 3"}, False),
        ({"backend": "fail/compile_error:InductorError: x"}, False),
        ({"fullgraph": "fail/compile_error:Unsupported: x"}, True),
        ({"parity": "fail/timeout:no answer within 600 s"}, True),
        ({}, True),
    ],
)
def test_nothing_is_advised_to_be_compiled_if_nothing_was_or_what_was_is_wrong(
    states: dict[str, str], advised: bool
) -> None:
    target = StaticTarget("model.py::Net", (StaticModule("", "Net", PATH, FORWARD, ()),))
    shown = merged(static(targets=(target,)), observation(stages=stages(**states))).targets[0]
    assert [region.code for region in shown.regions] == (["model.compile()"] if advised else [])


def resized(*calls: ShapeCall, setting: ShapeSetting = "default", varied: str = "batch") -> ShapeStudy:
    """A study whose one trial made these calls."""
    return ShapeStudy(trials=(ShapeTrial(varied, setting, calls, 0),))


def at_size(**change: Any) -> ShapeCall:
    return dataclasses.replace(ShapeCall("batch 5", (), 1, 0, size=5), **change)


def test_what_the_default_raises_at_another_size_is_a_finding_and_what_a_setting_raises_is_none() -> None:
    raised = at_size(error="ValueError: x (model.py:8)", place=Frame(PATH, 8, "Net.forward"))
    found = only(merged(static(), observation(shapes=resized(raised))))
    assert (found.effect, found.level, found.status) == ("compile_error", "error", "runtime_only")
    assert (found.line, found.symbol) == (8, "Net.forward")
    assert found.message == "with batch 5 the compiled call raised ValueError: x (model.py:8)"
    claim = finding(8, effect="compile_error", level="warning")
    proved = only(merged(static(claim), observation(shapes=resized(raised))))
    assert (proved.status, proved.level) == ("confirmed", "error")
    other = resized(raised, setting="dynamic=True")
    assert merged(static(), observation(shapes=other)).findings == ()
    nowhere = resized(dataclasses.replace(raised, place=None))
    assert merged(static(), observation(shapes=nowhere)).findings == ()


def test_outputs_that_differ_in_a_case_are_a_wrong_result() -> None:
    differs = at_size(label="large", difference="output 0: x", place=Frame(PATH, 7, "Net.forward"))
    found = only(merged(static(), observation(shapes=resized(differs, varied="cases"))))
    assert (found.effect, found.level) == ("wrong_result", "error")
    assert found.message == "with case large the compiled call differs from eager: output 0: x"


def test_a_break_at_other_sizes_alone_counts_for_the_verdict_and_against_regions() -> None:
    broke = resized(at_size(break_sites=(site(8), site(9))))
    report = merged(static(), observation(shapes=broke))
    assert [(f.line, f.effect, f.status) for f in report.findings] == [
        (8, "graph_break", "runtime_only"),
        (9, "graph_break", "runtime_only"),
    ]
    assert report.findings[0].message == "with batch 5: Data-dependent branching"
    target = report.targets[0]
    assert target.verdict == "not_ready"
    assert target.verdict_reason.startswith(
        f"with other sizes it breaks at {PATH}:8 and at 1 other line; as it is, 100% of the operations"
    )
    assert target.regions == ()
    proved = only(merged(static(finding(8)), observation(shapes=resized(at_size(break_sites=(site(8),))))))
    assert (proved.status, proved.level) == ("confirmed", "error")
    assert proved.evidence[-1].text.startswith("with batch 5: Data-dependent branching")


def test_static_alone_every_target_is_unknown_with_its_predicted_regions() -> None:
    claim = finding()
    target = StaticTarget(
        "model.py::Net",
        (StaticModule("", "Net", PATH, FORWARD, (claim.fingerprint,)), StaticModule("body", "Body", PATH, 14, ())),
    )
    report = merged(static(claim, targets=(target,)))
    shown = report.targets[0]
    assert (shown.verdict, [r.name for r in shown.regions]) == ("unknown", ["body"])
    assert {s.stage: s.state for s in shown.stages} == dict.fromkeys(STAGES, "not_run") | {"parse": "pass"}
    assert exit_code(report) == 1


def test_a_run_speaks_for_the_static_targets_that_ran_inside_it() -> None:
    targets = (
        StaticTarget("model.py::Net", (StaticModule("", "Net", PATH, FORWARD, ()),)),
        StaticTarget("model.py::Part", (StaticModule("", "Part", PATH, 14, ()),)),
        StaticTarget("model.py::Apart", (StaticModule("", "Apart", PATH, 40, ()),)),
    )
    modules = (LAYERS[0], ModuleShare("part", "Part", 3, 3, path=PATH, line=14))
    report = merged(static(targets=targets), observation(target="model.py", modules=modules))
    assert [t.target for t in report.targets] == ["model.py", "model.py::Apart"]


def test_the_other_classes_of_a_file_whose_own_convention_ran_are_no_targets() -> None:
    names = ("model.py::Net", "model.py::Alternative", "other.py::Net")
    result = static(targets=tuple(StaticTarget(name, ()) for name in names))
    by_convention = merged(result, observation(convention="get_inputs() with Net", inputs_from="convention"))
    assert [t.target for t in by_convention.targets] == ["model.py::Net", "other.py::Net"]
    by_inputs = merged(result, observation(convention="--inputs", inputs_from="option"))
    assert [t.target for t in by_inputs.targets] == list(names)


def test_a_refuted_or_unreached_prediction_takes_no_region_away() -> None:
    claims = tuple(finding(line, fingerprint=f"f{line}") for line in (7, 8, 9))
    module = StaticModule("", "Net", PATH, FORWARD, tuple(c.fingerprint for c in claims))
    target = StaticTarget("model.py::Net", (module, StaticModule("good", "Block", "blocks.py", 3, ())))
    result = static(*claims[:2], targets=(target,))
    seen = observation(executed=(LineSet(PATH, ((7, 7),)),), modules=LAYERS)
    assert [r.name for r in merged(result, seen).targets[0].regions] == [""]
    broken = dataclasses.replace(seen, break_sites=(site(9),))
    assert [r.name for r in merged(result, broken).targets[0].regions] == ["good"]


# Exits


@pytest.mark.parametrize(
    ("level", "origin", "fail_on", "third_party", "code"),
    [
        ("error", "own", "error", False, 1),
        ("warning", "own", "error", False, 0),
        ("warning", "own", "warning", False, 1),
        ("note", "own", "warning", False, 0),
        ("note", "own", "note", False, 1),
        ("error", "third_party", "warning", False, 0),
        ("error", "third_party", "warning", True, 1),
    ],
)
def test_exit_follows_levels_and_origins(level: Any, origin: Any, fail_on: Any, third_party: bool, code: int) -> None:
    report = merged(static(finding(level=level, origin=origin)))
    assert exit_code(report, fail_on=fail_on, third_party=third_party) == code


def test_what_could_not_be_established_beats_findings() -> None:
    assert exit_code(merged(static(finding(), skipped=(Skipped("x.py", "syntax error"),)))) == 2
    assert (
        exit_code(merged(static(finding()), observation(stages=stages(build="fail/error:x", capture="not_run")))) == 2
    )
