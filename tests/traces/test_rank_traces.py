"""What the trace of a job of several ranks shows: where they differ, a timeline, kernels. No torch is needed here.

`fixtures/rank_traces` holds the trace of two ranks as torch wrote it (`benchmarks/job_traces.py --ranks`).
"""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import run
from fixture_markers import ROOT
from tcready import api
from tcready.schema.code_line import Frame
from tcready.schema.codec import as_json, from_json
from tcready.schema.enums import TcreadyError
from tcready.schema.observation import Observation
from tcready.schema.run import Trace
from tcready.traces import read
from trace_events import APP, Job

FOLDER = ROOT / "fixtures" / "rank_traces"
NAME = "dedicated_log_torch_trace_rank_{}_job.log"
NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x.sin() + 1
"""
PATH = f"{APP}/net.py"
FORWARD = 6
REDUCE = """\
class GraphModule:
    def forward(self, x):
         # File: {path}:7 in forward, code: return x.sin() + 1
        y: "f32[{rows}, 8][8, 1]cpu" = torch.ops._c10d_functional.all_reduce(x, '{how}', '{group}');  x = None
        z: "f32[{rows}, 8][8, 1]cpu" = torch.ops._c10d_functional.wait_tensor(y);  y = None
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the source of the job."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "net.py").write_text(NET)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the recorded job, with a trace in `trace`."""
    folder = tmp_path / "job"
    shutil.copytree(FOLDER, folder)
    monkeypatch.chdir(folder)
    return folder


def compiled(
    job: Job,
    again: int,
    rows: int = 4,
    how: str = "sum",
    group: str = "0",
    name: str = "",
    text: str = "{}",
    **row: Any,
) -> dict[str, int]:
    """One compilation of the forward, with a reduction in its graph."""
    ids = job.start(0, again, PATH, FORWARD)
    job.add({"dynamo_output_graph": {"sizes": {}}}, REDUCE.format(path=PATH, rows=rows, how=how, group=group), **ids)
    if name:
        job.artifact(name, text, **ids)
    job.end(ids, PATH, FORWARD, **row)
    return ids


def ranks(tmp_path: Path, *jobs: Job) -> str:
    for rank, job in enumerate(jobs):
        job.written(tmp_path / "trace", NAME.format(rank))
    return str(tmp_path / "trace")


def trace_of(project: Path, folder: str) -> Trace:
    (seen,) = read([folder], project).observations
    assert seen.trace is not None
    assert from_json(Observation, as_json(seen)) == seen
    return seen.trace


def words(trace: Trace) -> list[tuple[str, int | None, list[str]]]:
    return [(each.kind, each.version, [side.text for side in each.sides]) for each in trace.differences]


def test_the_recorded_ranks_differ_in_collectives_and_in_compilations(recorded: Path) -> None:
    trace = trace_of(recorded, "trace")
    assert [process.rank for process in trace.processes] == [0, 1]
    assert words(trace) == [
        ("collectives", 1, ["2 collectives, number 2 is all_reduce f32[4, 8] max", "1 collective"]),
        ("compilations", None, ["compiled 2 times (0/0, 0/1)", "compiled once (0/0)"]),
    ]
    assert {each.place for each in trace.differences} == {Frame("models/ranks.py", 14, "Block.forward")}


def test_the_report_has_one_error_and_a_failed_capture(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = api.check_trace("trace", root=recorded)
    (target,) = report.targets
    (finding,) = [each for each in report.findings if each.name == "ranks-differ"]
    assert (finding.path, finding.line, finding.level) == ("models/ranks.py", 14, "error")
    capture = next(stage for stage in target.stages if stage.stage == "capture")
    assert (capture.state, capture.reason) == ("fail", "mismatch")
    assert "number 2 is all_reduce f32[4, 8] max" in capture.detail
    assert run("report", "--trace", "trace", "--html", "page.html") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "ranks differ collectives of models/ranks.py:14 Block.forward, version 1: rank 0: 2 collectives" in text
    page = (recorded / "page.html").read_text()
    assert "What ranks compiled differently" in page
    assert "<p>rank 0: compiled 2 times (0/0, 0/1)</p><p>rank 1: compiled once (0/0)</p>" in page


def test_ranks_that_compile_alike_do_not_differ(project: Path, tmp_path: Path) -> None:
    jobs = Job(0), Job(1)
    for number, job in enumerate(jobs):
        compiled(job, 0, group=str(number))  # a rank has its own groups
        compiled(job, 1, rows=5, group=str(number))
    assert trace_of(project, ranks(tmp_path, *jobs)).differences == ()


def test_a_rank_that_compiles_again_is_a_warning(project: Path, tmp_path: Path) -> None:
    first, second = Job(0), Job(1)
    compiled(first, 0)
    compiled(first, 1)
    compiled(second, 0)
    folder = ranks(tmp_path, first, second)
    (found,) = trace_of(project, folder).differences
    assert found.words() == "rank 0: compiled 2 times (0/0, 0/1); rank 1: compiled once (0/0)"
    (finding,) = api.check_trace(folder, root=project).findings
    assert (finding.name, finding.level, finding.line) == ("ranks-differ", "warning", FORWARD)


def test_ranks_with_the_same_result_are_named_together(project: Path, tmp_path: Path) -> None:
    jobs = [Job(rank) for rank in range(6)]
    for rank, job in enumerate(jobs):
        compiled(job, 0)
        if rank == 4:
            compiled(job, 1)
    (found,) = trace_of(project, ranks(tmp_path, *jobs)).differences
    assert found.words() == "ranks 0-3, 5: compiled once (0/0); rank 4: compiled 2 times (0/0, 0/1)"


@pytest.mark.parametrize("whole", [True, False])
def test_a_graph_that_is_made_again_counts_once(whole: bool, project: Path, tmp_path: Path) -> None:
    """Dynamo starts a compilation again for some errors, and records the graph of each attempt."""
    first, second = Job(0), Job(1)
    compiled(first, 0)
    graph: dict[str, Any] = {"dynamo_output_graph": {"sizes": {}}}
    second.add(graph, REDUCE.format(path=PATH, rows=4 if whole else 9, how="sum", group="0"), frame_id=0,
               frame_compile_id=0, attempt=0)  # fmt: skip
    compiled(second, 0)
    assert trace_of(project, ranks(tmp_path, first, second)).differences == ()


@pytest.mark.parametrize(
    ("other", "text"),
    [({"how": "max"}, "1 collective, number 1 is all_reduce f32[4, 8] max"),
     ({"rows": 3}, "1 collective, number 1 is all_reduce f32[3, 8] sum")],
)  # fmt: skip
def test_another_reduction_or_shape_is_another_collective(
    other: dict[str, Any], text: str, project: Path, tmp_path: Path
) -> None:
    first, second = Job(0), Job(1)
    compiled(first, 0)
    compiled(second, 0, **other)
    ((kind, version, sides),) = words(trace_of(project, ranks(tmp_path, first, second)))
    assert (kind, version, sides[1]) == ("collectives", 1, text)


@pytest.mark.parametrize(("cached", "differ"), [("", True), ("fx_graph_cache_hit", False)])
def test_the_order_of_inductor_counts_unless_a_graph_came_from_a_cache(
    cached: str, differ: bool, project: Path, tmp_path: Path
) -> None:
    schedule = ["all_reduce_", "all_gather_into_tensor"]
    jobs = Job(0), Job(1)
    for job, order in zip(jobs, (schedule, schedule[::-1] if not cached else []), strict=True):
        ids = compiled(job, 0, name=cached)
        if order:
            listed = [f"torch.ops._c10d_functional.{name}.default" for name in order]
            job.artifact("inductor_collective_schedule", json.dumps(listed), **ids)
    found = words(trace_of(project, ranks(tmp_path, *jobs)))
    expected = ["2 collectives, number 1 is all_reduce", "2 collectives, number 1 is all_gather_into_tensor"]
    assert found == ([("collectives", 1, expected)] if differ else [])


def test_a_cache_that_one_rank_missed_is_told_and_is_no_finding(project: Path, tmp_path: Path) -> None:
    first, second = Job(0), Job(1)
    compiled(first, 0, name="fx_graph_cache_miss")
    compiled(second, 0, name="fx_graph_cache_hit")
    folder = ranks(tmp_path, first, second)
    assert words(trace_of(project, folder)) == [
        ("cache", None, ["Inductor's cache: 1 miss", "Inductor's cache: 1 hit"])
    ]
    assert api.check_trace(folder, root=project).findings == ()


def test_a_function_of_one_rank_and_a_truncated_file_are_no_findings(project: Path, tmp_path: Path) -> None:
    first, second = Job(0), Job(1)
    compiled(first, 0)
    folder = ranks(tmp_path, first, second)
    (found,) = trace_of(project, folder).differences
    assert (found.everywhere, found.sides[1].text) == (False, "not compiled")
    compiled(second, 0)
    compiled(second, 1)
    second.text = second.text[:-20]
    folder = ranks(tmp_path, first, second)
    (found,) = trace_of(project, folder).differences
    assert not found.whole
    assert found.sides[1].text == "compiled 2 times (0/0, 0/1), the last without an end"
    assert api.check_trace(folder, root=project).findings == ()


# a timeline


def timeline(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return found


def test_the_timeline_has_the_phases_of_each_compilation_by_rank(recorded: Path) -> None:
    assert run("report", "--trace", "trace", "--timeline", "out.json", "-q") == 0
    found = timeline(recorded / "out.json")
    titles = {each["pid"]: each["args"]["name"] for each in found if each["name"] == "process_name"}
    assert {pid: title.partition(" (")[0] for pid, title in titles.items()} == {0: "rank 0", 1: "rank 1"}
    whole = [(each["pid"], each["name"]) for each in found if each["name"].endswith("models/ranks.py:14)")]
    there = "forward (/job/app/models/ranks.py:14)"
    assert whole == [(0, f"0/0 {there}"), (0, f"0/1 {there}"), (1, f"0/0 {there}")]
    steps = [each for each in found if each["ph"] == "X"]
    for pid in (0, 1):
        assert {each["cat"] for each in steps if each["pid"] == pid} == {
            "dynamo", "aot_autograd", "inductor", "kernels",
        }  # fmt: skip
    assert min(each["ts"] for each in steps) == 0
    assert not any("unfinished" in each["args"] for each in steps)
    assert {each["name"] for each in found if each["ph"] == "i"} >= {"fx_graph_cache_miss", "autograd_cache_miss"}


def test_each_step_lies_within_the_one_that_holds_it(recorded: Path) -> None:
    api.save_timeline("trace", "out.json", root=recorded)
    steps = [each for each in timeline(recorded / "out.json") if each["ph"] == "X"]
    lanes = {(each["pid"], each["tid"]) for each in steps}
    assert (0, 1) in lanes  # a thread compiled beside
    for lane in lanes:
        ends: list[float] = []
        for each in (step for step in steps if (step["pid"], step["tid"]) == lane):
            while ends and each["ts"] >= ends[-1]:
                ends.pop()
            assert not ends or each["ts"] + each["dur"] <= ends[-1] + 0.01
            ends.append(each["ts"] + each["dur"])


def test_a_step_without_an_end_lasts_until_the_end_of_the_file(recorded: Path) -> None:
    (path,) = (recorded / "trace").glob("*_rank_1_*")
    text = gzip.decompress(path.read_bytes()).decode()
    (recorded / "cut.log").write_text(text[: text.index('"name": "inductor_compile",')])
    api.save_timeline("cut.log", "out.json", root=recorded)
    open_ = [each for each in timeline(recorded / "out.json") if each.get("args", {}).get("unfinished")]
    assert open_[0]["cat"] == "dynamo"
    assert {each["cat"] for each in open_} >= {"dynamo", "aot_autograd"}


def test_without_steps_the_rows_of_metrics_make_the_timeline(project: Path, tmp_path: Path) -> None:
    job = Job()
    compiled(job, 0, compile_id="0/0", start_time_us=5_000_000, duration_us=400)
    compiled(job, 1, compile_id="0/1", start_time_us=5_000_900, duration_us=100)
    api.save_timeline(str(job.written(tmp_path / "trace")), "out.json", root=project)
    steps = [each for each in timeline(project / "out.json") if each["ph"] == "X"]
    assert [(each["ts"], each["dur"]) for each in steps] == [(0, 400), (900, 100)]
    assert steps[1]["name"] == f"0/1 forward ({PATH}:{FORWARD})"


def test_a_timeline_that_cannot_be_made_or_written_is_refused_in_one_line(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job()
    compiled(job, 0)
    folder = job.written(tmp_path / "trace")
    (file,) = folder.iterdir()
    before = file.read_bytes()
    for given, said in (
        (("--trace", str(folder), "--timeline", "out.json"), "no compilation with a time"),
        (("--trace", str(folder), "--timeline", "missing/out.json"), "does not exist"),
        (("--trace", str(folder), "--timeline", str(file)), "is what is to be read"),
        (("--timeline", "out.json", "report.json"), "add --trace"),
    ):
        assert run("report", *given) == 2
        assert said in " ".join(capsys.readouterr().err.split())
    assert not (project / "out.json").exists()
    assert file.read_bytes() == before


@pytest.mark.parametrize("text", ["[]", "{", '{"ph": "E", "name": "x", "ts": 1}', '{"ph": "B", "ts": "now"}', "{}"])
def test_steps_of_any_shape_are_survived(text: str, project: Path, tmp_path: Path) -> None:
    job = Job()
    job.add({"chromium_event": {}}, text)
    compiled(job, 0, start_time_us=5, duration_us=4)
    api.save_timeline(str(job.written(tmp_path / "trace")), "out.json", root=project)
    assert [each["ts"] for each in timeline(project / "out.json") if each["ph"] == "X"] == [0]


# kernels


def kernels(trace: Trace) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in trace.kernels:
        found.setdefault(each.name, []).extend(f"{frame.path}:{frame.line}" for frame in each.lines)
    return found


def test_the_recorded_kernels_have_the_lines_that_they_compute(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = kernels(trace_of(recorded, "trace"))
    assert found["cpp_fused_all_reduce_mul_relu_0"] == ["models/ranks.py:16", "models/ranks.py:15"]
    assert found["extern_kernels.addmm"] == ["models/ranks.py:15"]
    assert run("report", "--trace", "trace", "-v", "--html", "page.html") == 0
    assert "cpp_fused_all_reduce_sin_1: models/ranks.py:18" in " ".join(capsys.readouterr().out.split())
    assert "<code>cpp_fused_all_reduce_sin_1</code>" in (recorded / "page.html").read_text()


def test_without_tracebacks_the_nodes_of_the_graph_name_the_lines(recorded: Path) -> None:
    """Older versions of torch write which nodes each kernel computes, and nothing more."""
    with_stacks = kernels(trace_of(recorded, "trace"))
    for path in (recorded / "trace").iterdir():
        text = gzip.decompress(path.read_bytes())
        path.write_bytes(gzip.compress(text.replace(b"tracking_kernel_stack_traces", b"another_artifact")))
    found = kernels(trace_of(recorded, "trace"))
    assert found.keys() == with_stacks.keys()
    assert set(found["cpp_fused_add_mul_2"]) == set(with_stacks["cpp_fused_add_mul_2"]) != set()


def test_nodes_of_the_oldest_form_are_read_too(project: Path, tmp_path: Path) -> None:
    job = Job()
    compiled(job, 0, name="inductor_triton_kernel_to_post_grad_nodes", text='{"triton_poi_fused_0": ["y"]}')
    assert kernels(trace_of(project, str(job.written(tmp_path / "trace")))) == {"triton_poi_fused_0": ["net.py:7"]}


@pytest.mark.parametrize("text", ["[]", "{", '{"k": 1}', '{"k": [1]}', '{"cppCodeToPost": [3], "postToPre": 3}'])
@pytest.mark.parametrize(
    "name",
    [
        "inductor_provenance_tracking_kernel_stack_traces",
        "inductor_provenance_tracking_node_mappings",
        "inductor_collective_schedule",
    ],
)
def test_artifacts_of_any_shape_are_survived(name: str, text: str, project: Path, tmp_path: Path) -> None:
    job = Job()
    compiled(job, 0, name=name, text=text)
    assert trace_of(project, str(job.written(tmp_path / "trace"))).kernels == ()


# the folders of tlparse


def test_the_copies_in_the_folders_of_tlparse_are_the_trace(recorded: Path) -> None:
    expected = trace_of(recorded, "trace")
    for path in (recorded / "trace").iterdir():
        folder = recorded / "tl_out" / f"rank_{'0' if '_rank_0_' in path.name else '1'}"
        folder.mkdir(parents=True)
        (folder / "compile_directory.json").write_text("{}")
        (folder / "raw.log").write_bytes(gzip.decompress(path.read_bytes()))
        (folder / "inductor_output_code_1.txt").write_text("V1123 is no event\n")
    found = trace_of(recorded, "tl_out")
    assert [(each.file, each.rank) for each in found.processes] == [("rank_0/raw.log", 0), ("rank_1/raw.log", 1)]
    assert (found.differences, found.kernels, found.seconds) == (
        expected.differences, expected.kernels, expected.seconds,
    )  # fmt: skip


@pytest.mark.parametrize("left", [None, "not a trace\n"])
def test_a_folder_of_tlparse_without_the_trace_says_what_to_name(left: str | None, project: Path) -> None:
    folder = project / "tl_out"
    folder.mkdir()
    (folder / "compile_directory.json").write_text("{}")
    if left is not None:
        (folder / "raw.log").write_text(left)
    with pytest.raises(TcreadyError, match=r"written by tlparse, .*under TORCH_TRACE"):
        read(["tl_out"], project)
