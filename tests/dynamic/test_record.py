"""What a run under the real Dynamo shows, model by model. A launch costs seconds: one run, many assertions."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from observing import observe_target, torch_between
from tcready.schema.code_line import Frame
from tcready.schema.codec import as_json, from_json
from tcready.schema.enums import STAGES
from tcready.schema.observation import Observation, Stage

pytestmark = pytest.mark.torch

Watch = Callable[..., Observation]

MODELS = """\
import copy
import torch
from torch import nn


class Loop(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            print("seen")  # breaks
        return x


class Clean(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return {"out": self.head(self.body(x)), "in": x}


def inner(x):
    if x.sum() > 0:  # deep
        x = x + 1
    return x * 2


def middle(x):
    return inner(x + 1) * 3  # calls inner


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        x = self.head(x)
        x = middle(x)  # calls middle
        return x - 1


class Scored(nn.Module):
    def __init__(self):
        super().__init__()
        self.loss = nn.GaussianNLLLoss()

    def forward(self, x):
        return self.loss(x, x * 2, x.abs())  # in torch


class Chained(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        print("seen")  # goes on behind it
        x = torch.cat(
            (x.repeat(
                2, 1).permute(
                1, 0), x.repeat(
                2, 1).permute(
                1, 0)), dim=1)
        x = self.head(x.reshape(-1, 4))
        if x.sum() > 0:  # far behind
            x = x + 1
        return x


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.scored = Scored()

    def forward(self, x):
        return self.scored(x + 1)  # calls scored


class Copies(nn.Module):
    def forward(self, x):
        return copy.deepcopy(x) + 1  # copies


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1  # counts
        return x * 2


class Appends(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append(1)  # appends
        return x * 2


def numbers(x):  # generates
    for i in range(3):
        yield x + i


class Generates(nn.Module):
    def forward(self, x):
        torch._dynamo.graph_break()
        total = x
        for item in numbers(x):
            torch._dynamo.graph_break()  # in the loop
            total = total + item
        return total


class Raises(nn.Module):
    def forward(self, x):
        try:
            y = x.view(3, 1000)  # raises
        except RuntimeError:
            y = x
        return y + 1


class Train(nn.Module):
    def forward(self, x):
        if self.training:
            return x * 2  # trains
        return x * 3  # evaluates


class Draws(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x):
        x += torch.randn_like(x)  # the inputs change, too
        return self.drop(x) * self.weight


def example():
    return torch.ones(2, 4)
"""


def line_of(mark: str) -> int:
    return next(n for n, line in enumerate(MODELS.splitlines(), 1) if line.endswith(f"# {mark}"))


def marked(mark: str, within: str) -> int:
    """The line with the mark that stands below `class within`."""
    lines = MODELS.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"class {within}"))
    return next(n for n, line in enumerate(lines, 1) if n > start and line.endswith(f"# {mark}"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    (root / "model.py").write_text(MODELS)
    return root


@pytest.fixture(scope="module")
def watch(folder: Path) -> Watch:
    def run(name: str, **options: object) -> Observation:
        settings: dict[str, object] = {"inputs": "model.py::example", "root": str(folder)}
        return observe_target(f"model.py::{name}", **(settings | options))

    return run


def stage(seen: Observation, name: str) -> Stage:
    return next(item for item in seen.stages if item.stage == name)


def lines(sets: tuple[object, ...], path: str = "model.py") -> set[int]:
    found: set[int] = set()
    for item in sets:
        if item.path == path:  # type: ignore[attr-defined]
            for first, last in item.ranges:  # type: ignore[attr-defined]
                found |= set(range(first, last + 1))
    return found


def test_loop_that_prints_is_told_where_explain_says_nothing(watch: Watch) -> None:
    seen = watch("Loop")
    assert seen.explain is not None
    assert (seen.explain.graph_count, seen.explain.graph_break_count, seen.explain.reasons) == (0, -1, ())
    (site,) = seen.break_sites
    assert (site.path, site.line, site.symbol) == ("model.py", marked("breaks", "Loop"), "Loop.forward")
    assert (site.action, site.origin, site.hits) == ("skip_frame", "own", 1)
    assert site.gb_id == site.gb_ids[0]
    assert len(site.gb_ids) == 2, "the print, then the loop around it"
    assert "print" in site.reason
    assert "\n" not in site.reason
    assert any("reorderable_logging_functions" in hint for hint in site.hints)
    (skipped,) = [frame for frame in seen.skipped_frames if not frame.benign]
    assert (skipped.path, skipped.symbol) == ("model.py", "Loop.forward")
    assert skipped.line < site.line <= (skipped.end_line or 0)
    assert seen.coverage is not None
    assert seen.coverage.share == 0
    assert seen.coverage.ops_total > 3
    assert seen.graphs == ()
    assert stage(seen, "fullgraph") == Stage(
        "fullgraph", "not_run", "the default run has breaks (--fullgraph tries all the same)", reason="not_asked"
    )
    assert stage(seen, "parity").state == "pass"


def test_clean_model_passes_every_stage_that_runs(watch: Watch) -> None:
    seen = watch("Clean")
    assert [item.stage for item in seen.stages] == list(STAGES)
    assert {item.stage for item in seen.stages if item.state == "pass"} == set(STAGES) - {
        *("shapes", "plan", "backend", "speed")
    }
    assert stage(seen, "backend") == Stage("backend", "not_run", "not asked for", reason="not_asked")
    assert (seen.break_sites, seen.recompiles, seen.warnings) == ((), (), ())
    assert seen.coverage is not None
    assert (seen.coverage.share, seen.coverage.ops_total) == (1.0, seen.coverage.ops_captured)
    (graph,) = seen.graphs
    assert (graph.compile_id, graph.path, graph.symbol, graph.phase) == (
        "0/0",
        "model.py",
        "Clean.forward",
        "inference",
    )
    assert graph.ops == 3
    assert (graph.guards or 0) > 0
    shares = {share.name: share for share in seen.modules}
    assert list(shares) == ["", "body", "body.0", "body.1", "head"]
    assert (shares[""].type, shares[""].path) == ("Clean", "model.py")
    assert MODELS.splitlines()[(shares[""].line or 0) - 1].strip() == "def forward(self, x):"
    assert shares["body"].path is None
    total = seen.coverage.ops_total
    assert (shares[""].ops, shares[""].ops_captured, shares[""].ops_self) == (total, total, 0)
    assert shares["body.1"].ops == shares["body.1"].ops_captured == shares["body.1"].ops_self == 1
    assert (shares["body"].ops or 0) + (shares["head"].ops or 0) == total
    assert shares["body"].ops_captured == shares["body"].ops
    assert seen.environment is not None
    assert seen.environment["torch"].startswith("2.")
    assert dict(seen.sources)["model.py"].endswith("model.py")
    assert from_json(Observation, as_json(seen)) == seen


@torch_between((2, 12), (3, 0), "torch 2.11 logs the line of the break alone")
def test_break_two_calls_deep_is_one_site_with_its_callers(watch: Watch) -> None:
    seen = watch("Deep")
    (site,) = seen.break_sites
    assert (site.gb_id, site.action) == ("GB0170", "resume")
    assert site.reason.startswith("Data-dependent branching")
    assert site.stack == (
        Frame("model.py", line_of("calls middle"), "Deep.forward"),
        Frame("model.py", line_of("calls inner"), "middle"),
        Frame("model.py", line_of("deep"), "inner"),
    )
    assert (site.line, site.symbol) == (line_of("deep"), "inner")
    assert site.hits > 1, "each enclosing frame tries again"
    assert len(seen.graphs) > 3
    assert seen.coverage is not None
    assert 0 < seen.coverage.share < 1


def test_lines_of_resumed_functions_are_those_of_the_source(watch: Watch) -> None:
    """Dynamo's own are off behind calls of methods whose object stands on an earlier line (torch 2.13, Python 3.11)."""
    seen = watch("Chained")
    assert [site.line for site in seen.break_sites] == [line_of("goes on behind it"), line_of("far behind")]


@torch_between((2, 13), (3, 0), "what 2.11 logs of such a stack was not looked at")
def test_a_break_in_a_module_of_torch_is_one_of_the_call_and_no_forward_is_lost(watch: Watch) -> None:
    seen = watch("Scores")
    (site,) = seen.break_sites
    assert (site.path, site.line, site.origin) == ("model.py", line_of("in torch"), "own")
    assert [(frame.line, frame.symbol) for frame in site.stack[:2]] == [
        (line_of("calls scored"), "Scores.forward"),
        (line_of("in torch"), "Scored.forward"),
    ]
    assert site.stack[2].path.endswith("torch/nn/modules/loss.py")


@torch_between((2, 13), (3, 0), "torch 2.11 logs the calling line alone")
@pytest.mark.release
def test_break_inside_the_standard_library_is_told_at_the_calling_line(watch: Watch) -> None:
    seen = watch("Copies")
    (site,) = seen.break_sites
    assert (site.path, site.line, site.symbol) == ("model.py", line_of("copies"), "Copies.forward")
    assert site.stack[0] == Frame("model.py", line_of("copies"), "Copies.forward")
    assert site.stack[-1].path.endswith("copy.py"), "the true innermost frame is kept"
    assert site.stack[-1].symbol == "deepcopy"


@pytest.mark.parametrize(
    ("name", "mark", "guard"), [("Steps", "counts", "self.step == 0"), ("Appends", "appends", "self.seen")]
)
def test_recompile_on_identical_calls(watch: Watch, name: str, mark: str, guard: str) -> None:
    seen = watch(name)
    (recompile,) = seen.recompiles
    assert recompile.identical_call
    assert (recompile.path, recompile.symbol) == ("model.py", f"{name}.forward")
    assert len(recompile.reasons) > 1, "what failed for every cached entry, not for the last alone"
    assert any(guard in reason for reason in recompile.reasons)
    assert line_of(mark) in {frame.line for frame in recompile.lines}
    assert seen.break_sites == ()


def test_frame_given_up_without_a_word_is_a_site(watch: Watch) -> None:
    seen = watch("Generates")
    unlogged = [site for site in seen.break_sites if site.action == "skip_frame_unlogged"]
    assert [(site.line, site.symbol) for site in unlogged] == [(line_of("generates"), "numbers")]
    assert "generator" in unlogged[0].reason
    loops = [site for site in seen.break_sites if site.line == line_of("in the loop")]
    assert len(loops) == 1
    assert any(frame.symbol == "numbers" and not frame.benign for frame in seen.skipped_frames)


@torch_between((2, 8), (2, 13), "torch 2.14 compiles the `except` as eager runs it")
def test_compiled_code_that_raises_where_eager_does_not_fails_capture(watch: Watch) -> None:
    seen = watch("Raises")
    assert stage(seen, "eager").state == "pass"
    capture = stage(seen, "capture")
    assert capture.state == "fail"
    assert f"model.py:{line_of('raises')}" in capture.detail
    assert "\n" not in capture.detail
    assert stage(seen, "parity") == Stage("parity", "not_run", "an earlier stage failed", reason="earlier_stage")


def test_mode_decides_which_lines_run_and_are_traced(watch: Watch) -> None:
    seen = watch("Train", mode="train")
    assert seen.mode == "train"
    for found in (lines(seen.executed), lines(seen.traced)):
        assert line_of("trains") in found
        assert line_of("evaluates") not in found
    assert [graph.phase for graph in seen.graphs] == ["forward"]


@pytest.mark.release
def test_seeds_and_fresh_inputs_make_random_models_comparable(watch: Watch) -> None:
    seen = watch("Draws", mode="train", dtype="float64")
    assert stage(seen, "parity").state == "pass", stage(seen, "parity").detail
    assert seen.recompiles == ()


def test_a_function_is_a_target_too(watch: Watch) -> None:
    seen = watch("middle")
    assert [(site.line, site.symbol) for site in seen.break_sites] == [(line_of("deep"), "inner")]
    assert seen.modules == ()


def test_mark_helpers_find_what_they_should() -> None:
    assert textwrap.dedent(MODELS.splitlines()[line_of("copies") - 1]).startswith("return copy.deepcopy")
