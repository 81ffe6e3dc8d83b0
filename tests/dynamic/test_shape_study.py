"""The shape study under the real Dynamo. A launch costs seconds: one run a model, many assertions."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from observing import observe_target, torch_between
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.plan.shape_advice import rank_trials, spec_code
from tcready.dynamic.worker.plan.shape_axes import candidates, inputs_of, resize_inputs
from tcready.dynamic.worker.torch_internals.compile_calls import takes_dynamic_shapes
from tcready.merge import exit_code, merge
from tcready.reports.html import document
from tcready.reports.markdown import comment as markdown
from tcready.reports.shared.wording import shape_rows
from tcready.reports.text import summary_or_full as text
from tcready.schema.code_line import Frame
from tcready.schema.codec import as_json, from_json
from tcready.schema.observation import Observation, Stage
from tcready.schema.report import Report, Tool
from tcready.schema.run import InputDimension, ShapeAdvice, ShapeCall, ShapeStudy, ShapeTrial
from tcready.schema.static import Finding, StaticResult

pytestmark = pytest.mark.torch

Watch = Callable[..., Observation]

MODELS = """\
import os
import time
import torch
from torch import nn


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(x)


class Loop(nn.Module):
    def forward(self, x):
        y = x * 2
        total = 0
        for i in range(x.shape[0]):  # unrolls
            total = total + y[i]
        return total


class Branch(nn.Module):
    def forward(self, x):
        y = x * 2
        if x.shape[0] > 5:  # branches
            return y
        return y + 1


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(20, 6)
        self.places = nn.Embedding(9, 6)

    def forward(self, ids, mask):
        places = torch.arange(ids.shape[1], device=ids.device)
        return (self.tokens(ids) + self.places(places)) * mask[..., None]


class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 4, 3)

    def forward(self, image):
        return self.body(image).mean((2, 3))


class Graph(nn.Module):
    def forward(self, x, edges, weights):
        return torch.zeros_like(x).index_add_(0, edges[1], x[edges[0]] * weights)


class Appends(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append(1)  # appends
        return x * 2


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []
        self.step = 0

    def forward(self, x):
        self.seen.append(1)  # lists
        self.step += 1  # counts
        return x * 2


class Leaves(nn.Module):
    def forward(self, x):
        if x.shape[0] == 3:
            os._exit(7)
        return x * 2


class Sleeps(nn.Module):
    def forward(self, x):
        if x.shape[0] == 3:
            time.sleep(600)
        return x * 2


class Raises(nn.Module):
    def forward(self, x):
        try:
            y = x.view(2, 4)  # raises
        except RuntimeError:
            y = x
        return y * 2


class Fixed(nn.Module):
    def forward(self, x):
        y = x * 2
        if x.shape[0] == 4:  # compares
            y = y + 1
        return y * len("%d" % x.shape[1])  # formats


class Same(nn.Module):
    edge = 7

    def forward(self, x):  # differs
        y = x * 2
        return y + 1 if x.shape[0] is self.edge else y


class Prints(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        y = self.head(x)
        if x.shape[0] > 6:
            print("many")  # prints
        return y * 2


class Grows(nn.Module):
    def forward(self, x):
        if x.shape[0] % 8 == 0 and x.shape[0] > 0:
            raise ValueError("no multiple of 8")
        y = x * 2
        total = 0
        for i in range(x.shape[0]):
            total = total + y[i]
        return total


class Wears(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 5:
            raise RuntimeError("worn out")
        return x * 2


class Random(nn.Module):
    def forward(self, x):
        return x * 2 + time.perf_counter_ns() % 1009  # seconds since boot outgrow what float32 tells apart


def example():
    return torch.ones(2, 4)


def square():
    return torch.ones(4, 4)


def tokens():
    return {"ids": torch.arange(21).reshape(3, 7) % 20, "mask": torch.ones(3, 7, dtype=torch.long)}


def image():
    return torch.ones(2, 3, 8, 8)


def graph():
    return torch.ones(4, 5), torch.tensor([[0, 1, 2, 3, 3, 0], [1, 2, 3, 0, 1, 3]]), torch.ones(6, 1)


def cases():
    return {"cases": {"small": torch.ones(4, 4), "large": torch.ones(6, 4), "huge": torch.ones(9, 4)}}
"""


def line_of(mark: str) -> int:
    return next(n for n, line in enumerate(MODELS.splitlines(), 1) if line.endswith(f"# {mark}"))


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Watch:
    root = tmp_path_factory.mktemp("shapes")
    (root / "model.py").write_text(MODELS)

    @functools.cache
    def run(name: str, inputs: str = "example", shapes: bool = True, **options: object) -> Observation:
        return observe_target(f"model.py::{name}", inputs=f"model.py::{inputs}", root=root, shapes=shapes, **options)

    return run


def study(seen: Observation) -> ShapeStudy:
    assert seen.shapes is not None
    return seen.shapes


def trial(seen: Observation, varied: str, setting: str) -> ShapeTrial:
    return next(t for t in study(seen).trials if (t.varied, t.setting) == (varied, setting))


def stage(seen: Observation, name: str = "shapes") -> Stage:
    return next(s for s in seen.stages if s.stage == name)


def advice(seen: Observation, varied: str) -> ShapeAdvice:
    return next(item for item in study(seen).advice if item.varied == varied)


def counts(seen: Observation, varied: str) -> dict[str, int]:
    return {t.setting: t.recompiled for t in study(seen).trials if t.varied == varied}


def report(*seen: Observation, findings: tuple[Finding, ...] = ()) -> Report:
    return merge(StaticResult(findings, (), (), (), (), {}), seen, {}, Tool("tcready", "0"))


@pytest.mark.pinned
def test_linear_recompiles_once_by_default_and_not_at_all_where_marked(watch: Watch) -> None:
    seen = watch("Linear", "square")
    batch, features = study(seen).axes
    assert (batch.name, batch.size, batch.dimensions) == ("batch", 4, (InputDimension("x", 0),))
    assert (batch.sizes, batch.refused, batch.fixed) == ((5, 6, 7, 1), (), None)
    assert (features.dimensions, features.sizes) == ((InputDimension("x", 1),), ())
    assert features.fixed is not None
    assert features.fixed.startswith("RuntimeError: ")
    assert "mat1 and mat2 shapes cannot be multiplied" in features.fixed
    calls = trial(seen, "batch", "default").calls
    assert [call.label for call in calls] == ["given", "again", *(f"batch {n}" for n in (5, 6, 7, 1))]
    assert [call.inputs[0].shape for call in calls] == [(n, 4) for n in (4, 4, 5, 6, 7, 1)]
    assert [call.recompiled for call in calls] == [0, 0, 1, 0, 0, 1], "once for the batch, once more for 1"
    assert [call.compiled for call in calls] == [1, 0, 1, 0, 0, 1]
    marked = trial(seen, "batch", "mark_dynamic")
    assert [call.recompiled for call in marked.calls] == [0, 0, 0, 0, 0, 1]
    # Both dimensions of the square are 4: dynamic=True takes them for one until they differ.
    assert counts(seen, "batch") == {"default": 2, "dynamic=True": 2, "dynamic=False": 4, "mark_dynamic": 1}
    found = advice(seen, "batch")
    assert (found.cure, found.code) == ("mark_dynamic", "torch._dynamo.mark_dynamic(x, 0)")
    assert found.text == (
        "mark it dynamic: recompiled once, the default twice (tried with batch 4, 5, 6, 7, 1); "
        "a size of 1 is compiled apart"
    )
    assert found.ranking[0] == "mark_dynamic"
    assert found.ranking[-1] == "dynamic=False", "each size compiled anew"
    for each in study(seen).trials:
        assert [call.parity for call in each.calls] == [True] * 6
        assert (each.share, each.break_sites, each.sound) == (1.0, 0, True)
        assert (each.compile_seconds or 0) > 0
        assert [call.ops_captured for call in each.calls] == [2, None, 2, 2, 2, 2], "the second call is counted"
    assert study(seen).cut == ()
    assert from_json(Observation, as_json(seen)) == seen


@pytest.mark.skipif(not takes_dynamic_shapes(), reason="new in torch 2.14")
def test_a_variable_for_a_size_is_advised_if_it_recompiles_least(watch: Watch) -> None:
    seen = watch("Linear", "square")
    given = trial(seen, "batch", "dynamic_shapes")
    assert [call.recompiled for call in given.calls] == [0] * 6, "not for a size of 1 either"
    found = advice(seen, "batch")
    assert (found.cure, found.code) == ("dynamic_shapes", given.code)
    assert found.code is not None
    assert found.code.splitlines()[1:] == [
        'batch = ShapeVar("batch")',
        'model = torch.compile(model, dynamic_shapes={"x": TensorSpec([batch, None])})',
    ]


def test_the_code_for_a_variable_names_each_argument_that_has_the_size() -> None:
    dimensions = [InputDimension("ids", 1), InputDimension("mask", 1)]
    code = spec_code({"sequence": dimensions}, {"ids": 2, "mask": 3})
    assert code is not None
    assert code.endswith(
        'dynamic_shapes={"ids": TensorSpec([None, sequence]), "mask": TensorSpec([None, sequence, None])})'
    )
    named = spec_code({"dimension 1 of x": [InputDimension("x", 1)]}, {"x": 2})
    assert named is not None
    assert 'size = ShapeVar("size")' in named
    assert spec_code({"batch": [InputDimension("items[0]", 0)]}, {"items[0]": 2}) is None, "a part of an argument"


@pytest.mark.pinned
def test_the_study_changes_nothing_else_and_is_not_there_unasked(watch: Watch) -> None:
    asked, plain = watch("Linear", "square"), watch("Linear", "square", shapes=False)
    assert plain.shapes is None
    names = ("break_sites", "skipped_frames", "recompiles", "explain", "executed", "traced", "warnings")
    for name in names:
        assert getattr(asked, name) == getattr(plain, name), name
    assert [(s.stage, s.state, s.detail) for s in asked.stages if s.stage != "shapes"] == [
        (s.stage, s.state, s.detail) for s in plain.stages if s.stage != "shapes"
    ]
    assert (stage(plain).state, stage(plain).reason) == ("not_run", "not_asked")
    assert (stage(asked).state, stage(asked).detail) == ("pass", "batch: mark_dynamic; dimension 1 of x: fixed")
    assert [graph.ops for graph in asked.graphs] == [graph.ops for graph in plain.graphs]
    old = as_json(plain)
    del old["shapes"]
    assert from_json(Observation, old) == plain


def test_a_size_that_is_made_a_constant_runs_into_the_limit(watch: Watch) -> None:
    seen = watch("Loop")
    usual = trial(seen, "batch", "default")
    assert usual.limit
    recompiled = [call.recompiled for call in usual.calls]
    assert recompiled == [0, 0, *[1] * 7, 0, 0], "eight compiled entries, then none"
    last = next(call for call in usual.calls if call.limit)
    assert (last.label, [frame.symbol for frame in last.limit]) == ("batch 10", ["Loop.forward"])
    assert last.compiled == 0
    marked = trial(seen, "batch", "mark_dynamic")
    assert marked.error is not None
    assert "specialized it to be a constant (2)" in marked.error
    assert marked.error.endswith(f"(model.py:{line_of('unrolls')})")
    assert len(marked.calls) == 1, "nothing is called after an error"
    found = advice(seen, "batch")
    assert (found.cure, found.code) == ("pad", "x = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[0] % 8))")
    assert f"every size is compiled anew, a constant at model.py:{line_of('unrolls')}: " in found.text
    assert "batch 10 on Loop.forward ran eagerly, at the recompile limit of 8" in found.text
    assert "\n" not in found.text
    padded = trial(seen, "batch", "pad")
    assert padded.code == found.code, "what is printed was executed"
    assert [call.recompiled for call in padded.calls] == [0] * 8 + [1, 0, 0], "8 rows, then 16"
    assert (padded.share, padded.sound) == (1.0, True)
    assert "captures 100% of the operations, the default 80%" in found.text
    namespace: dict[str, object] = {"torch": torch, "x": torch.ones(3, 5)}
    exec(found.code or "", namespace)
    assert namespace["x"].shape == (8, 5)  # type: ignore[attr-defined]


@pytest.mark.pinned
def test_a_branch_on_a_size_is_told_at_its_line(watch: Watch) -> None:
    seen = watch("Branch", "square")
    marked = trial(seen, "batch", "mark_dynamic")
    assert [call.recompiled for call in marked.calls] == [0, 0, 0, 1, 0, 1]
    beyond = next(call for call in marked.calls if call.size == 6)
    assert [frame.line for event in beyond.recompiles for frame in event.lines] == [line_of("branches")]
    assert advice(seen, "batch").cure == "mark_dynamic"
    prediction = _predicted(line_of("branches"))
    (finding,) = report(seen, findings=(prediction,)).findings
    assert (finding.status, finding.level) == ("confirmed", "warning")
    assert any("batch 6, marked dynamic" in line.text for line in finding.evidence)
    # The line that first uses the tensor is named by the guards of the other settings, and is to blame for nothing.
    (finding,) = report(seen, findings=(_predicted(line_of("branches") - 1),)).findings
    assert finding.status == "predicted"


def _predicted(line: int) -> Finding:
    return Finding(
        "TCR502", "branch-on-size", "recompile", "warning", "high", "a branch", "model.py", line, 9, line, 20,
        "Branch.forward", "own", "predicted", (), (), "0" * 16,
    )  # fmt: skip


@pytest.mark.pinned
def test_tokens_and_mask_vary_together_as_far_as_the_model_takes_them(watch: Watch) -> None:
    seen = watch("Tokens", "tokens")
    batch, sequence = study(seen).axes
    assert batch.dimensions == (InputDimension("ids", 0), InputDimension("mask", 0))
    assert (sequence.name, sequence.size) == ("sequence", 7)
    assert sequence.dimensions == (InputDimension("ids", 1), InputDimension("mask", 1))
    assert sequence.sizes == (8, 9, 1), "there are nine places"
    (refused,) = sequence.refused
    assert (refused.size, refused.reason.split(":")[0]) == (10, "IndexError")
    (event,) = next(c for c in trial(seen, "sequence", "default").calls if c.size == 8).recompiles
    assert event.reasons == (
        "0/0: tensor 'ids' size mismatch at index 1. expected 7, actual 8",
        "0/0: tensor 'mask' size mismatch at index 1. expected 7, actual 8",
    ), "every guard that failed, not the first alone"
    assert advice(seen, "sequence").code == ("torch._dynamo.mark_dynamic(ids, 1)\ntorch._dynamo.mark_dynamic(mask, 1)")
    together = advice(seen, "batch and sequence")
    assert together.code == "\n".join(filter(None, (advice(seen, "batch").code, advice(seen, "sequence").code)))
    assert counts(seen, "batch and sequence")["mark_dynamic"] == 0
    assert "write the lines for batch and sequence" in advice(seen, "sequence").text
    assert [row.varied for row in shape_rows(study(seen))] == ["batch", "sequence", "batch and sequence"]


@pytest.mark.release
def test_height_and_width_vary_and_channels_do_not(watch: Watch) -> None:
    batch, sides = study(watch("Image", "image")).axes
    assert batch.name == "batch"
    assert (sides.name, sides.dimensions) == (
        "height and width",
        (InputDimension("image", 2), InputDimension("image", 3)),
    )
    assert sides.sizes == (9, 10, 11)
    assert [item.size for item in sides.refused] == [1], "smaller than the kernel"


@pytest.mark.release
def test_what_stands_for_edges_varies_together(watch: Watch) -> None:
    nodes, edges = study(watch("Graph", "graph")).axes[:2]
    assert nodes.dimensions == (InputDimension("x", 0),)
    assert [item.size for item in nodes.refused] == [1], "edges lead to nodes that are gone"
    assert edges.dimensions == (InputDimension("edges", 1), InputDimension("weights", 0))
    assert edges.sizes == (7, 8, 9, 1)


@pytest.mark.parametrize(
    ("name", "mark"), [("Appends", "appends"), pytest.param("Counts", "lists", marks=pytest.mark.release)]
)
def test_a_recompile_on_an_identical_call_is_an_error_and_hides_the_sizes(watch: Watch, name: str, mark: str) -> None:
    seen = watch(name)
    again = trial(seen, "batch", "default").calls[1]
    assert again.identical
    assert again.recompiled == 1
    assert again.recompiles[0].identical_call
    assert line_of(mark) in {frame.line for frame in again.recompiles[0].lines}
    found = advice(seen, "batch")
    assert (found.cure, found.code) == ("mend", None)
    assert "not self.seen" in found.text
    assert any("an identical call recompiles" in text for text in study(seen).cut)
    errors = [finding for finding in report(seen).findings if finding.level == "error"]
    assert [(finding.effect, finding.line) for finding in errors] == [("recompile", line_of(mark))]


def test_all_guards_of_an_entry_are_told(watch: Watch) -> None:
    (event,) = trial(watch("Counts"), "batch", "default").calls[1].recompiles
    assert event.reasons == ("0/0: not self.seen", "0/0: self.step == 0")
    assert {frame.line for frame in event.lines} == {line_of("lists"), line_of("counts")}


@pytest.mark.release
def test_cases_run_one_after_the_other_in_one_callable(watch: Watch) -> None:
    seen = watch("Linear", "cases")
    calls = trial(seen, "cases", "default").calls
    assert [call.label for call in calls] == ["small", "small again", "large", "huge"]
    assert [call.recompiled for call in calls] == [0, 0, 1, 0]
    assert counts(seen, "cases")["dynamic=False"] == 2
    assert calls[2].recompiles[0].case == "large"
    assert study(seen).case == "small"
    assert seen.recompiles == (), "of the record each case starts from a reset"


def test_a_spent_budget_is_told(watch: Watch) -> None:
    seen = watch("Linear", "square", budget=1e-6)
    assert seen.shapes is None
    assert (stage(seen).state, stage(seen).reason) == ("not_run", "budget")
    assert stage(seen).detail == "the budget was spent before it began"
    assert stage(seen, "parity").state == "pass"
    assert report(seen).targets[0].verdict == "ready"


def test_a_process_that_ends_in_the_study_leaves_the_rest(watch: Watch) -> None:
    seen = watch("Leaves")
    assert {s.stage for s in seen.stages if s.state == "fail"} == {"shapes"}
    assert stage(seen).reason == "exit"
    assert stage(seen).detail.startswith("the process exited with code 7")
    assert stage(seen, "parity").state == "pass"
    assert seen.coverage is not None
    assert study(seen).cut == ("the run ended during batch 3 in the eager model",)
    assert dict(seen.sources)["model.py"].endswith("model.py")
    target = report(seen).targets[0]
    assert target.verdict == "unknown", "as where Inductor ends the process"
    assert target.verdict_reason == "shapes failed, which says nothing of compiling"


@torch_between((2, 8), (2, 13), "torch 2.14 compiles the `except` as eager runs it")
@pytest.mark.release
def test_compiled_code_that_raises_for_another_size_is_told(watch: Watch) -> None:
    seen = watch("Raises")
    assert study(seen).axes[0].sizes == (3, 4, 5, 1), "the eager model takes them"
    usual = trial(seen, "batch", "default")
    assert [call.label for call in usual.calls] == ["given", "again", "batch 3"], "nothing after the error"
    assert usual.error is not None
    line = line_of("raises")
    assert usual.error.endswith(f"(model.py:{line})")
    assert usual.calls[-1].place == Frame("model.py", line, "Raises.forward")
    assert advice(seen, "batch").cure == "unknown"
    assert advice(seen, "batch").ranking == ()
    assert {t.setting for t in study(seen).trials if t.varied == "batch"} >= {"default", "dynamic=True"}
    assert (stage(seen).state, stage(seen).reason) == ("fail", "compile_error")
    told = report(seen)
    (finding,) = told.findings
    assert (finding.effect, finding.level, finding.status) == ("compile_error", "error", "runtime_only")
    assert (finding.line, finding.symbol, finding.origin) == (line, "Raises.forward", "own")
    assert finding.message.startswith("with batch 3 the compiled call raised ")
    target = told.targets[0]
    assert target.verdict == "not_ready"
    assert "the compiled call raised at batch 3 and dimension 1 of x 5: " in target.verdict_reason
    assert exit_code(told) == 1
    predicted = replace(_predicted(line), effect="compile_error")
    (finding,) = report(seen, findings=(predicted,)).findings
    assert (finding.status, finding.level) == ("confirmed", "error")


@torch_between((2, 13), (2, 99), "both compile equally often")
def test_a_setting_that_captures_less_is_not_recommended_for_recompiling_less(watch: Watch) -> None:
    seen = watch("Fixed", "square")
    dynamic, usual = trial(seen, "batch", "dynamic=True"), trial(seen, "batch", "default")
    assert dynamic.recompiled < usual.recompiled
    assert (usual.share, usual.break_sites) == (1.0, 0)
    assert dynamic.share is not None
    assert dynamic.share < 0.5, "with its second dimension a symbol, the function is given up"
    assert dynamic.break_sites == 1
    assert not trial(seen, "batch", "mark_dynamic").sound
    found = advice(seen, "batch")
    assert (found.cure, found.code) == ("keep", None)
    newer = ("dynamic_shapes",) if takes_dynamic_shapes() else ()
    assert found.ranking == ("default", "dynamic=False", *newer, "dynamic=True")
    assert "(tried with batch 4, 5, 6, 7, 1)" in found.text
    # Of the second dimension each size has to be compiled by itself.
    other = advice(seen, "dimension 1 of x")
    assert (other.cure, other.code) == ("dynamic=False", "model = torch.compile(model, dynamic=False)")
    assert trial(seen, "dimension 1 of x", "dynamic=False").code == other.code
    assert other.text.startswith("dynamic=False: captures 100% of the operations, the default ")
    (finding,) = report(seen).findings
    assert (finding.effect, finding.line) == ("frame_skip", line_of("formats")), "at other sizes alone"


@torch_between((2, 13), (2, 13), "what `is` says of a size that is a symbol was measured with torch 2.13")
def test_outputs_that_differ_at_another_size_are_an_error(watch: Watch) -> None:
    seen = watch("Same", "square")
    usual = trial(seen, "batch", "default")
    assert [call.parity for call in usual.calls] == [True, True, True, True, False, True]
    assert stage(seen, "parity").state == "pass", "with the given sizes they are equal"
    assert (stage(seen).state, stage(seen).reason) == ("fail", "mismatch")
    found = advice(seen, "batch")
    assert (found.cure, found.ranking) == ("dynamic=False", ("dynamic=False",))
    assert "the default differs from eager at batch 7" in found.text
    told = report(seen)
    (finding,) = told.findings
    assert (finding.effect, finding.level, finding.status) == ("wrong_result", "error", "runtime_only")
    assert (finding.line, finding.symbol) == (line_of("differs"), "Same.forward")
    target = told.targets[0]
    assert target.verdict == "not_ready"
    assert "the compiled call differs from eager at batch 7: output 0" in target.verdict_reason
    assert exit_code(told) == 1
    assert from_json(Observation, as_json(seen)) == seen


def test_a_break_at_another_size_is_a_finding(watch: Watch) -> None:
    seen = watch("Prints", "square")
    assert (seen.break_sites, seen.warnings) == ((), ())
    call = next(call for call in trial(seen, "batch", "default").calls if call.size == 7)
    assert [(site.line, site.action) for site in call.break_sites] == [(line_of("prints"), "resume")]
    assert stage(seen).state == "pass"
    told = report(seen)
    (finding,) = told.findings
    assert (finding.effect, finding.level, finding.status) == ("graph_break", "error", "runtime_only")
    assert finding.line == line_of("prints")
    assert finding.message.startswith("with batch 7: ")
    assert told.targets[0].verdict != "ready"
    assert f"with other sizes it breaks at model.py:{line_of('prints')}" in told.targets[0].verdict_reason
    assert exit_code(told) == 1


@pytest.mark.release
def test_padding_that_the_model_refuses_is_no_advice(watch: Watch) -> None:
    seen = watch("Grows")
    padded = trial(seen, "batch", "pad")
    assert padded.calls == ()
    assert (padded.error or "").startswith("in the eager model ValueError: no multiple of 8")
    found = advice(seen, "batch")
    assert (found.cure, found.code) == ("pad", None)
    assert "have at most 8 sizes (not run); padding to a multiple of 8 raised in the eager model" in found.text
    assert stage(seen).state == "pass", "what another setting raises is no failure"


def test_what_eager_raises_too_is_not_blamed_on_compiling(watch: Watch) -> None:
    seen = watch("Wears", "square")
    assert stage(seen).state == "pass"
    assert "called twice each in one eager model, it raised RuntimeError: worn out" in study(seen).cut[0]
    assert [call.label for call in trial(seen, "batch", "default").calls] == ["given", "again", "batch 5"]
    assert {f.effect for f in report(seen).findings} <= {"recompile"}


@pytest.mark.release
def test_eager_code_that_differs_from_itself_is_not_compared(watch: Watch) -> None:
    seen = watch("Random")
    assert {call.parity for each in study(seen).trials for call in each.calls} == {None}
    assert all(each.sound for each in study(seen).trials)


@pytest.mark.release
def test_a_hang_in_the_study_leaves_the_rest(watch: Watch) -> None:
    seen = watch("Sleeps", timeout=25.0)
    assert {s.stage for s in seen.stages if s.state == "fail"} == {"shapes"}
    assert stage(seen).reason == "timeout"
    assert stage(seen).detail.startswith("no answer within 25 s, while in stage shapes")
    assert stage(seen, "parity").state == "pass"
    assert study(seen).cut == ("the run ended during batch 3 in the eager model",)


def test_both_reports_show_the_study(watch: Watch) -> None:
    seen = watch("Linear", "square")
    evil = replace(study(seen).axes[1], fixed="<script>alert(1)</script>")
    told = replace(seen, shapes=replace(study(seen), axes=(study(seen).axes[0], evil), cut=("rest <b>",)))
    given = report(told)
    assert given.targets[0].observation.shapes == told.shapes
    found = advice(seen, "batch")
    best, recompiled = found.ranking[0], trial(seen, "batch", found.ranking[0]).recompiled
    assert (best, recompiled) == (("dynamic_shapes", 0) if takes_dynamic_shapes() else ("mark_dynamic", 1))
    lines = text.render(given, width=200)
    assert f"batch (x dimension 0) 4, then 5, 6, 7, 1: {found.text}" in lines
    code = (found.code or "").splitlines()
    assert code
    assert all(f"> {line}" in lines for line in code)
    assert "not done: rest <b>" in lines
    page = document.render(given)
    shown, _, _ = page.partition('<script type="application/json"')
    heading = r"setting +captured +breaks +recompiles +compiling\n"
    assert re.search(rf"{heading} +{best} +100 % +0 +{recompiled} +\d\.\d\d s\n", lines)
    assert "<caption>Settings for other sizes</caption>" in shown
    row = rf"<td>{best}</td><td>100 %</td><td>0</td><td>{recompiled}</td><td>\d\.\d\d s</td>"
    assert re.search(row, shown)
    comment = markdown.render(given)
    assert "<details><summary>Other sizes of " in comment
    assert "| setting | captured | breaks | recompiles | compiling |" in comment
    assert all(line in comment for line in code)
    assert "size mismatch at index 0. expected 4, actual 5" in shown
    assert "<script>alert" not in shown
    assert "&lt;script&gt;alert" in shown
    assert "rest <b>" not in shown


def measured(setting: str, **facts: Any) -> ShapeTrial:
    calls = (ShapeCall("given", (), 1, 0), ShapeCall("batch 5", (), 1, 1, size=5))
    return replace(ShapeTrial("batch", setting, calls, 1, share=1.0, compile_seconds=1.0), **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "first"),
    [
        ({"recompiled": 0}, "dynamic=True"),
        ({"recompiled": 0, "share": 0.995}, "dynamic=True"),
        ({"recompiled": 0, "share": 0.98}, "default"),
        ({"recompiled": 0, "break_sites": 1}, "default"),
        ({"break_sites": 1, "share": 1.0, "compile_seconds": 0.1}, "default"),
        ({"compile_seconds": 0.1}, "dynamic=True"),
        ({"compile_seconds": 0.7}, "default"),
        ({"recompiled": 0, "error": "ValueError"}, "default"),
        ({"recompiled": 0, "difference": "output 0"}, "default"),
    ],
)
def test_settings_are_ranked_by_share_then_breaks_then_recompiles_then_seconds(
    other: dict[str, Any], first: str
) -> None:
    found = rank_trials((measured("default"), measured("dynamic=True", **other)))
    assert found[0].setting == first
    assert len(found) == 2 - ("error" in other or "difference" in other)


def test_resized_inputs_hold_given_values_alone() -> None:
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    ids = torch.tensor([[1, 5, 9]])
    case = Case("a", (x, {"again": x}), {"ids": ids})
    longer = resize_inputs(case, ((0, 1), (1, 1), (2, 1)), 5)
    assert longer.args[0].tolist() == [[0, 1, 2, 0, 1], [3, 4, 5, 3, 4]]
    assert longer.args[0] is longer.args[1]["again"], "one tensor stays one"
    assert longer.args[0].requires_grad
    assert longer.kwargs["ids"].tolist() == [[1, 5, 9, 1, 5]]
    assert resize_inputs(case, ((2, 1),), 2).kwargs["ids"].tolist() == [[1, 5]]
    assert x.shape == (2, 3)
    picture = torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last)
    larger = resize_inputs(Case(None, (picture,), {}), ((0, 2), (0, 3)), 6).args[0]
    assert larger.shape == (2, 3, 6, 6)
    assert larger.is_contiguous(memory_format=torch.channels_last)


def test_which_dimensions_are_candidates() -> None:
    def found(*args: torch.Tensor, **kwargs: torch.Tensor) -> list[tuple[str, int]]:
        case = Case(None, args, kwargs)
        return [(c.name, c.size) for c in candidates(inputs_of(case, ["x", "y"]))]

    ids = torch.zeros(2, 7, dtype=torch.long)
    assert found(torch.ones(2, 3, 8, 6)) == [("batch", 2), ("height", 8), ("width", 6)]
    assert found(ids, torch.ones(2, 1, 7, 7, dtype=torch.bool)) == [("batch", 2), ("sequence", 7)]
    assert found(torch.ones(2, 7, 5), pad=torch.zeros(2, 7, dtype=torch.bool)) == [("batch", 2), ("sequence", 7)]
    assert found(torch.tensor(1.0)) == []
    assert found() == []
