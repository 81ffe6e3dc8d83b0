"""A plan: regions proved alone, placements executed as printed; each snippet is executed again here, by other means."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch
import torch._dynamo
from dynamic.observing import needs_isolation, observe_target, report_of, torch_between
from tcready.api import exit_code, render
from tcready.dynamic.worker.bench import machine_load
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.frames import FrameNames
from tcready.dynamic.worker.core.journal import Journal
from tcready.dynamic.worker.core.request import Work
from tcready.dynamic.worker.measure.inductor_seconds import InductorClock
from tcready.dynamic.worker.plan.choice import SteadyTimes, choose
from tcready.dynamic.worker.plan.placements import Measured
from tcready.dynamic.worker.stages import compile_plan as plan_stage
from tcready.dynamic.worker.torch_internals.compile_calls import execute, takes_recompile_limit
from tcready.portable.options import RunOptions
from tcready.schema.enums import Mode
from tcready.schema.observation import ModuleShare, Observation
from tcready.schema.run import Placement, Plan, RegionTrial
from torch.utils._python_dispatch import TorchDispatchMode

FILE = Path(__file__).parents[2] / "fixtures" / "plans" / "placements.py"
CLOSE = 0.03
"""What a share that is claimed may be off by."""
SETTINGS = (
    *("allow_unspec_int_on_nn_module", "capture_scalar_outputs", "capture_dynamic_output_shape_ops"),
    "nested_graph_breaks",
    "recompile_limit",
)
"""What the lines of a plan set for the whole process."""
pytestmark = pytest.mark.torch


@cache
def seen(name: str, **options: Any) -> Observation:
    return observe_target(f"{FILE.name}::{name}", inputs=f"{FILE.name}::row", root=FILE.parent, plan=True, **options)


def plan_of(name: str, **options: Any) -> Plan:
    found = seen(name, **options).plan
    assert found is not None, [(stage.stage, stage.state, stage.detail) for stage in seen(name).stages]
    return found


def placement(plan: Plan, name: str) -> Placement:
    return next(item for item in plan.alternatives if item.name == name)


def region(plan: Plan, name: str) -> RegionTrial:
    return next(trial for trial in plan.regions if trial.name == name)


class Counting(TorchDispatchMode):
    """Counts dispatches: all, and those that a graph makes."""

    def __init__(self) -> None:
        super().__init__()
        self.all = self.inside = self.depth = self.graphs = 0

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.all += 1
        self.inside += self.depth > 0
        return func(*args, **(kwargs or {}))

    def backend(self, graph: Any, _inputs: Any) -> Any:
        self.graphs += 1

        def run(*args: Any) -> Any:
            self.depth += 1
            try:
                return graph.forward(*args)
            finally:
                self.depth -= 1

        return run


def loaded() -> Any:
    """The models, in a module of their own."""
    spec = importlib.util.spec_from_file_location("placements_of_test", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def share_when_pasted(name: str, code: str, monkeypatch: pytest.MonkeyPatch) -> float:
    """Execute the lines as a user would, with another eager backend, and count; the outputs are those of eager."""
    module = loaded()
    value = getattr(module, name)

    def fresh() -> Any:
        torch.manual_seed(0)
        made = value if name == "plain" else value()
        return made if name == "plain" else made.eval()

    torch.manual_seed(0)  # as the worker does: which branch runs depends on the data
    inputs = module.row()
    torch._dynamo.reset()
    counting = Counting()
    compile_ = torch.compile

    def compiling(model: Any = None, **options: Any) -> Any:
        options.setdefault("backend", counting.backend)
        return compile_(**options) if model is None else compile_(model, **options)

    scope = {"model": fresh(), "torch": torch}
    with torch._dynamo.config.patch(**{name: getattr(torch._dynamo.config, name) for name in SETTINGS}):
        with monkeypatch.context() as patched:
            patched.setattr(torch, "compile", compiling)
            exec(code, scope)
        with torch.no_grad():
            for _ in range(2):
                scope["model"](inputs.clone())
            counting.all = counting.inside = 0
            given = inputs.clone()
            with counting:
                output = scope["model"](given)
            torch.testing.assert_close(output, fresh()(inputs.clone()))
    torch._dynamo.reset()
    return counting.inside / counting.all


NAMES = (
    "Indexed",
    "LoopOfTorch",
    "Mixed",
    "torch_alone",
    "Encoder",
    "Differs",
    "Behind",
    "Mutating",
    "Called",
    "Caching",
    "Lent",
    "Tuned",
    "Staged",
    "Stumbling",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.release) if name == "Caching" else name for name in NAMES]
)
@pytest.mark.sampled(3)
def test_each_line_that_is_printed_captures_what_it_claims(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(name)
    claims = [(item.code, item.share) for item in plan.alternatives if item.sound]
    claims += [(trial.code, trial.ops_share) for trial in plan.regions if trial.state == "proved"]
    claims += [(plan.code, plan.share)] + ([(plan.smallest.code, plan.smallest.share)] if plan.smallest else [])
    assert claims
    for code, share in dict.fromkeys(claims):
        if "nested_compile_region" in code:  # it marks the class for good
            continue
        assert share_when_pasted(name, code, monkeypatch) == pytest.approx(share or 0.0, abs=CLOSE), code


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(3)
def test_the_plan_captures_at_least_what_the_plain_default_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(name)
    if name == "Differs":  # the plain default gives something else there
        assert (plan.recommended, placement(plan, "whole").sound) == ("regions", False)
        return
    plain = share_when_pasted(name, "model = torch.compile(model)", monkeypatch)
    assert (plan.share or 0.0) >= plain - 1e-6


def test_layers_that_differ_in_an_integer_reach_the_limit_and_the_cure_is_executed() -> None:
    layers = region(plan_of("Indexed"), "layers.*")
    assert layers.state == "proved"
    assert layers.cure == "torch._dynamo.config.allow_unspec_int_on_nn_module = True"
    assert layers.code.startswith(layers.cure)
    assert layers.compilations == 2
    assert any("layer_idx ==" in guard for guard in layers.guards)
    assert len(layers.modules) == 12


@needs_isolation
def test_instances_that_reach_the_limit_keep_apart_what_they_compile() -> None:
    layers = region(plan_of("Tuned"), "layers.*")
    assert (layers.state, layers.compilations) == ("proved", 12)
    assert layers.cure == "isolate_recompiles=True"
    assert layers.code == "for module in model.layers:\n    module.compile(isolate_recompiles=True)"
    assert "self.name == ''" in layers.guards


@needs_isolation
def test_other_sizes_are_compiled_where_instances_keep_apart_what_they_compile() -> None:
    """A limit of as many as there are instances is used up by them: with other sizes they would run eagerly."""
    layers = region(plan_of("Tuned"), "layers.*")
    compiled = {
        option: layers_compiled(layers.code.replace("isolate_recompiles=True", option), sizes=(2, 3, 5))
        for option in ("", "recompile_limit=12", "isolate_recompiles=True")
    }
    assert compiled == {"": [8, 0, 0], "recompile_limit=12": [12, 0, 0], "isolate_recompiles=True": [12, 12, 0]}


def layers_compiled(code: str, sizes: Sequence[int]) -> list[int]:
    """How many graphs Dynamo makes of the layers of `Tuned` in a call with each number of rows."""
    torch._dynamo.reset()
    counting = Counting()
    model = loaded().Tuned()
    execute(code, model, counting.backend)
    found = []
    for rows in sizes:
        before = counting.graphs
        for layer in model.layers:
            layer(torch.randn(rows, 8))
        found.append(counting.graphs - before)
    torch._dynamo.reset()
    return found


@needs_isolation
def test_regions_of_one_class_of_torch_do_not_share_the_limit() -> None:
    plan = plan_of("Staged")
    regions = placement(plan, "regions")
    assert (regions.sound, regions.recompiles, regions.graphs) == (True, 0, 20)
    assert "torch._dynamo.config" not in regions.code
    assert (
        region(plan, "stage0.conv").code
        == "model.stage0.conv.forward = torch.compile(model.stage0.conv.forward, isolate_recompiles=True)"
    )
    assert "\n".join(trial.code for trial in plan.regions if trial.state == "proved") == regions.code


@pytest.mark.skipif(not takes_recompile_limit(), reason="new in torch 2.12")
def test_a_higher_limit_is_that_of_the_call_and_not_of_the_process() -> None:
    plan = plan_of("Stumbling")
    assert (plan.code, plan.share) == ("model.compile(recompile_limit=64)", 1.0)


def test_what_breaks_is_refuted_with_the_words_and_place_of_dynamo() -> None:
    gate = region(plan_of("Indexed"), "gate")
    assert gate.state == "refuted"
    assert "Data-dependent branching" in gate.reason
    assert gate.site is not None
    assert gate.site.gb_id == "GB0170"
    assert FILE.read_text().splitlines()[gate.site.line - 1].strip() == "if y.sum() > 0:"


def test_parts_of_a_frame_that_was_given_up_are_regions() -> None:
    plan = plan_of("LoopOfTorch")
    assert placement(plan, "whole").share == 0
    assert plan.recommended == "regions"
    assert (plan.share or 0) > 0.3
    assert {trial.name for trial in plan.regions if trial.state == "proved"} == {"layers.*", "norm"}


def test_a_list_of_several_classes_is_parted_by_class() -> None:
    plan = plan_of("Mixed")
    states = {trial.name: trial.state for trial in plan.regions}
    assert states["parts.{0,2}"] == "proved"
    assert states["parts.{1,3}"] == "refuted"
    assert all(len(trial.modules) == 2 for trial in plan.regions)


def test_a_class_of_torch_is_compiled_by_its_forward() -> None:
    plan = plan_of("torch_alone")
    assert (plan.recommended, plan.share) == ("whole", 1.0)
    assert plan.code == "model.forward = torch.compile(model.forward)"
    assert region(plan_of("Encoder"), "encoder").code == "model.encoder.forward = torch.compile(model.encoder.forward)"


def test_a_part_that_differs_when_compiled_is_out() -> None:
    plan = plan_of("Differs")
    assert "differs" in region(plan, "part").reason
    assert region(plan, "part").state == "refuted"
    assert region(plan, "other").state == "proved"
    assert "part.compile" not in plan.code


def test_a_break_that_only_a_part_alone_meets_is_a_finding() -> None:
    report = report_of(seen("Behind"))
    line = next(number for number, text in enumerate(FILE.read_text().splitlines(), 1) if "if y.sum() > 0" in text)
    found = [finding for finding in report.findings if finding.line == line]
    assert [finding.status for finding in found] == ["runtime_only"]
    assert "gate compiled alone breaks here" in found[0].evidence[0].text


def test_inputs_that_are_written_to_are_kept_as_copies() -> None:
    assert region(plan_of("Mutating"), "adds").state == "proved"


def test_keys_of_the_checkpoint_that_would_change_are_named() -> None:
    plan = plan_of("Called")
    assert plan.code == "model = torch.compile(model)"
    assert "linear.weight -> _orig_mod.linear.weight" in plan.state_dict_changes
    assert "Missing key" in plan.checkpoint or "Error(s) in loading state_dict" in plan.checkpoint
    assert plan_of("Indexed").state_dict_changes == ()
    assert plan_of("Indexed").checkpoint == "saved and loaded both ways between eager and compiled"


def test_a_function_has_a_plan_too(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("plain")
    assert (plan.recommended, plan.code, plan.share) == (
        "whole",
        "model = torch.compile(model)  # model: the function `plain`",
        1.0,
    )
    assert share_when_pasted("plain", plan.code, monkeypatch) == 1.0


def test_functions_and_methods_are_regions() -> None:
    plan = plan_of("Helped")
    found = {trial.name: trial for trial in plan.regions if trial.kind == "function"}
    assert {name: trial.state for name, trial in found.items()} == {"smooth": "proved", "Helped.mixed": "proved"}
    assert found["Helped.mixed"].code == "model.mixed = torch.compile(model.mixed)"


def test_a_setting_that_captures_what_breaks_is_tried() -> None:
    plan = plan_of("Numbered")
    assert plan.share == 1.0
    assert plan.code.startswith("torch._dynamo.config.capture_scalar_outputs = True")
    assert region(plan, "").state == "proved"


def test_the_way_back_and_the_lines_for_production_were_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("Indexed")
    assert "force_eager" in plan.rollback
    assert "eager_on_recompile" in plan.production
    monkeypatch.setenv("TCREADY_EAGER", "1")
    try:
        assert share_when_pasted("Indexed", f"{plan.code}\n{plan.rollback}", monkeypatch) == 0
    finally:
        torch.compiler.set_stance("default")


def test_in_training_gradients_and_buffers_are_compared() -> None:
    plan = plan_of("Dropping", mode="train")
    assert placement(plan, "whole").parity is True
    assert region(plan, "layers").state == "proved"
    assert plan.share is not None
    assert plan.share > 0.5


@torch_between((2, 11), (2, 14), "torch 2.15 traces a gradient of a gradient")
def test_what_raises_in_backward_is_neither_recommended_nor_proved() -> None:
    plan = plan_of("Penalised", mode="train")
    assert not placement(plan, "whole").sound
    assert "double backward" in placement(plan, "whole").reason
    assert region(plan, "critic").state == "refuted"
    assert "double backward" in region(plan, "critic").reason
    assert region(plan, "body").state == "proved"
    assert plan.code == region(plan, "body").code
    for code in (plan.code, *(trial.code for trial in plan.regions if trial.state == "proved")):
        train_once("Penalised", code)


def train_once(name: str, code: str) -> None:
    """Execute the code and one step of training, with the backend that the compiled code is trained by."""
    module = loaded()
    torch._dynamo.reset()
    names = {"model": getattr(module, name)().train(), "torch": torch}
    exec(re.sub(r"(torch\.compile\([^)]*)", r"\1, backend='aot_eager'", code), names)
    names["model"](module.row()).sum().backward()


@torch_between((2, 11), (2, 14), "torch 2.15 traces a gradient of a gradient")
def test_a_training_that_fails_is_the_headline() -> None:
    report = report_of(seen("Penalised", mode="train"))
    [target] = report.targets
    assert target.verdict != "ready"
    assert target.verdict_reason.startswith("training failed in its backward: AOTAutograd: ")
    text = render(report, "text")
    assert text.index("find out why the compiled model fails in training") < text.index("THEN")
    assert exit_code(report) == 1


def test_the_verdict_counts_what_was_proved() -> None:
    [target] = report_of(seen("Indexed")).targets
    assert target.verdict == "ready_by_region"
    assert "regions that were compiled alone" in target.verdict_reason
    assert {found.name: found.state for found in target.regions}["layers.*"] == "proved"
    assert next(found for found in target.regions if found.state == "refuted").code == ""


def test_a_budget_ends_it_and_it_says_what_is_missing() -> None:
    plan = plan_of("Indexed", budget=0.01)
    assert plan.recommended in ("none", "whole")
    assert plan.cut
    assert "the budget was spent" in plan.cut[0]


def test_shares_of_the_time_are_of_one_measurement() -> None:
    """A machine that is twice as slow in the second measurement makes no region larger."""

    def measured(slower: float, captured: bool) -> Measured:
        parts = {"": 4.0, "first": 1.0, "second": 3.0}
        return Measured(
            modules=tuple(
                ModuleShare(name, "Net", seconds=time * slower, seconds_captured=time * slower * captured)
                for name, time in parts.items()
            )
        )

    sums = plan_stage._Sums(measured(2.0, True), measured(1.0, False))
    assert [sums.time_share([name]) for name in ("first", "second")] == [0.25, 0.75]
    assert sums.time_share(["first", "second"]) == 1.0


@pytest.mark.parametrize("with_settings", [True, False])
def test_the_next_best_says_whether_it_has_the_settings(with_settings: bool) -> None:
    bare, line = "model = torch.compile(model)", "torch._dynamo.config.capture_scalar_outputs = True\n"
    shares = (0.9, 0.95) if with_settings else (0.95, 0.9)
    placements = [
        Placement("whole", code, share, 1, 0, True, "") for code, share in zip((line + bare, bare), shares, strict=True)
    ]
    best = choose(placements)
    assert best is not None
    assert best.reason.endswith(f"the whole model {'with' if with_settings else 'without'} the settings with 90.0%")


def test_of_what_captures_alike_the_simplest_is_recommended_without_times() -> None:
    plan = plan_of("Stacked")
    assert {item.share for item in plan.alternatives if item.sound} == {1.0}
    assert (plan.recommended, plan.code) == ("whole", "model.compile()")
    assert plan.chosen_by == "by simplicity: no time was measured: the backend was not run (--backend)"
    text = render(report_of(seen("Stacked")), "text")
    assert "chosen by simplicity" in " ".join(text.split())


@pytest.mark.release
def test_with_the_backend_steady_times_decide_or_it_says_why_not() -> None:
    plan = plan_of("Stacked", backend=True)
    assert plan.recommended == "whole"
    seconds = {item.name: item.in_turn_seconds for item in plan.alternatives}
    if plan.chosen_by.startswith("by simplicity"):
        assert "the machine was busy" in plan.chosen_by
        assert set(seconds.values()) == {None}
    else:
        assert re.match(r"by measured steady time: .+ against .+ of ", plan.chosen_by)
        assert 0 < (seconds["whole"] or 0.0) < (seconds["repeated_blocks"] or 0.0)


def in_turn(context: Context, codes: Sequence[str], tmp_path: Path) -> SteadyTimes:
    clock = InductorClock(str(tmp_path / "made"))
    placements = [Placement("whole", code, 1.0, 1, 0, True, "", compile_seconds=0.5) for code in codes]
    return clock.in_turn(context, placements)


def context_of(build: Callable[[], Any], **options: Any) -> Context:
    work = Work("placements.py::Stacked", RunOptions(**options), "/")
    context = Context(work, Journal(work, None, None), FrameNames("/", ()), build=build)
    context.cases = [Case("small", (torch.ones(2, 8),), {}), Case("large", (torch.ones(64, 8),), {}, 3.0)]
    return context


QUICK = "model.compile(backend='eager')"
SLOW = """\
import time
compiled = torch.compile(model, backend="eager")
def model(x, compiled=compiled, time=time):
    time.sleep(0.02)
    return compiled(x)"""


@needs_isolation
@pytest.mark.parametrize("mode", ["infer", "train"])
def test_placements_are_timed_in_turn(mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_load, "others", lambda _context: "")
    module = loaded()
    context = context_of(lambda: module.IndexedLayer(1).train(mode == "train"), mode=mode)
    times = in_turn(context, [SLOW, QUICK, "model.missing.compile()"], tmp_path)
    slow, quick = times.rounds[SLOW], times.rounds[QUICK]
    assert len(slow) == len(quick) >= 3
    assert min(slow) >= 0.02
    assert max(quick) < min(slow)
    assert set(times.rounds) == {SLOW, QUICK}
    assert "no attribute 'missing'" in times.missing


@needs_isolation
def test_no_time_is_measured_where_it_says_nothing_or_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_load, "others", lambda _context: "others used 1.5 of 2 CPUs")
    busy = in_turn(context_of(torch.nn.Identity), [SLOW, QUICK], tmp_path)
    assert busy == SteadyTimes(missing="the machine was busy: others used 1.5 of 2 CPUs")
    looks = iter(["", "others used 1.9 of 2 CPUs"])
    monkeypatch.setattr(machine_load, "others", lambda _context: next(looks))
    meanwhile = in_turn(context_of(torch.nn.Identity), [QUICK, QUICK + "  # again"], tmp_path)
    assert meanwhile == SteadyTimes(missing="the machine was busy: others used 1.9 of 2 CPUs")
    late = in_turn(context_of(torch.nn.Identity, budget=4.5), [SLOW, QUICK], tmp_path)
    assert late == SteadyTimes(missing="too little of the time for this run was left")


def test_lines_that_inductor_cannot_compile_are_not_recommended(tmp_path: Path) -> None:
    """A pass of Inductor in the file refuses the graph in which a number of a tensor is used."""
    code = FILE.read_text("utf-8") + dedent("""

        import torch._inductor.config


        def refuse(graph):
            if {"aten.max.default", "aten.div.Tensor"} <= {str(node.target) for node in graph.nodes}:
                raise NotImplementedError("numbers of tensors")


        torch._inductor.config.post_grad_custom_pre_pass = refuse
        """)
    (tmp_path / "placements.py").write_text(code, "utf-8")
    found = observe_target(
        "placements.py::Numbered", inputs="placements.py::row", root=tmp_path, plan=True, server=None
    )
    plan = found.plan
    assert plan is not None
    assert "torch._dynamo.config" not in plan.code
    (rejected,) = (item for item in plan.alternatives if "with Inductor" in item.reason)
    assert "numbers of tensors" in rejected.reason
    assert (rejected.sound, rejected.backend, rejected.share) == (False, "inductor", 1.0)


def test_a_break_that_callers_meet_too_is_tried_with_callers_split(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        dedent("""\
            import torch
            from torch import nn


            class Inner(nn.Module):
                def forward(self, x):
                    y = x.sin()
                    print("inner")
                    return y.cos()


            class Middle(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.inner = Inner()

                def forward(self, x):
                    return self.inner(x + 1) * 2


            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.middle = Middle()

                def forward(self, x):
                    return self.middle(x * 3) - 1


            def get_inputs():
                return [torch.randn(4, 8)]
        """)
    )
    plan = observe_target("model.py", root=tmp_path, plan=True).plan
    assert plan is not None
    (nested,) = [each for each in plan.alternatives if "nested_graph_breaks" in each.code]
    (plain,) = [each for each in plan.alternatives if each.code == "model.compile()"]
    assert nested.sound
    assert nested.parity
    assert (nested.graphs or 0) < (plain.graphs or 0)
