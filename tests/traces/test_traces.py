"""Traces of jobs: what torch writes under TORCH_TRACE, read in place of a run. Nothing here needs torch."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import re
import tracemalloc
import zlib
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import jsonschema
import pytest
from commands import run
from fixture_markers import ROOT
from tcready import api
from tcready.portable.events import compile_times
from tcready.schema.codec import as_json, from_json
from tcready.schema.observation import Observation
from tcready.schema.report import Report
from tcready.traces import Traced, process_trace, read, trace_files
from trace_events import APP, NAME, TORCH, Job, event

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        if x.sum() > 0:
            x = x + 1
        y = helper(x) * self.steps
        if y.max() > 9:
            y = y - 1
        return y


def helper(x):
    return x * 2
"""
PATH = f"{APP}/net.py"
FORWARD = 10


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the source of the job."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "net.py").write_text(NET)
    monkeypatch.chdir(folder)
    return folder


def broken(rank: int | None = None) -> Job:
    """A job whose forward breaks at line 12, is compiled again, and goes on behind the break."""
    job = Job(rank)
    ids = job.start(0, 0, PATH, FORWARD)
    job.broke(ids, PATH, 12)
    job.graph(ids, (PATH, 12))
    job.end(ids, PATH, FORWARD, seconds=1.5, aot_autograd_cumulative_compile_time_us=1_000_000,
            inductor_cumulative_compile_time_us=600_000, triton_compile_time_us=200_000)  # fmt: skip
    rest = job.start(1, 0, PATH, 13, "torch_dynamo_resume_in_forward_at_12")
    job.graph(rest, (PATH, 14), (PATH, 21))
    job.end(rest, PATH, 13, "torch_dynamo_resume_in_forward_at_12", seconds=0.25)
    job.artifact(
        "recompile_reasons",
        "0/0: self.steps == 1  # self.steps += 1  # ob/app/net.py:11 in forward",
        frame_id=0,
        frame_compile_id=1,
        attempt=0,
    )
    again = job.start(0, 1, PATH, FORWARD)
    job.graph(again, (PATH, 12))
    job.end(again, PATH, FORWARD)
    return job


def seen_in(folder: Path, root: Path, **more: Any) -> tuple[Observation, Traced]:
    found = read([str(folder)], root.resolve(), **more)
    assert len(found.observations) == 1, [seen.target for seen in found.observations]
    return found.observations[0], found


def test_breaks_recompiles_graphs_and_times_are_those_of_the_job(project: Path, tmp_path: Path) -> None:
    seen, found = seen_in(broken().written(tmp_path / "trace"), project)
    assert (seen.target, seen.mode) == ("net.py::Net", "infer")
    assert seen.environment == {"torch": "2.13.0+cpu", "python": "3.11.9", "device": "cuda"}
    (site,) = seen.break_sites
    assert (site.path, site.line, site.symbol, site.gb_id) == ("net.py", 12, "Net.forward", "GB0170")
    assert (site.action, site.hits, site.origin) == ("resume", 1, "own")
    assert site.hints == ("Use `torch.cond` to express dynamic control flow.",)
    (event,) = seen.recompiles
    assert (event.path, event.line, event.symbol) == ("net.py", FORWARD, "Net.forward")
    assert event.reasons == ("0/0: self.steps == 1",)
    assert [(frame.path, frame.line) for frame in event.lines] == [("net.py", 11)]
    assert [(g.compile_id, g.line, g.symbol, g.ops, g.compile_seconds) for g in seen.graphs] == [
        ("0/0", 10, "Net.forward", 2, 1.5),
        ("1/0", 13, "Net.forward", 2, 0.25),
        ("0/1", 10, "Net.forward", 2, 0.5),
    ]
    assert [(lines.path, lines.ranges) for lines in seen.traced] == [("net.py", ((12, 12), (14, 14), (21, 21)))]
    trace = seen.trace
    assert trace is not None
    assert trace.seconds == 2.25
    assert dict(trace.phases) == {"dynamo": 1.25, "aot_autograd": 0.4, "inductor": 0.4, "kernels": 0.2}
    (time,) = trace.compile_times
    assert (time.path, time.line, time.symbol, time.compiled, time.seconds) == ("net.py", 10, "Net.forward", 3, 2.25)
    assert found.warnings == ()
    states = {stage.stage: stage.state for stage in seen.stages}
    assert {name for name, state in states.items() if state == "pass"} == {"parse", "capture"}
    assert "fail" not in states.values()


def test_the_report_merges_the_trace_with_what_the_source_predicts(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = broken().written(tmp_path / "trace")
    assert run("report", "--trace", str(folder), "--output-format", "json", "--html", "page.html") == 0
    report = from_json(Report, json.loads(capsys.readouterr().out))
    status = {(f.rule, f.line): f.status for f in report.findings}
    assert status["TCR101", 12] == "confirmed"
    assert status["TCR101", 15] == "predicted", "no run, so it is not told whether the line ran"
    assert [target.target for target in report.targets] == ["net.py::Net"]
    (target,) = report.targets
    assert target.verdict == "not_ready"
    assert target.coverage is None
    contracts = [ROOT / "fixtures" / "report.schema.json", ROOT / "docs" / "schema" / "report.schema.json"]
    for contract in contracts:
        jsonschema.validate(as_json(report), json.loads(contract.read_text()))
    page = Path("page.html").read_text()
    assert "From the trace of a job" in page
    assert "the share of operations and of time in graphs" in page
    assert run("report", "--trace", str(folder), "net.py", "--fail-on", "error") == 1
    text = capsys.readouterr().out
    assert "1 process: 3 compilations in 2.2 s: Dynamo 1.2 s" in text
    assert "not in a trace" in text


def test_the_sources_are_read_as_the_job_ran_them(project: Path, tmp_path: Path) -> None:
    job = broken()
    job.add({"aot_joint_graph": {}}, "graph", frame_id=0, frame_compile_id=0, attempt=0)
    report = api.check_trace(str(job.written(tmp_path / "trace")), root=project)
    assert [(reading.mode, reading.torch) for reading in report.readings] == [("train", "2.13")]
    assert report.targets[0].mode == "train"


def test_a_trace_in_which_nothing_broke_is_no_pass(project: Path, tmp_path: Path) -> None:
    job = Job()
    ids = job.start(0, 0, PATH, FORWARD)
    job.graph(ids, (PATH, 14))
    job.end(ids, PATH, FORWARD)
    report = api.check_trace(str(job.written(tmp_path / "trace")), root=project)
    (target,) = report.targets
    assert target.verdict == "unknown"
    assert "a trace does not show how much ran in graphs" in target.verdict_reason
    assert run("report", "--trace", str(tmp_path / "trace"), "-q", "--fail-on", "error") == 1  # line 12 is predicted
    (project / "net.py").write_text(
        NET.replace("if x.sum() > 0", "if x.dim() > 3").replace("y.max()", "y.dim()").replace("+= 1", "")
    )
    assert run("report", "--trace", str(tmp_path / "trace"), "-q", "--fail-on", "error") == 0


def test_a_line_of_a_graph_refutes_what_is_predicted_there(project: Path, tmp_path: Path) -> None:
    job = Job()
    ids = job.start(0, 0, PATH, FORWARD)
    job.graph(ids, (PATH, 12))
    job.end(ids, PATH, FORWARD)
    report = api.check_trace(str(job.written(tmp_path / "trace")), root=project)
    status = {(f.rule, f.line): f.status for f in report.findings}
    assert (status["TCR101", 12], status["TCR101", 15]) == ("not_observed", "predicted")


@pytest.mark.parametrize(("again", "expected"), [(0, "predicted"), (1, "predicted"), (2, "confirmed")])
def test_a_trace_refutes_no_recompilation(project: Path, tmp_path: Path, again: int, expected: str) -> None:
    """Its line stands in a graph, and nothing is known of the calls: only guards that keep failing prove it."""
    (project / "net.py").write_text(NET.replace("        self.steps += 1\n", "        self.steps += 1; x = x * 2\n"))
    job = Job()
    for number in range(again + 1):
        if number:
            reason = f"0/{number - 1}: self.steps == {number}"
            job.artifact("recompile_reasons", reason, frame_id=0, frame_compile_id=number)
        ids = job.start(0, number, PATH, FORWARD)
        job.graph(ids, (PATH, 11))
        job.end(ids, PATH, FORWARD)
    report = api.check_trace(str(job.written(tmp_path / "trace")), root=project)
    (counter,) = (found for found in report.findings if found.rule == "TCR311")
    assert (counter.line, counter.level, counter.status) == (11, "error", expected)
    said = next(each.text for each in counter.evidence if each.speaker == "dynamo")
    assert "same inputs" in said if expected == "predicted" else "self.steps == 2" in said


# frames that were given up


ERROR = """\
Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/torch/_dynamo/convert_frame.py", line 1600, in _compile
    raise
torch._dynamo.exc.Unsupported: Failed to trace builtin operator `print`
  Explanation: Dynamo does not know how to trace builtin operator `print`
  Hint: Avoid calling `print`.

  Developer debug context: builtin print

 For more details about this graph break, please visit: https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html

from user code:
   File "/job/app/net.py", line 14, in forward
    y = helper(x) * self.steps
  File "/job/app/net.py", line 21, in helper
    return x * 2

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""


def given_up(**row: Any) -> dict[str, Any]:
    return {"has_guarded_code": False, "graph_op_count": None, "guard_count": None, **row}


def test_a_break_that_only_its_error_tells_is_told(project: Path, tmp_path: Path) -> None:
    job = Job()
    ids = job.start(0, 0, PATH, FORWARD)
    job.artifact("dynamo_error", ERROR, **ids)
    row = given_up(fail_type="Unsupported", fail_reason="Failed to trace builtin operator `print`\n  Explanation: ...")
    job.end(ids, PATH, FORWARD, **row)
    seen, _ = seen_in(job.written(tmp_path / "trace"), project)
    (site,) = seen.break_sites
    assert (site.path, site.line, site.symbol, site.gb_id) == ("net.py", 21, "helper", "GB0059")
    assert site.action == "skip_frame"
    assert [(frame.line, frame.symbol) for frame in site.stack] == [(14, "Net.forward"), (21, "helper")]
    (skipped,) = seen.skipped_frames
    assert (skipped.symbol, skipped.benign) == ("Net.forward", False)


def test_the_log_of_a_break_that_comes_after_the_end_is_told_once(project: Path, tmp_path: Path) -> None:
    """With TORCH_LOGS=graph_breaks torch traces such a break once the compilation has ended."""
    job = Job()
    ids = job.start(0, 0, PATH, FORWARD)
    job.artifact("dynamo_error", ERROR, **ids)
    job.end(ids, PATH, FORWARD, **given_up(fail_type="Unsupported", fail_reason="Failed to trace builtin"))
    job.broke(ids, PATH, 14, "y = helper(x) * self.steps")
    seen, _ = seen_in(job.written(tmp_path / "trace"), project)
    assert [(site.line, site.hits, site.action) for site in seen.break_sites] == [(14, 1, "skip_frame")]


def compiled_again(*reasons: str, kind: str = "", needed: str = "", **settings: bool) -> Job:
    """A job that compiles a forward again for each of `reasons`; `kind` is an event that AOTAutograd leaves, `needed` a
    number whose value line 14 asks for, `settings` are those of `torch._dynamo.config`."""
    job = Job()
    for number in range(len(reasons) + 1):
        if number:
            job.artifact("recompile_reasons", reasons[number - 1], frame_id=0, frame_compile_id=number)
        ids = job.start(0, number, PATH, FORWARD)
        job.graph(ids, (PATH, 14))
        if kind:
            job.add({kind: {}}, "graph", **ids)
        if needed:
            stack = [{"line": 14, "name": "forward", "filename": job.string(PATH)}]
            job.add({"symbolic_shape_specialization": {"sources": [needed], "user_stack": stack}}, **ids)
        job.end(ids, PATH, FORWARD, dynamo_config=json.dumps(settings))
    return job


OPEN_ON_MODULES = "torch._dynamo.config.allow_unspec_int_on_nn_module = True"
GROWING = "tensor 'x' size mismatch at index 1. expected {0}, actual 9"


@pytest.mark.parametrize(
    ("guard", "about", "words", "code"),
    [
        ("n == {0}", {}, "n is an int that is compiled in, each value anew: pass a tensor", None),
        ("self.steps == {0}", {}, "hold it in a tensor", OPEN_ON_MODULES),
        ("self.steps == {0}", {"allow_unspec_int_on_nn_module": True}, "hold it in a tensor", None),
        ("self.steps == {0}", {"needed": "L['self'].steps"}, "net.py:14 needs its value, and no setting", None),
        ("n == {0}", {"needed": "L['n']"}, "net.py:14 needs its value, and no setting", None),
        ("n == {0}", {"specialize_int": True}, "set it back", "torch._dynamo.config.specialize_int = False"),
        ("n == {0}", {"automatic_dynamic_shapes": False}, "compile with dynamic=True", None),
        ("G['STEPS'] == {0}", {}, "STEPS is an int that is compiled in", None),
        (
            GROWING,
            {},
            "dimension 1 of x is compiled in, each size anew: compile with dynamic=True",
            "torch._dynamo.mark_dynamic(x, 1)",
        ),
        (GROWING, {"needed": "L['x'].size()[1]"}, "net.py:14 needs its value, and marking it", None),
        (GROWING, {"needed": "L['x'].size()[0]"}, "compile with", "torch._dynamo.mark_dynamic(x, 1)"),
    ],
)
def test_what_might_end_recompilations_is_said_and_that_nobody_tried(
    guard: str,
    about: Mapping[str, Any],
    words: str,
    code: str | None,
    project: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = compiled_again(*(guard.format(number) for number in range(3)), **about).written(tmp_path / "trace")
    seen, _ = seen_in(folder, project)
    assert seen.trace is not None
    (item,) = seen.trace.advice
    assert (item.path, item.line, item.code) == ("net.py", FORWARD, code)
    assert words in item.text
    assert run("report", "--trace", str(folder), "--html", "page.html") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{item.text} (not run)" in shown
    assert code is None or code in shown
    assert "(not run)" in Path("page.html").read_text()
    once, _ = seen_in(compiled_again(guard.format(0)).written(tmp_path / "once"), project)
    assert once.trace is not None
    assert once.trace.advice == (), "a size that changed once is dynamic from then on"


def test_all_that_might_end_recompilations_is_told(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reasons = [text.format(number) for text in (GROWING, "n == {0}", "m == {0}") for number in range(3)]
    job = compiled_again(*reasons)
    ids = job.start(1, 0, PATH, FORWARD)
    job.broke(ids, PATH, 12)
    job.end(ids, PATH, FORWARD)
    run("report", "--trace", str(job.written(tmp_path / "trace")))
    steps = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("FIRST", "THEN"))]
    assert [line.split()[0] for line in steps] == ["FIRST", "THEN", "THEN", "THEN"]
    assert "fix TCR101" in steps[0]


@pytest.mark.parametrize(
    ("kind", "mode", "known"),
    [("", "infer", False), ("aot_inference_graph", "infer", True), ("aot_joint_graph", "train", True)],
)
def test_whether_it_was_training_is_not_guessed(
    kind: str, mode: str, known: bool, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = compiled_again(kind=kind).written(tmp_path / "trace")
    seen, _ = seen_in(folder, project)
    assert seen.trace is not None
    assert (seen.mode, seen.trace.mode_known) == (mode, known)
    assert run("report", "--trace", str(folder)) == 0
    assert ("mode unknown, read as infer" in capsys.readouterr().out) is not known


def test_the_recompile_limit_is_a_frame_that_was_given_up(project: Path, tmp_path: Path) -> None:
    job = Job()
    ids = job.start(0, 0, PATH, FORWARD)
    job.end(ids, PATH, FORWARD)
    last = {"frame_id": 0, "frame_compile_id": 1}
    job.artifact(
        "recompile_reasons",
        dedent("""\
        [
        "0/0: self.steps == 1",
        "0/1: self.steps == 2"
        ]"""),
        **last,
    )
    reason = "Dynamo recompile limit exceeded\n  Explanation: Dynamo attempted to recompile the code object too many"
    metrics = {"fail_type": "Unsupported", "fail_reason": reason, "has_guarded_code": None}
    job.add({"compilation_metrics": metrics}, **last)  # no code is named, and no beginning
    seen, _ = seen_in(job.written(tmp_path / "trace"), project)
    (frame,) = seen.skipped_frames
    assert (frame.symbol, frame.line, frame.reason) == ("Net.forward", FORWARD, "Dynamo recompile limit exceeded")
    assert seen.recompiles[0].reasons == ("0/0: self.steps == 1", "0/1: self.steps == 2")
    report = api.check_trace(str(tmp_path / "trace"), root=project)
    found = {f.rule: f for f in report.findings}
    assert (found["TCR311"].line, found["TCR311"].status) == (11, "confirmed")


def test_a_frame_without_an_operation_does_no_harm(project: Path, tmp_path: Path) -> None:
    job = Job()
    ids = job.start(0, 0, PATH, FORWARD)
    job.add({"compilation_metrics": {"co_name": "forward", "co_filename": PATH, "co_firstlineno": FORWARD,
             "graph_op_count": 0, "has_guarded_code": True}}, **ids)  # fmt: skip  # without guards nothing was kept
    seen, _ = seen_in(job.written(tmp_path / "trace"), project)
    assert [frame.benign for frame in seen.skipped_frames] == [True]


def test_an_error_that_the_job_met_is_a_failed_capture(project: Path, tmp_path: Path) -> None:
    job = Job()
    ids = job.start(0, 0, PATH, FORWARD)
    row = given_up(fail_type="BackendCompilerFailed", fail_reason="backend='inductor' raised:\nmore")
    job.end(ids, PATH, FORWARD, fail_user_frame_filename=PATH, fail_user_frame_lineno=14, **row)
    report = api.check_trace(str(job.written(tmp_path / "trace")), root=project)
    (target,) = report.targets
    capture = next(stage for stage in target.stages if stage.stage == "capture")
    assert (capture.state, capture.reason) == ("fail", "compile_error")
    assert capture.detail == "BackendCompilerFailed: backend='inductor' raised: (net.py:14)"
    assert target.verdict == "not_ready"


# several processes, and compilations whose ids begin anew


def test_ids_that_begin_anew_after_a_reset_are_other_compilations(project: Path, tmp_path: Path) -> None:
    job = Job()
    for _ in range(3):
        ids = job.start(0, 0, PATH, FORWARD)
        job.broke(ids, PATH, 12)
        job.end(ids, PATH, FORWARD)
    seen, _ = seen_in(job.written(tmp_path / "trace"), project)
    assert len(seen.graphs) == 3
    assert seen.break_sites[0].hits == 3


def test_an_attempt_that_is_made_again_is_the_same_compilation(project: Path, tmp_path: Path) -> None:
    job = Job()
    ids = job.start(0, 0, PATH, FORWARD)
    job.broke(ids, PATH, 12)
    job.graph({**ids, "attempt": 1}, (PATH, 12))
    job.end({**ids, "attempt": 1}, PATH, FORWARD)
    seen, _ = seen_in(job.written(tmp_path / "trace"), project)
    assert [graph.compile_id for graph in seen.graphs] == ["0/0"]


def test_the_processes_of_a_job_are_put_together(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    for rank in (0, 1):
        broken(rank).written(folder, f"dedicated_log_torch_trace_rank_{rank}_x{rank}.log")
    broken().written(folder / "node1", "dedicated_log_torch_trace_rank_2_y.log")
    seen, _ = seen_in(folder, project)
    assert seen.trace is not None
    assert [each.rank for each in seen.trace.processes] == [0, 1, 2]
    assert len(seen.graphs) == 3, "those of one process: the others made the same"
    assert [(site.line, site.hits) for site in seen.break_sites] == [(12, 3)]
    assert seen.trace.compile_times[0].compiled == 9
    assert seen.trace.seconds == 6.75


def test_each_function_that_the_job_compiled_is_a_target(project: Path, tmp_path: Path) -> None:
    job = broken()
    ids = job.start(7, 0, PATH, 20, "helper")
    job.end(ids, PATH, 20, "helper")
    found = read([str(job.written(tmp_path / "trace"))], project.resolve())
    assert [seen.target for seen in found.observations] == ["net.py::Net", "net.py::helper"]
    assert [len(seen.graphs) for seen in found.observations] == [3, 1]


def test_what_to_do_first_is_of_the_function_that_showed_it(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "loss.py").write_text("def loss(x):\n    return x.numpy()\n")
    job = broken()
    ids = job.start(5, 0, f"{APP}/loss.py", 1, "loss")
    job.broke(ids, f"{APP}/loss.py", 2, "return x.numpy()")
    job.end(ids, f"{APP}/loss.py", 1, "loss")
    run("report", "--trace", str(job.written(tmp_path / "trace")))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("VERDICT", "FIRST"))]
    named = [re.findall(r"\b\w+\.py", line)[0] for line in lines]
    assert named == ["net.py", "net.py", "loss.py", "loss.py"]


def test_what_a_compiled_function_calls_is_of_its_target(project: Path, tmp_path: Path) -> None:
    """Torch leaves the last callers out of a stack: those here are as 2.13 writes them."""
    train, module = (f"{APP}/train.py", "<module>"), (f"{TORCH}/nn/modules/module.py", "_call_impl")
    wrapper = (f"{TORCH}/_dynamo/eval_frame.py", "compile_wrapper")
    stacks = [
        (0, PATH, FORWARD, "forward", (train, module, wrapper), "net.py::Net"),
        (1, PATH, 13, "torch_dynamo_resume_in_forward_at_12", (train, module, wrapper, module), "net.py::Net"),
        (2, PATH, 20, "helper", (train, module, wrapper, module, module), "net.py::Net"),
        (3, f"{APP}/loss.py", 3, "loss_of", (), f"{APP}/loss.py::loss_of"),
        (4, f"{APP}/loss.py", 9, "norm", (train,), f"{APP}/loss.py::loss_of"),
        (5, f"{APP}/loss.py", 19, "other", (), f"{APP}/loss.py::other"),
        (0, PATH, FORWARD, "forward", (train,), "net.py::Net"),
    ]
    job = Job()
    for number, (frame, path, line, name, above, _) in enumerate(stacks):
        ids = job.start(frame, int(number == 6), path, line, name, above)
        job.end(ids, path, line, name)
    found = read([str(job.written(tmp_path / "trace"))], project.resolve())
    expected: dict[str, set[tuple[int, str]]] = {}
    for frame, _, _, name, _, target in stacks:
        expected.setdefault(target, set()).add((frame, name))
    told = {seen.target: {int(g.compile_id.split("/")[0]) for g in seen.graphs} for seen in found.observations}
    assert told == {target: {frame for frame, _ in frames} for target, frames in expected.items()}


# where the files stand


def test_a_file_is_found_by_the_end_of_its_path(project: Path, tmp_path: Path) -> None:
    (project / "net.py").unlink()
    for folder in ("app", "old/other", ".venv/app"):
        (project / folder).mkdir(parents=True)
        (project / folder / "net.py").write_text(NET)
    (project / ".venv" / "pyvenv.cfg").write_text("")
    seen, _ = seen_in(broken().written(tmp_path / "trace"), project)
    assert seen.target == "app/net.py::Net"


def test_one_name_is_not_enough_for_a_file_in_a_folder(project: Path, tmp_path: Path) -> None:
    (project / "net.py").unlink()
    (project / "other").mkdir()
    (project / "other" / "net.py").write_text(NET)
    folder = broken().written(tmp_path / "trace")
    seen, found = seen_in(folder, project)
    assert (seen.target, seen.break_sites[0].path) == (f"{PATH}::forward", PATH)
    assert seen.break_sites[0].origin == "own"
    assert any(f"the source of {PATH} is not here" in warning for warning in found.warnings)
    moved, found = seen_in(folder, project, moved=[(APP, "other")])
    assert moved.target == "other/net.py::Net"
    assert not any(PATH in warning for warning in found.warnings)


def test_of_two_files_that_may_be_meant_none_is_taken(project: Path, tmp_path: Path) -> None:
    (project / "net.py").unlink()
    for name in ("a", "b"):
        (project / name / "app").mkdir(parents=True)
        (project / name / "app" / "net.py").write_text(NET)
    folder = broken().written(tmp_path / "trace")
    seen, found = seen_in(folder, project)
    assert seen.break_sites[0].path == PATH
    assert f"{PATH} may be a/app/net.py or b/app/net.py: say which with `--trace-root OLD=NEW`" in found.warnings
    seen, _ = seen_in(folder, project, moved=[(APP, "b/app")])
    assert seen.break_sites[0].path == "b/app/net.py"


@pytest.mark.parametrize("value", ["9" * 4000, "1e400", "-1", "NaN", '"x"', "[1]"])
def test_a_time_that_is_none_counts_as_nothing(value: str) -> None:
    row = {compile_times.ENTIRE: json.loads(value)}
    assert compile_times.phases([row], "kernels") == ()


@pytest.mark.parametrize("value", [10**400, -1, True, 2.5, "3"])
def test_a_count_that_is_none_is_not_known(value: object, project: Path, tmp_path: Path) -> None:
    """A report with a number of 400 digits could not be read again."""
    job = Job()
    ids = job.start(0, 0, PATH, FORWARD)
    job.graph(ids, (PATH, 12))
    job.end(ids, PATH, FORWARD, guard_count=value)
    seen, _ = seen_in(job.written(tmp_path / "trace"), project)
    assert [graph.guards for graph in seen.graphs] == [None]


def test_a_source_that_has_changed_is_told(project: Path, tmp_path: Path) -> None:
    folder = broken().written(tmp_path / "trace")
    (project / "net.py").write_text("# a line more\n" + NET)
    seen, found = seen_in(folder, project)
    assert any("net.py is not what the job ran: there forward begins at line 10" in text for text in found.warnings)
    assert {site.path for site in seen.break_sites} == {PATH}  # no line of it is held against another one here
    assert not seen.sources
    (project / "net.py").write_text(NET.replace("x.sum() > 0", "x.sum() > 1"))
    seen, found = seen_in(folder, project)
    assert any("net.py is not what the job ran: line 12 was `if x.sum() > 0:`" in text for text in found.warnings)
    assert {site.path for site in seen.break_sites} == {PATH}
    assert not any("is not here" in text for text in found.warnings)


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (NET.replace("nn\n\n", "nn\n\x0c\n").encode(), "if x.sum() > 0:"),
        (NET.replace("self.steps = 0", "self.steps = 0  # a\u2028b\x85c").encode(), "if x.sum() > 0:"),
        (NET.replace("\n", "\r").encode(), "if x.sum() > 0:"),
        (
            NET.replace("import torch\n", "# coding: latin-1\n", 1).replace("> 0:", "> 0:  # \xe9").encode("latin-1"),
            "if x.sum() > 0:  # \xe9",
        ),
    ],
    ids=["form feed", "U+2028", "carriage return", "latin-1"],
)
def test_lines_of_a_source_are_those_of_python(project: Path, tmp_path: Path, data: bytes, line: str) -> None:
    (project / "net.py").write_bytes(data)
    job = Job()
    ids = job.start(0, 0, PATH, FORWARD)
    job.broke(ids, PATH, 12, line)
    job.end(ids, PATH, FORWARD)
    seen, found = seen_in(job.written(tmp_path / "trace"), project)
    assert found.warnings == ()
    assert [(site.path, site.line) for site in seen.break_sites] == [("net.py", 12)]


def test_installed_packages_are_found_by_their_place_below_site_packages(project: Path, tmp_path: Path) -> None:
    site = tmp_path / "env" / "site-packages"
    (site / "lib_of_models").mkdir(parents=True)
    (site / "lib_of_models" / "net.py").write_text(NET)
    path = "/other/env/lib/python3.12/site-packages/lib_of_models/net.py"
    job = Job()
    ids = job.start(0, 0, path, FORWARD)
    job.broke(ids, path, 12)
    job.end(ids, path, FORWARD)
    seen, _ = seen_in(job.written(tmp_path / "trace"), project, search=(site,))
    assert seen.target == "lib_of_models.net::Net"
    (place,) = seen.break_sites
    assert (place.path, place.symbol, place.origin) == ("lib_of_models/net.py", "Net.forward", "third_party")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--trace-root", "nothing"), "write OLD=NEW"),
        (("--trace-root", "/job=missing"), "there is no folder missing"),
        (("report.json",), "report.json is a report"),
        (("--compare",), "--trace makes one report and --compare takes two"),
        (("missing.py",), "missing.py"),
    ],
)
def test_what_does_not_go_with_a_trace_is_refused(
    given: tuple[str, ...], words: str, project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = broken().written(tmp_path / "trace")
    assert run("report", "--trace", str(folder), *given) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert said[-1].startswith("tcready: error: ")
    assert words in said[-1]


def test_a_folder_without_a_trace_is_refused_in_one_line(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "run.log").write_text("epoch 1\nepoch 2\n")
    for named, words in ((".", "there is no trace of torch in ."), ("nowhere", "there is no file or folder nowhere")):
        assert run("report", "--trace", named) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert words in line
    assert run("report", "--trace", "net.py") == 2
    assert run("report", "--trace-root", "/a=b", "x.json") == 2


# traces that are not whole


def test_whatever_is_left_of_a_trace_is_read(project: Path, tmp_path: Path) -> None:
    """Cut anywhere, it gives no more than the whole, and never less than the same cut short."""
    data = broken().text.encode()
    whole, _ = seen_in(broken().written(tmp_path / "trace"), project)
    random.seed(0)
    file = tmp_path / "trace" / NAME
    known: tuple[int, int] = (0, 0)
    for cut in sorted(random.sample(range(len(data)), 60)):
        file.write_bytes(data[:cut])
        found = read([str(tmp_path / "trace")], project.resolve())
        seen = found.observations[0]
        count = (len(seen.break_sites), len(seen.graphs))
        assert known <= count <= (len(whole.break_sites), len(whole.graphs))
        known = count
        if data[cut - 1 : cut] != b"\n":
            assert any("cut short" in text or "empty" in text for text in found.warnings), cut
        capture = next(stage for stage in seen.stages if stage.stage == "capture")
        assert (capture.state == "pass") == bool(seen.graphs)


def test_what_a_cut_trace_lacks_is_told(project: Path, tmp_path: Path) -> None:
    text = broken().text
    cut = text[: text.index('{"recompile_reasons"') if '{"recompile_reasons"' in text else text.rindex("dynamo_start")]
    folder = tmp_path / "trace"
    folder.mkdir()
    (folder / NAME).write_text(cut)
    report = api.check_trace(str(folder), root=project)
    (process_,) = report.targets[0].observation.trace.processes  # type: ignore[union-attr]
    assert "cut short in the middle of a line" in process_.lacks
    assert "no end of 1 compilation (0/1)" in process_.lacks
    assert any(NAME in warning for warning in report.warnings)


def test_a_packed_trace_is_read_and_one_that_was_cut_too(project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    folder.mkdir()
    packed = gzip.compress(broken().text.encode())
    (folder / f"{NAME}.gz").write_bytes(packed)
    seen, found = seen_in(folder, project)
    assert len(seen.graphs) == 3
    assert seen.trace is not None
    assert not seen.trace.processes[0].lacks
    cut = packed[:-200]
    (folder / f"{NAME}.gz").write_bytes(cut)
    seen, found = seen_in(folder, project)
    assert any("cut short" in text for text in found.warnings)
    (folder / f"{NAME}.gz").unlink()
    (folder / NAME).write_bytes(zlib.decompressobj(wbits=31).decompress(cut))
    plain, _ = seen_in(folder, project)
    assert len(seen.graphs) > 0
    assert (seen.graphs, seen.break_sites) == (plain.graphs, plain.break_sites)


def test_a_trace_under_another_name_is_known_by_what_it_holds(project: Path, tmp_path: Path) -> None:
    folder = broken().written(tmp_path / "logs", "worker-0.txt")
    (folder / "stdout.txt").write_text("epoch 1\n")
    seen, _ = seen_in(folder, project)
    assert seen.trace is not None
    assert [each.file for each in seen.trace.processes] == ["worker-0.txt"]
    alone, _ = seen_in(folder / "worker-0.txt", project)
    assert alone == seen


def test_an_empty_trace_and_one_of_a_job_that_compiled_nothing(project: Path, tmp_path: Path) -> None:
    for text in ("", Job().text):
        (tmp_path / "trace").mkdir(exist_ok=True)
        (tmp_path / "trace" / NAME).write_text(text)
        report = api.check_trace(str(tmp_path / "trace"), root=project)
        (target,) = report.targets
        assert (target.verdict, target.verdict_reason) == (
            "unknown",
            "nothing was compiled: the trace holds no compilation",
        )
        assert api.exit_code(report) == 2


def test_lines_of_something_else_are_counted_and_passed_by(project: Path, tmp_path: Path) -> None:
    lines = broken().text.splitlines(keepends=True)
    at = [index for index, line in enumerate(lines) if not line.startswith("\t")][4]
    lines.insert(at, "epoch 1\n\tloss\n")
    lines.insert(0, '\tthe end of another\nV1123 05:21:02.123456 1 a.py:3] {"dynamo_start": {"stack\n')
    folder = tmp_path / "trace"
    folder.mkdir()
    (folder / NAME).write_text("".join(lines))
    seen, found = seen_in(folder, project)
    assert len(seen.graphs) == 3
    assert found.warnings[0].startswith(f"{NAME}: 3 lines that are none of a trace, 1 event that cannot be read:")


def test_without_its_table_of_names_a_trace_still_tells_what_its_rows_name(project: Path, tmp_path: Path) -> None:
    lines = [line for line in broken().text.splitlines(keepends=True) if '{"str": ' not in line]
    folder = tmp_path / "trace"
    folder.mkdir()
    (folder / NAME).write_text("".join(lines))
    seen, found = seen_in(folder, project)
    assert [(site.path, site.line) for site in seen.break_sites] == [("net.py", 12)]
    assert len(seen.graphs) == 3
    assert "names of files are missing in 3 stacks" in found.warnings[0]


def test_a_payload_that_is_not_what_was_written_is_told(project: Path, tmp_path: Path) -> None:
    text = broken().text.replace("Data-dependent branching\n", "Data-dependent branchin\n")
    folder = tmp_path / "trace"
    folder.mkdir()
    (folder / NAME).write_text(text)
    _, found = seen_in(folder, project)
    assert "1 event whose text is not whole" in found.warnings[0]


def test_a_last_text_that_nobody_asked_for_is_told_if_it_was_cut_at_the_end_of_a_line(
    project: Path, tmp_path: Path
) -> None:
    """Such a file ends like a whole one; the digest of the text says that it is none."""
    payload = dedent("""\
        {
        "name": "dynamo",
        "ph": "B"
        }""")
    head = json.dumps({"chromium_event": {}, "has_payload": hashlib.md5(payload.encode()).hexdigest()})
    line = f"V1124 10:47:46.121000 7831 torch/_dynamo/utils.py:2350] {head}\n"
    text = broken().text
    folder = tmp_path / "trace"
    folder.mkdir()
    lines = payload.split("\n")
    for pack in (bytes, gzip.compress):
        for kept in range(len(lines) + 1):
            end = "".join(f"\t{each}\n" for each in lines[:kept])
            (folder / NAME).write_bytes(pack((text + line + end).encode()))
            _, found = seen_in(folder, project)
            told = any("1 event whose text is not whole" in each for each in found.warnings)
            assert told == (kept < len(lines)), (kept, found.warnings)


# traces that somebody made up


def values(data: Any) -> list[Any]:
    """The same JSON value with each of its parts replaced by something of another kind, one at a time."""
    others: tuple[Any, ...] = (None, -1, 10**30, "\ud800<script>", [], {}, [[1]], {"a": None}, True, "0" * 5000)
    if isinstance(data, dict):
        return [{**data, name: other} for name, value in data.items() for other in (*values(value), *others)]
    if isinstance(data, list):
        return [
            [*data[:index], other, *data[index + 1 :]]
            for index, value in enumerate(data)
            for other in (*values(value), *others)
        ]
    return []


def test_events_of_any_shape_are_survived(project: Path, tmp_path: Path) -> None:
    """Each event of a trace with each of its parts replaced: what comes of it can be written and validated."""
    lines = broken().text.splitlines(keepends=True)
    random.seed(1)
    folder = tmp_path / "trace"
    folder.mkdir()
    schema = json.loads((ROOT / "docs" / "schema" / "report.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    deep = '{"a\\u0041": ' * 900 + "1" + "}" * 900
    variants = []
    for index, line in enumerate(lines):
        prefix, brace, rest = line.partition("] {")
        if brace and not line.startswith("\t"):
            for other in values(json.loads("{" + rest)):
                variants.append((index, f"{prefix}] {json.dumps(other)}\n"))  # noqa: PERF401
    compiled = next(index for index, line in enumerate(lines) if '"compilation_metrics"' in line)
    nested = (compiled, lines[compiled].partition("] {")[0] + f"] {deep}\n")
    for number, (index, line) in enumerate([nested, *random.sample(variants, 150)]):
        (folder / NAME).write_text("".join([*lines[:index], line, *lines[index + 1 :]]))
        found = read([str(folder)], project.resolve())
        text = json.dumps(as_json(found.observations)).encode("utf-8", "strict")
        assert text
        if number % 50 == 0:
            report = api.check_trace(str(folder), root=project)
            assert not list(validator.iter_errors(as_json(report)))
            api.render(report, "html").encode("utf-8")
            api.render(report, "text")


HOSTILE = '<img src=x onerror="alert(1)"></script><script>alert(2)</script>'


def test_what_a_trace_says_is_escaped_in_the_page(project: Path, tmp_path: Path) -> None:
    job = Job()
    path = f"/job/{HOSTILE}.py"
    ids = job.start(0, 0, path, 3, HOSTILE)
    job.broke(ids, path, 3, HOSTILE)
    job.artifact("recompile_reasons", f"0/0: {HOSTILE}", **ids)
    job.end(ids, path, 3, HOSTILE, pytorch_version=HOSTILE, python_version=HOSTILE)
    job.written(tmp_path / "trace", f"dedicated_log_torch_trace_{HOSTILE.replace('/', '_')}.log")
    (tmp_path / "trace" / f"dedicated_log_torch_trace_{HOSTILE.replace('/', '_')}.log").write_text(job.text + "V11")
    report = api.check_trace(str(tmp_path / "trace"), root=project)
    page = api.render(report, "html")
    assert "onerror=" in page, "it is shown"
    assert "<img src=x" not in page
    assert "<script>alert" not in page
    assert "\x1b" not in api.render(report, "text")


def test_a_trace_names_no_file_outside_of_the_project_into_a_report(project: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text(
        dedent("""\
        KEY = 'not to be shown'


        def forward(x):
            return x
    """)
    )
    for path in (str(secret), "/job/app/../../secret.py", f"/x/site-packages/../../{secret}"):
        job = Job()
        ids = job.start(0, 0, path, 4)
        job.broke(ids, path, 5, "return x")
        job.end(ids, path, 4)
        report = api.check_trace(str(job.written(tmp_path / "trace")), root=project)
        assert "not to be shown" not in json.dumps(as_json(report)), path


# large traces


def test_memory_does_not_depend_on_the_size_of_a_trace(project: Path, tmp_path: Path) -> None:
    job = broken()
    code = event({"inductor_output_code": {}, "frame_id": 0}, "\n".join(["x = y + z  # a line of code"] * 40_000))
    folder = tmp_path / "trace"
    folder.mkdir()
    with (folder / NAME).open("w") as file:
        file.write(job.text)
        for _ in range(12):
            file.write(code)
        file.write("V" + "x" * (trace_files.LONGEST // 32) + "\n")
    size = (folder / NAME).stat().st_size
    tracemalloc.start()
    found = process_trace.read(folder / NAME)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.compilations) == 3
    assert found.condition.foreign == 1
    assert size > 12 << 20
    assert peak < 6 << 20
