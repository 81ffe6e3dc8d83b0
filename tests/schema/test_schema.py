"""JSON in and out, what older JSON leaves out, and what a run's troubles come to."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from tcready.schema.break_effect import FrameFate
from tcready.schema.capture_failures import CaptureFailures
from tcready.schema.code_line import Frame
from tcready.schema.codec import as_json, from_json
from tcready.schema.enums import STAGES, TcreadyError
from tcready.schema.observation import Observation, Stage
from tcready.schema.report import Region, Report, TargetReport, Tool
from tcready.schema.run import BreakSite, Recompile, SkippedFrame
from tcready.schema.static import Evidence

ROOT = Path(__file__).resolve().parents[2]
PATH = "model.py"


def observation(**change: Any) -> Observation:
    stages = tuple(Stage(name, "pass", "") for name in STAGES)
    return dataclasses.replace(Observation("model.py::Net", None, "infer", stages, None), **change)


# JSON


def test_a_target_is_flat_and_reads_back() -> None:
    region = Region("", 1, "predicted", "r", "c")
    seen = observation(warnings=("slow",), sources=(("model.py", "/home/someone/model.py"),))
    target = TargetReport(seen, "ready", (region,), "captured whole", Frame(PATH, 3, "Net.forward"))
    data = as_json(target)
    contract = json.loads((ROOT / "fixtures" / "report.schema.json").read_text())["$defs"]["target"]
    assert not set(contract["required"]) - data.keys()
    assert {"target", "stages", "verdict", "waist", "warnings"} <= data.keys()
    assert "observation" not in data
    assert "someone" not in json.dumps(data), "where files stood on a machine stays there"
    back = from_json(TargetReport, data)
    assert back == dataclasses.replace(target, observation=dataclasses.replace(seen, sources=()))


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ("static: `x` is a tensor", Evidence("static", "`x` is a tensor")),
        ("Dynamo: broke: static: x", Evidence("dynamo", "broke: static: x")),
        ("said without a name", Evidence("static", "said without a name")),
    ],
)
def test_evidence_is_one_line_in_json(text: str, evidence: Evidence) -> None:
    assert Evidence.of_json(text) == evidence
    assert from_json(Evidence, as_json(evidence)) == evidence


# What older JSON leaves out


@pytest.mark.parametrize(
    ("stage", "detail", "reason"),
    [
        ("capture", "no answer within 600 s, while in stage capture", "timeout"),
        ("capture", "case prefill: no answer within 300 s", "timeout"),
        ("capture", "on rank 1: no answer within 300 s", "timeout"),
        ("eager", "case a: memory: 9.00 GB resident, 8 GB allowed", "memory"),
        ("capture", "the process died by SIGSEGV (at model.py:3)", "crash"),
        ("backend", "on rank 3: the process exited with code 1: oh", "exit"),
        ("parse", "srun cannot be started: No such file", "error"),
        ("import", "torch is not installed in python3", "no_torch"),
        ("import", "ModuleNotFoundError: No module named 'x'", "error"),
        ("capture", "InternalTorchDynamoError: no answer within reach", "compile_error"),
        ("fullgraph", "Unsupported: x", "compile_error"),
        ("backend", "InductorError: x", "compile_error"),
        ("parity", "differs by 3", "mismatch"),
    ],
)
def test_a_failed_stage_of_an_older_report_gets_its_reason(stage: Any, detail: str, reason: str) -> None:
    data = {"stage": stage, "state": "fail", "detail": detail}
    assert from_json(Stage, data) == Stage(stage, "fail", detail, reason=reason)  # type: ignore[arg-type]
    said = {**data, "reason": "budget"}
    assert from_json(Stage, said).reason == "budget", "what is there stands"
    assert from_json(Stage, {**data, "state": "not_run"}).reason is None


@pytest.mark.parametrize("stage", [["capture"], {}, None])
def test_a_failed_stage_that_is_no_word_is_named(stage: Any) -> None:
    with pytest.raises(TcreadyError, match=r"Stage\.stage: .* is not one of"):
        from_json(Stage, {"stage": stage, "state": "fail", "detail": ""})


@pytest.mark.parametrize(
    ("convention", "source"),
    [
        ("--inputs", "option"),
        ("[tool.tcready.targets.net]", "project"),
        ("synthesised: x float32 (2, 8)", "made_up"),
        ("get_inputs() with Net", "convention"),
        (None, None),
    ],
)
def test_an_older_run_gets_where_its_inputs_came_from(convention: str | None, source: str | None) -> None:
    data = as_json(observation(convention=convention))
    del data["inputs_from"]
    assert from_json(Observation, data).inputs_from == source
    target = data | {"verdict": "unknown", "regions": []}
    assert from_json(TargetReport, target).observation.inputs_from == source


def test_a_report_of_version_1_without_the_later_keys_is_read() -> None:
    whole = as_json(Report(Tool("tcready", "0"), (), (TargetReport(observation(), "ready", ()),), (), (), (), (), {}))
    for key in ("silenced", "unused", "static_warnings", "predicted", "readings", "hidden", "narrowed"):
        del whole[key]
    (target,) = whole["targets"]
    for key in ("warnings", "inputs_from", "shapes", "intents", "digests", "traced"):
        del target[key]
    for stage in target["stages"]:
        del stage["reason"]
    report = from_json(Report, whole)
    assert report.targets[0].observation == observation()
    assert report.static_warnings is None


# Troubles: each cause once

FORWARD = SkippedFrame(PATH, 10, "Net.forward", "an error was suppressed", benign=False, end_line=20)
HELPER = SkippedFrame(PATH, 30, "helper", "an error was suppressed", benign=False, end_line=33)


def site(line: int, symbol: str = "Net.forward", **change: Any) -> BreakSite:
    base = BreakSite(PATH, line, symbol, "why", "GB0059", 1, "own", (Frame(PATH, line, symbol),))
    return dataclasses.replace(base, **change)


def troubles(**change: Any) -> CaptureFailures:
    return CaptureFailures.of(observation(**change))


def test_a_frame_that_a_break_had_skipped_belongs_to_the_break() -> None:
    found = troubles(break_sites=(site(13, action="skip_frame"),), skipped_frames=(FORWARD,))
    assert [item.skipped for item in found.breaks] == [(FORWARD,)]
    assert found.frames == ()
    assert found.words() == ["1 break site (skipping 1 frame)"]
    assert found.summary() == "1 break site (skipping 1 frame)"
    assert troubles().summary() == "0 break sites, 0 skipped frames"
    apart = troubles(break_sites=(site(13),), skipped_frames=(FORWARD, HELPER))
    assert apart.summary() == "1 break site (skipping 1 frame), 1 other skipped frame"


def test_a_break_met_in_two_loops_had_both_functions_skipped() -> None:
    """Its stack is that of the first time; in whose compilation it was met stands beside it."""
    met = tuple(FrameFate(PATH, frame.line, frame.symbol, "whole_frame") for frame in (FORWARD, HELPER))
    found = troubles(break_sites=(site(50, "say", frames=met),), skipped_frames=(HELPER, FORWARD))
    assert found.words() == ["1 break site (skipping 2 frames)"]
    split = tuple(dataclasses.replace(fate, fate="split") for fate in met)
    found = troubles(break_sites=(site(50, "say", frames=split),), skipped_frames=(HELPER, FORWARD))
    assert found.words() == ["1 break site", "2 skipped frames"]


def test_two_breaks_in_one_frame_skip_it_once() -> None:
    found = troubles(break_sites=(site(15), site(13), site(13, case="b")), skipped_frames=(FORWARD,))
    assert [(item.first.line, item.hits, len(item.skipped)) for item in found.breaks] == [(13, 2, 1), (15, 1, 1)]
    assert found.words() == ["2 break sites (skipping 1 frame)"]


def test_the_recompile_limit_is_a_cause_of_its_own() -> None:
    limit = dataclasses.replace(FORWARD, reason="recompile_limit reached")
    found = troubles(break_sites=(site(13),), skipped_frames=(limit, HELPER))
    assert found.words() == ["1 break site", "2 skipped frames"]


def test_a_frame_given_up_without_a_word_is_counted_once() -> None:
    unlogged = site(10, action="skip_frame_unlogged")
    found = troubles(break_sites=(unlogged,), skipped_frames=(FORWARD,))
    assert (found.breaks, found.words()) == ((), ["1 skipped frame"])


def test_frames_without_a_known_end_are_told_by_their_name() -> None:
    open_end = dataclasses.replace(FORWARD, end_line=None)
    assert troubles(break_sites=(site(13),), skipped_frames=(open_end,)).frames == ()
    assert troubles(break_sites=(site(13, "other"),), skipped_frames=(open_end,)).frames == (open_end,)


def test_benign_frames_and_recompiles_for_other_inputs_are_no_trouble() -> None:
    benign = dataclasses.replace(FORWARD, benign=True)
    again = Recompile(PATH, 10, "Net.forward", ("x",))
    found = troubles(skipped_frames=(benign,), recompiles=(again,))
    assert (found.words(), found.benign) == ([], 1)
    steady = dataclasses.replace(again, identical_call=True)
    found = troubles(recompiles=(steady, dataclasses.replace(steady, line=30), steady))
    assert found.words() == ["2 functions that compile again on every call"]
