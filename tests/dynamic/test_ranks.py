"""What several processes show of one model, rank by rank, with real gloo; and how what they left is put together."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import jsonschema
import pytest
import torch
from observing import observe_target, report_of
from tcready import api
from tcready.dynamic.ranks import Left, combine_ranks, describe_places, first_dead, left_in
from tcready.dynamic.worker.core.request import RankGraph, RankOperation, State, graphs_path, write_json
from tcready.schema.code_line import Frame
from tcready.schema.codec import as_json, from_json
from tcready.schema.enums import STAGES, StageName, TcreadyError
from tcready.schema.observation import Observation, Stage
from tcready.schema.report import Report
from tcready.schema.run import BreakSite

ROOT = Path(__file__).resolve().parents[2]
SEVERAL = ROOT / "fixtures" / "several"
SCHEMAS = [
    json.loads(path.read_text("utf-8"))
    for path in (ROOT / "docs" / "schema" / "report.schema.json", ROOT / "fixtures" / "report.schema.json")
]
gloo = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.platform != "linux", reason="torchrun and its children are watched through /proc"),
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed"),
]
SOURCE = (SEVERAL / "models.py").read_text("utf-8").splitlines()


def line(text: str, after: str = "") -> int:
    """The number of the first line of the models that is this one, behind the line `after`."""
    start = SOURCE.index(after) if after else 0
    return next(number for number in range(start + 1, len(SOURCE) + 1) if SOURCE[number - 1].strip() == text)


def run(name: str, **options: object) -> Observation:
    return observe_target(
        f"models.py::{name}", root=str(SEVERAL), inputs="models.py::get_inputs", processes=2, **options
    )


def state_of(seen: Observation, name: StageName) -> str:
    return next(stage.state for stage in seen.stages if stage.stage == name)


def detail_of(seen: Observation, name: StageName) -> str:
    return next(stage.detail for stage in seen.stages if stage.stage == name)


def checked(report: Report) -> str:
    """The page, once the JSON has satisfied both contracts and came back the same."""
    shown = json.loads(api.render(report, "json"))
    for schema in SCHEMAS:
        jsonschema.validate(shown, schema)
    assert from_json(Report, shown).targets[0].observation.parallel == report.targets[0].observation.parallel
    return api.render(report, "html")


@pytest.fixture(scope="module", name="seen")
def sharded() -> Observation:
    """One run for all that is asked of FSDP2."""
    return run("Uneven", parallel="fsdp")


class TestSharded:
    pytestmark = gloo

    def test_each_rank_and_each_block(self, seen: Observation) -> None:
        assert [stage.detail for stage in seen.stages if stage.state == "fail"] == []
        assert seen.parallel is not None
        assert seen.parallel.kind == "fsdp"
        assert seen.parallel.sharded == ("blocks.0", "blocks.1")
        assert [rank.rank for rank in seen.parallel.ranks] == [0, 1]
        for rank in seen.parallel.ranks:
            assert (rank.state, rank.graphs, rank.breaks, rank.recompiles) == ("pass", 1, (), ())
            assert rank.blocks is not None
            assert (rank.blocks.state, rank.blocks.graphs, rank.blocks.breaks) == ("pass", 1, ())
            # two operations of the head run outside of graphs, whichever way; what FSDP does for itself is not counted
            operations = 14 if rank.rank == 0 else 12
            assert rank.share == rank.blocks.share == operations / (operations + 2)

    def test_its_hooks_are_no_break_of_the_code(self, seen: Observation) -> None:
        assert seen.parallel is not None
        call = Frame("models.py", line("x = block(x)"), "Net.forward")
        assert seen.parallel.hooks == (call,)
        (finding,) = [each for each in report_of(seen).findings if each.line == call.line]
        assert (finding.name, finding.effect, finding.level) == ("fsdp-hooks", "intent", "note")
        assert "1 break site (of FSDP's hooks, skipping 1 frame)" in report_of(seen).targets[0].verdict_reason

    def test_the_line_that_one_rank_alone_has(self, seen: Observation) -> None:
        assert seen.parallel is not None
        (found,) = seen.parallel.differences
        wanted = Frame("models.py", line("x = x * 2"), "UnevenBlock.forward")
        assert (found.graph, found.collectives, found.place) == (1, False, wanted)
        assert [side.text for side in found.sides] == ["_operator.mul float32[2, 16]", "the graph ends"]
        (finding,) = [each for each in report_of(seen).findings if each.name == "ranks-differ"]
        assert (finding.path, finding.line, finding.level) == ("models.py", wanted.line, "warning")

    def test_text_and_page(self, seen: Observation) -> None:
        report = report_of(seen)
        page = checked(report)
        for text in (api.render(report, "text", width=200), api.render(report, "text", width=200, verbose=True)):
            assert "FSDP2: sharded by themselves are blocks.0, blocks.1" in text
            assert "block by block: 1 graph, 86 % of the operations in them, no break, no recompile" in text
            assert "deliberate, no break of your code" in text
            assert f"graph 1 (models.py:{line('x = x * 2')} UnevenBlock.forward): rank 0: _operator.mul" in text
        assert "The ranks compile different graphs:" in page
        assert "Block by block" in page


class TestPlan:
    pytestmark = gloo

    def test_the_models_own_plan(self) -> None:
        seen = run("Plan", parallel="tp")
        assert [stage.detail for stage in seen.stages if stage.state == "fail"] == []
        found = seen.parallel
        assert found is not None
        assert found.plan == (("blocks.*.up", "ColwiseParallel"), ("blocks.*.down", "RowwiseParallel"))
        assert found.sharded == ("blocks.0.up", "blocks.0.down", "blocks.1.up", "blocks.1.down")
        assert [(rank.state, rank.graphs, rank.breaks, rank.share) for rank in found.ranks] == [
            ("pass", 1, (), 1.0)
        ] * 2
        assert found.differences == ()
        report = report_of(seen)
        assert report.targets[0].verdict == "ready"
        assert "tensor parallel, by the model&#39;s own: blocks.*.up ColwiseParallel" in checked(report)


class TestCollectivesThatDiffer:
    pytestmark = gloo

    @pytest.mark.release
    def test_a_rank_that_dies_of_them(self) -> None:
        """Eager code is as it should be; compiled, the ranks send different sizes."""
        seen = run("Apart", timeout=120)
        assert state_of(seen, "eager") == "pass"
        (failed,) = [stage for stage in seen.stages if stage.state == "fail"]
        assert (failed.stage, failed.reason) == ("capture", "mismatch")
        assert "ranks compile different collectives" in failed.detail
        assert seen.parallel is not None
        (found,) = seen.parallel.differences
        assert found.collectives
        assert found.place == Frame("models.py", line("total = total[:8]"), "Apart.forward")
        assert {rank.state for rank in seen.parallel.ranks} == {"fail"}
        report = report_of(seen)
        assert report.targets[0].verdict == "not_ready"
        assert api.exit_code(report) == 1
        (finding,) = [each for each in report.findings if each.name == "ranks-differ"]
        assert (finding.effect, finding.level, finding.line) == ("compile_error", "error", found.place.line)


class TestARankThatDies:
    pytestmark = gloo

    def test_the_stage_that_failed_is_the_one_it_was_in(self, tmp_path: Path) -> None:
        """The first rank, which observes for all, is still building the model then."""
        (tmp_path / "model.py").write_text(
            dedent("""\
                import os, signal, time
                from torch import nn, ones
                class Net(nn.Module):
                    def __init__(self):
                        super().__init__()
                        if os.environ.get('RANK') == '0':
                            time.sleep(60)
                    def forward(self, x):
                        if os.environ.get('RANK') == '1':
                            os.kill(os.getpid(), signal.SIGKILL)
                        return x
                def get_inputs():
                    return [ones(2)]
            """)
        )
        seen = observe_target(
            "model.py::Net", root=str(tmp_path), inputs="model.py::get_inputs", processes=2, timeout=90
        )
        failed = [(stage.stage, stage.reason, stage.detail) for stage in seen.stages if stage.state == "fail"]
        assert failed == [("eager", "crash", "rank 1 died by SIGKILL")]
        assert [state_of(seen, name) for name in ("import", "build")] == ["pass", "pass"]

    def test_a_rank_that_ends_without_an_error(self) -> None:
        """The agent names the first rank alone, which failed since the other one was gone."""
        seen = run("Leaves")
        failed = [(stage.stage, stage.reason, stage.detail) for stage in seen.stages if stage.state == "fail"]
        assert failed[0][:2] == ("eager", "exit")
        assert failed[0][2].startswith("rank 1 exited with code 0; then RuntimeError: ")


class TestABreakOfOneRank:
    pytestmark = gloo

    def test_the_whole_graph_is_asked_of_no_rank(self) -> None:
        seen = run("Prints")
        assert seen.parallel is not None
        assert [len(rank.breaks) for rank in seen.parallel.ranks] == [0, 1]
        assert [stage.detail for stage in seen.stages if stage.state == "fail"] == []
        assert (state_of(seen, "fullgraph"), state_of(seen, "parity")) == ("not_run", "pass")
        assert detail_of(seen, "fullgraph").startswith("the default run of another rank has breaks")


class TestRanksThatSendSomethingElse:
    pytestmark = gloo

    def test_the_same_collectives_of_other_operations(self) -> None:
        """They do not hang: what is wrong are the sums."""
        seen = run("Crossed")
        assert seen.parallel is not None
        (found,) = seen.parallel.differences
        send = Frame("models.py", line("distributed.all_reduce(first)"), "Crossed.forward")
        assert (found.collectives, found.place) == (False, send)
        taken = [side.text.partition("all_reduce float32[16] of ")[2] for side in found.sides]
        assert taken == ["sum float32[16]", "mean float32[16]"]
        assert (state_of(seen, "capture"), state_of(seen, "parity")) == ("pass", "fail")


class TestAPlanThatIsNone:
    pytestmark = gloo

    def test_what_is_said_of_it(self) -> None:
        seen = run("Net", parallel="tp", tp_plan="models.py::wrong_styles")
        text = api.render(report_of(seen), "text", width=240)
        why = "--parallel tp: blocks.*.up: an object of type object is no style of torch's"
        assert f"build has to pass: {why}; it stands in that of --tp-plan\n" in text
        assert "shared by      tensor parallel\n" in text


# What ranks left, put together


def observation(**stages: str) -> Observation:
    every = tuple(
        Stage(
            name,
            stages.get(name, "pass"),  # type: ignore[arg-type]
            f"{name} went wrong" if name in stages else "",
            reason="error" if name in stages else None,
        )
        for name in STAGES
    )
    return Observation("model.py::Net", None, "infer", every, None)


def operation(text: str, number: int | None = None, collective: bool = False) -> RankOperation:
    place = Frame("model.py", number, "Net.forward") if number is not None else None
    return RankOperation(text, place, collective)


def left(
    rank: int, *graphs: tuple[RankOperation, ...], seen: Observation | None = None, doing: StageName | None = None
) -> Left:
    state = State(doing, "", seen or observation())
    return Left(rank, state, tuple(RankGraph(None, graph) for graph in graphs), None)


NONE_ENDED: Mapping[int, int] = {}


def put(*ranks: Left, ended: str = "", exits: Mapping[int, int] = NONE_ENDED) -> Observation:
    first = ranks[0].state
    assert first is not None
    reason = "timeout" if ended else None
    return combine_ranks(first.observation, ranks, ended, reason, lambda _: "own", "ddp", exits)


LINEAR, RELU = operation("linear float32[2, 4]", 3), operation("relu float32[2, 4]", 4)


def test_ranks_that_compile_the_same_do_not_differ() -> None:
    seen = put(left(0, (LINEAR, RELU), (RELU,)), left(1, (LINEAR, RELU), (RELU,)))
    assert seen.parallel is not None
    assert seen.parallel.differences == ()
    elsewhere = operation("relu float32[2, 4]", 9)
    seen = put(left(0, (LINEAR, RELU)), left(1, (LINEAR, elsewhere)))
    assert seen.parallel is not None
    assert seen.parallel.differences == (), "the same operation of another line is the same graph"


def test_ranks_that_do_the_same_with_something_else() -> None:
    one, other = (RankOperation("relu float32[2, 4]", RELU.place, inputs=inputs) for inputs in ((0,), ()))
    seen = put(left(0, (LINEAR, one)), left(1, (LINEAR, one)))
    assert seen.parallel is not None
    assert seen.parallel.differences == ()
    seen = put(left(0, (LINEAR, one)), left(1, (LINEAR, other)))
    assert seen.parallel is not None
    (found,) = seen.parallel.differences
    words = "rank 0: relu float32[2, 4] of linear float32[2, 4] (model.py:4); rank 1: relu float32[2, 4] of an input (model.py:4)"
    assert found.words() == words
    assert not found.collectives


def test_the_rank_that_does_more_is_named_whichever_it_is() -> None:
    for more in (0, 1):
        graphs = [(LINEAR, RELU), (LINEAR, RELU)]
        graphs[more] = (LINEAR, operation("mul float32[2, 4]", 7), RELU)
        seen = put(left(0, graphs[0]), left(1, graphs[1]))
        assert seen.parallel is not None
        (found,) = seen.parallel.differences
        assert found.place == Frame("model.py", 7, "Net.forward"), more
        assert not found.collectives
        assert state_of(seen, "capture") == "pass"


def test_a_shape_that_follows_from_the_rank() -> None:
    one, other = operation("getitem float32[1, 4]", 5), operation("getitem float32[2, 4]", 5)
    seen = put(left(0, (one, RELU)), left(1, (other, RELU)))
    assert seen.parallel is not None
    (found,) = seen.parallel.differences
    assert found.words() == "rank 0: getitem float32[1, 4] (model.py:5); rank 1: getitem float32[2, 4] (model.py:5)"


def test_a_graph_that_one_rank_alone_compiles() -> None:
    """It counts if both came to their end; a rank that was ended before may have been about to compile it."""
    sent = operation("_c10d_functional.all_reduce float32[4]", 8, collective=True)
    seen = put(left(0, (LINEAR,), (sent,)), left(1, (LINEAR,)))
    assert seen.parallel is not None
    (found,) = seen.parallel.differences
    assert (found.graph, found.collectives, found.place) == (2, True, Frame("model.py", 8, "Net.forward"))
    assert [side.text for side in found.sides] == [sent.text, "no such graph"]
    capture = next(stage for stage in seen.stages if stage.stage == "capture")
    assert (capture.state, capture.reason) == ("fail", "mismatch")
    ended = observation(capture="not_run")
    seen = put(left(0, (LINEAR,), (sent,)), left(1, (LINEAR,), seen=ended, doing="capture"), ended="no answer")
    assert seen.parallel is not None
    assert seen.parallel.differences == ()


def test_a_rank_that_fails_or_is_ended_after_the_first_one_passed() -> None:
    seen = put(left(0), left(1, seen=observation(parity="fail")))
    parity = next(stage for stage in seen.stages if stage.stage == "parity")
    assert (parity.state, parity.detail) == ("fail", "on rank 1: parity went wrong")
    seen = put(left(0), left(1, seen=observation(backend="not_run"), doing="backend"), ended="no answer in 9 s")
    backend = next(stage for stage in seen.stages if stage.stage == "backend")
    assert (backend.state, backend.detail, backend.reason) == ("fail", "on rank 1: no answer in 9 s", "timeout")
    assert report_of(seen).targets[0].verdict == "unknown"


def test_a_rank_that_ended_is_named_and_not_the_one_that_waited_for_it() -> None:
    gone = left(1, seen=observation(eager="not_run"), doing="eager")
    seen = put(left(0), gone, ended="rank 0 exited with code 1", exits={0: 1})
    assert detail_of(seen, "eager") == "rank 1 exited with code 0"
    seen = put(left(0), gone, ended="rank 1 exited with code 3", exits={0: -15, 1: 3})
    assert detail_of(seen, "eager") == "rank 1 exited with code 3"
    seen = put(left(0), gone, ended="rank 0 died by SIGKILL", exits={0: -9, 1: -15})
    assert detail_of(seen, "eager") == "rank 1 was stopped, since rank 0 died by SIGKILL"
    failed = left(0, seen=observation(eager="fail"))
    seen = put(failed, gone, ended="rank 0 exited with code 1", exits={0: 1})
    assert detail_of(seen, "eager") == "rank 1 exited with code 0; then eager went wrong"


def test_a_stage_that_another_rank_did_not_run_is_no_pass() -> None:
    seen = put(left(0), left(1, seen=observation(fullgraph="not_run")))
    assert state_of(seen, "fullgraph") == "not_run"
    assert detail_of(seen, "fullgraph") == "on rank 1: fullgraph went wrong"
    assert state_of(put(left(0, seen=observation(fullgraph="fail")), left(1)), "fullgraph") == "fail"


def test_a_break_of_another_rank_is_one_of_the_run() -> None:
    site = BreakSite("model.py", 9, "Net.forward", "print", None, 1, "own", ())
    seen = put(left(0), left(1, seen=replace(observation(), break_sites=(site,))))
    assert seen.break_sites == (site,)
    assert seen.parallel is not None
    assert [rank.breaks for rank in seen.parallel.ranks] == [(), (Frame("model.py", 9, "Net.forward"),)]


def test_a_rank_that_left_nothing(tmp_path: Path) -> None:
    write_json(str(tmp_path / "state.json"), State(None, "", observation()))
    graph = json.dumps(as_json(RankGraph(None, (LINEAR,))))
    Path(graphs_path(str(tmp_path / "state.json"))).write_text(f"{graph}\n{graph[:20]}")
    found = left_in(tmp_path, 2, {"": None, ".rank1": None})
    assert found[0].graphs == (RankGraph(None, (LINEAR,)),), "a line cut short is passed by"
    seen = put(*found, ended="the process exited with code 1")
    assert seen.parallel is not None
    assert [rank.state for rank in seen.parallel.ranks] == ["pass", "fail"]
    assert state_of(seen, "capture") == "fail"


def test_where_ranks_stood() -> None:
    assert describe_places([(0, "model.py:3"), (1, "model.py:3")]) == "at model.py:3"
    assert describe_places([(0, "model.py:3"), (1, "model.py:7")]) == "rank 0 at model.py:3, rank 1 at model.py:7"
    assert describe_places([(0, None), (1, "model.py:7")]) == "rank 1 at model.py:7"
    assert describe_places([(0, None), (1, None)]) == ""


def test_who_died_first() -> None:
    """As `torch.distributed.run` of torch 2.13 prints it; the root cause need not be the rank that was killed."""
    printed = dedent("""\
            Failures:
            [1]:
              time      : 2026-01-01_00:00:00
              host      : here
              rank      : 1 (local_rank: 1)
              exitcode  : -9 (pid: 12)
              error_file: <N/A>
              traceback : Signal 9 (SIGKILL) received by PID 12
            ------
            Root Cause (first observed failure):
            [0]:
              time      : 2026-01-01_00:00:00
              host      : here
              rank      : 0 (local_rank: 0)
              exitcode  : 1 (pid: 11)
              error_file: <N/A>
        """)
    assert first_dead(printed) == (1, -9)
    assert first_dead(printed.replace(": -9", ": -15")) == (0, 1)
    assert first_dead("no such table") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parallel": "fsdp"}, "--parallel fsdp: add the number of processes, as in --nproc-per-node 2"),
        ({"nproc_per_node": 2, "tp_plan": "models.py::styles"}, "--tp-plan models.py::styles: requires --parallel tp"),
        (
            {"nproc_per_node": 2, "parallel": "tp", "tp_plan": "nowhere.py::plan"},
            "--tp-plan nowhere.py::plan: there is no file nowhere.py",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(TcreadyError, match=message):
        api.check("models.py::Net", root=SEVERAL, inputs="models.py::get_inputs", **options)  # type: ignore[arg-type]
