"""What a run in training mode shows beyond its forward, and what a run in both modes tells apart."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

import pytest
from observing import observe_target, torch_between
from tcready.api import check, exit_code, render
from tcready.merge import merge
from tcready.schema.codec import as_json, from_json
from tcready.schema.enums import Mode, StageState
from tcready.schema.observation import Observation, Stage
from tcready.schema.report import Tool
from tcready.schema.run import BreakSite, Training, TrainingPart
from tcready.schema.static import Finding, StaticResult

torch = pytest.importorskip("torch")

from tcready.dynamic.worker.inputs.loss import NotTrainedError, loss_of  # noqa: E402
from tcready.dynamic.worker.measure.gradients import Trained, outcome_of_step  # noqa: E402
from tcready.dynamic.worker.measure.outcome_structure import differs, structure_differences, unequal_leaves  # noqa: E402
from tcready.dynamic.worker.stages.training import STEP_FILE  # noqa: E402

pytestmark = pytest.mark.torch

MODELS = """\
import os
from dataclasses import dataclass

import torch
from torch import nn
from torch._subclasses.fake_tensor import is_fake


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.drop(self.norm(self.first(x)).relu()))


class LayerDrop(nn.Module):
    def __init__(self, rate=0.1):
        super().__init__()
        self.rate = rate
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x):
        x = self.first(x)
        if self.training:
            p = torch.rand([])
            if p < self.rate:  # drops
                return x
        return self.second(x)


@dataclass
class Output:
    loss: torch.Tensor
    logits: torch.Tensor


class WithLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.unused = nn.Linear(4, 2)

    def forward(self, x):
        logits = self.layer(x)
        return Output(logits.square().mean(), logits)


class Detached(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(x).detach()


class NoGrad(Detached):
    @torch.no_grad()
    def forward(self, x):
        return self.layer(x)


class Bare(nn.Module):
    def forward(self, x):
        return x * 2


class Differs(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 2)
        self.last = nn.Linear(2, 2)

    def forward(self, x):
        y = self.first(x)
        if torch.compiler.is_compiling():
            y = y.detach()
        return self.last(y)


class Tracks(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.register_buffer("seen", torch.zeros(2))

    def forward(self, x):
        y = self.layer(x)
        with torch.no_grad():
            self.seen.add_(y.mean(0) * (2 if torch.compiler.is_compiling() else 1))
        return y


@torch.library.custom_op("tcready_training::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@double.register_fake
def _(x):
    return torch.empty_like(x)


def keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


def branching(ctx, grad):
    (x,) = ctx.saved_tensors
    if x.sum() > 1e9:  # only a real tensor can tell
        return grad
    return grad * 2


double.register_autograd(branching, setup_context=keep)


class BranchingBackward(Detached):
    def forward(self, x):
        return torch.ops.tcready_training.double(self.layer(x))


@torch.library.custom_op("tcready_training::triple", mutates_args=())
def triple(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@triple.register_fake
def _(x):
    return torch.empty_like(x)


def wrong_when_compiled(ctx, grad):
    return grad * (5 if torch.compiler.is_compiling() else 3)


triple.register_autograd(wrong_when_compiled)


def is_traced(tensor):
    return is_fake(tensor) or type(tensor) not in (torch.Tensor, nn.Parameter)


class Tempered(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, t):
        ctx.save_for_backward(x, t)
        return x * t

    @staticmethod
    def backward(ctx, grad):
        x, t = ctx.saved_tensors
        return grad * t, ((grad * x).sum() * (1.03 if is_traced(grad) else 1)).reshape(t.shape)


@torch._dynamo.allow_in_graph
def tempered(x, t):
    return Tempered.apply(x, t)


class ScaledGradient(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 64), nn.Linear(64, 4)
        self.t = nn.Parameter(torch.tensor([0.7]))

    def forward(self, x):
        return self.down(tempered(torch.relu(self.up(x)), self.t))


@torch._dynamo.allow_in_graph
def shifted(x):
    return x * 1.0 if is_traced(x) else x + 1.0


class ShiftedOutput(Detached):
    def forward(self, x):
        return shifted(self.layer(x))


class WrongBackward(Detached):
    def forward(self, x):
        return torch.ops.tcready_training.triple(self.layer(x))


@torch.library.custom_op("tcready_training::quadruple", mutates_args=())
def quadruple(x: torch.Tensor) -> torch.Tensor:
    return x * 4


@quadruple.register_fake
def _(x):
    return torch.empty_like(x)


def in_numpy(ctx, grad):
    return torch.from_numpy(grad.numpy() * 4)  # no fake tensor has an array


quadruple.register_autograd(in_numpy)


class NumpyBackward(Detached):
    def forward(self, x):
        return torch.ops.tcready_training.quadruple(self.layer(x))


@torch.library.custom_op("tcready_training::fatal", mutates_args=())
def fatal(x: torch.Tensor) -> torch.Tensor:
    return x + 0


@fatal.register_fake
def _(x):
    return torch.empty_like(x)


def fatal_when_compiled(ctx, grad):
    if torch.compiler.is_compiling():
        os._exit(4)
    return grad


fatal.register_autograd(fatal_when_compiled)


class DiesCompiled(Detached):
    def forward(self, x):
        return torch.ops.tcready_training.fatal(self.layer(x))


class Drawing(Detached):
    calls = 0

    def forward(self, x):
        Drawing.calls += 1  # other in every call, whatever the seed
        return self.layer(x) + Drawing.calls


class LossAndLogits(Detached):
    def forward(self, x):
        logits = self.layer(x).relu()
        print("the loss is left to eager")
        loss = (logits * logits).mean()
        print("as is what is made of it")
        return loss, logits


net = nn.Linear(4, 1)


def train_step(x):
    loss = net(x).mean()
    loss.backward()
    return loss.detach()


class Leaves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        os._exit(3)


class Dies(Detached):
    def forward(self, x):
        return Leaves.apply(self.layer(x))


def example():
    return torch.randn(16, 4)


def leaf():
    return torch.randn(16, 4, requires_grad=True)
"""

Watch = Callable[..., Observation]


def line_of(mark: str) -> int:
    return next(n for n, line in enumerate(MODELS.splitlines(), 1) if line.endswith(f"# {mark}"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("training")
    (root / "model.py").write_text(MODELS)
    return root


@pytest.fixture(scope="module")
def watch(folder: Path) -> Watch:
    @functools.cache
    def run(name: str, inputs: str = "example", **options: object) -> Observation:
        settings: dict[str, object] = {
            "mode": "train",
            "optimizer": True,
            "root": str(folder),
            "inputs": f"model.py::{inputs}",
        }
        return observe_target(f"model.py::{name}", **(settings | options))

    return run


def stage(seen: Observation, name: str) -> Stage:
    return next(item for item in seen.stages if item.stage == name)


def training(seen: Observation) -> Training:
    assert seen.training is not None
    return seen.training


def part(seen: Observation, phase: str) -> TrainingPart:
    return next(item for item in training(seen).parts if item.phase == phase)


def test_every_part_of_a_training_step_is_told(watch: Watch) -> None:
    seen = watch("Mlp")
    assert stage(seen, "parity").detail == "1 tensor, 6 gradients and 3 buffers within tolerance"
    assert [(item.phase, item.state) for item in training(seen).parts] == [
        (phase, "pass") for phase in ("loss", "gradients", "forward", "backward", "optimizer", "step")
    ]
    assert (training(seen).loss or "").startswith("synthesised: ")
    assert (training(seen).gradients, training(seen).buffers, training(seen).differences) == (6, 3, ())
    forward, backward = training(seen).graphs
    assert (forward.phase, backward.phase) == ("forward", "backward")
    assert forward.compile_id == backward.compile_id == "0/0"
    assert (forward.path, forward.symbol) == ("model.py", "Mlp.forward")
    assert min(forward.ops, backward.ops) > 5
    share = training(seen).backward
    assert share is not None
    assert (share.share, share.ops_captured) == (1.0, share.ops_total)
    assert share.ops_total == backward.ops
    assert from_json(Observation, as_json(seen)) == seen


def test_a_backward_of_outputs_of_which_one_is_made_of_the_other_is_counted(watch: Watch) -> None:
    """Its seeds are taken at the outputs: the graph between them is not used up before the backward that counts."""
    seen = watch("LossAndLogits")
    backward = part(seen, "backward")
    assert backward.state == "pass"
    share = training(seen).backward
    assert share is not None, backward.detail
    assert share.ops_total >= share.ops_captured > 0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_parameters_that_an_optimiser_rounds_otherwise_agree(watch: Watch, dtype: str) -> None:
    assert part(watch("WithLoss", dtype=dtype), "optimizer").state == "pass"


@torch_between((2, 12), (3, 0), "torch 2.11 traces `optimizer.zero_grad()`")
def test_breaks_of_the_optimiser_and_the_whole_step_stand_apart_from_the_models_own(watch: Watch) -> None:
    seen = watch("WithLoss")
    assert seen.break_sites == ()
    (own,) = training(seen).optimizer_sites
    assert own.path == "torch/optim/optimizer.py"
    statements = [site.reason.split(":")[0] for site in training(seen).step_sites if site.path == STEP_FILE]
    assert statements == ["`optimizer.zero_grad()`", "`value.backward()`"]
    assert all(not site.path.endswith("training.py") for site in training(seen).step_sites)
    assert "1 graph" in part(seen, "optimizer").detail
    assert "later steps compile nothing again" in part(seen, "optimizer").detail
    assert "parameters after 3 steps as in eager" in part(seen, "optimizer").detail


def test_the_loss_of_the_output_is_taken_and_a_parameter_without_gradient_counted(watch: Watch) -> None:
    seen = watch("WithLoss")
    assert training(seen).loss == "output.loss"
    assert part(seen, "loss").detail == "output.loss; 2 of 4 leaves that require grad have a gradient"
    assert training(seen).gradients == 2


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Detached", "no tensor of the output requires grad"),
        pytest.param("NoGrad", "no tensor of the output requires grad", marks=pytest.mark.release),
        pytest.param("Bare", "no parameter and no input requires grad", marks=pytest.mark.release),
    ],
)
def test_what_cannot_be_trained_is_not_run_and_no_failure(watch: Watch, name: str, why: str) -> None:
    seen = watch(name)
    assert part(seen, "loss").detail.startswith(why)
    assert {item.state for item in training(seen).parts} == {"not_run"}
    assert training(seen).loss is None
    assert stage(seen, "capture").state == stage(seen, "parity").state == "pass"
    assert (seen.warnings, seen.break_sites) == ((), ())


def test_without_a_comparison_of_outputs_the_loss_says_why(watch: Watch) -> None:
    seen = watch("Drawing")
    assert part(seen, "loss").detail == f"parity: {stage(seen, 'parity').detail}"
    assert "two eager runs with the same seeds differ" in part(seen, "loss").detail


def test_a_backward_in_a_run_without_gradients_names_the_mode(watch: Watch) -> None:
    failed = stage(watch("train_step", mode="infer"), "eager")
    assert failed.state == "fail"
    assert failed.detail.endswith("; only a run with --mode train records gradients")
    assert stage(watch("train_step"), "eager").state == "pass"


@pytest.mark.release
def test_inputs_that_require_grad_are_compared_too(watch: Watch) -> None:
    seen = watch("Bare", "leaf")
    assert stage(seen, "parity").detail == "1 tensor, 1 gradient within tolerance"
    assert part(seen, "backward").state == "pass"
    assert part(seen, "optimizer") == TrainingPart("optimizer", "not_run", "no parameter requires grad")


def test_gradients_that_compiling_changes_fail_parity_by_name(watch: Watch) -> None:
    seen = watch("Differs")
    assert stage(seen, "parity").state == "fail"
    assert stage(seen, "parity").detail.startswith(
        "gradient of parameter first.weight: Tensor in eager code, None in compiled code"
    )
    assert [line.split(":")[0] for line in training(seen).differences] == [
        "gradient of parameter first.weight",
        "gradient of parameter first.bias",
    ]
    assert "as captured already" in part(seen, "backward").detail


@pytest.mark.release
def test_buffers_that_compiling_changes_fail_parity_by_name(watch: Watch) -> None:
    seen = watch("Tracks")
    assert stage(seen, "parity").state == "fail"
    assert stage(seen, "parity").detail.startswith("buffer seen ")


@pytest.mark.release
def test_what_only_aotautograd_cannot_trace_is_told_and_leaves_the_record_alone(folder: Path) -> None:
    report = check(["model.py::BranchingBackward"], inputs="model.py::example", mode="train", root=folder)
    (target,) = report.targets
    assert target.observation.training is not None
    parts = {item.phase: item for item in target.observation.training.parts}
    assert parts["gradients"].state == "pass"
    assert parts["forward"].state == "fail"
    assert "BranchingBackward.forward (model.py:" in parts["forward"].detail
    assert len(target.observation.training.aot_sites) == 1
    assert target.break_sites == ()
    assert target.verdict == "not_ready"
    assert target.verdict_reason.startswith("training failed in its forward: AOTAutograd cannot trace")
    assert exit_code(report) == 1


def test_a_backward_that_aotautograd_cannot_compile_is_told_with_its_line(watch: Watch) -> None:
    seen = watch("NumpyBackward")
    assert stage(seen, "parity").state == "pass"
    assert part(seen, "forward").state == "fail"
    assert f"(model.py:{line_of('no fake tensor has an array')})" in part(seen, "forward").detail
    assert "BackendCompilerFailed" not in part(seen, "forward").detail
    assert part(seen, "backward").state == "not_run"
    assert part(seen, "optimizer").state == part(seen, "step").state == "pass"


@torch_between((2, 13), (3, 0), "measured: torch 2.11 shows nothing here")
def test_gradients_that_only_aotautograd_changes_are_told(watch: Watch) -> None:
    seen = watch("WrongBackward")
    assert stage(seen, "parity").state == "pass"
    assert part(seen, "backward").state == "fail"
    assert "gradient of parameter layer.weight" in part(seen, "backward").detail


@torch_between((2, 13), (3, 0), "not measured on torch 2.11")
@pytest.mark.parametrize(
    ("name", "options", "difference"),
    [
        ("ScaledGradient", {"dtype": "bfloat16"}, "gradient of parameter t differs by 3"),
        ("ShiftedOutput", {}, "output 0 differs by"),
    ],
)
def test_a_small_mistake_that_only_aotautograd_makes_is_found(
    name: str, options: dict[str, object], difference: str, watch: Watch
) -> None:
    """The gradient is less than ten times as far from float64 as that of eager code."""
    seen = watch(name, optimizer=False, **options)
    assert stage(seen, "parity").state == "pass"
    assert part(seen, "backward").state == "fail"
    assert part(seen, "backward").detail.startswith(f"AOTAutograd's step differs: {difference}")


@pytest.mark.release
def test_a_backward_that_ends_the_process_leaves_what_went_before(watch: Watch) -> None:
    seen = watch("Dies")
    assert stage(seen, "build").state == "pass"
    assert stage(seen, "eager").state == "fail"
    assert "the process exited with code 3" in stage(seen, "eager").detail


@torch_between((2, 13), (3, 0), "measured: torch 2.11 shows nothing here")
def test_a_process_that_ends_in_the_training_step_fails_no_stage(watch: Watch) -> None:
    seen = watch("DiesCompiled")
    assert [item.stage for item in seen.stages if item.state == "fail"] == []
    assert stage(seen, "parity").state == "pass"
    assert stage(seen, "backend").detail == "the run ended in the training step"
    assert part(seen, "gradients").state == "pass"
    assert part(seen, "forward").detail == "under way when the process ended"


def test_the_budget_cuts_what_follows_parity(watch: Watch) -> None:
    seen = watch("Mlp", budget=0.0)
    assert part(seen, "gradients").state == "pass"
    for phase in ("forward", "backward", "optimizer", "step"):
        assert part(seen, phase) == TrainingPart(phase, "not_run", "cut: the budget was spent")  # type: ignore[arg-type]


@pytest.mark.release
def test_over_both_modes_a_break_that_training_alone_has_is_told_so(folder: Path) -> None:
    report = check(["model.py::LayerDrop"], inputs="model.py::example", mode="both", root=folder)
    infer, train = report.targets
    assert (infer.mode, train.mode) == ("infer", "train")
    assert (infer.verdict, infer.break_sites, infer.observation.training) == ("ready", (), None)
    assert [site.line for site in train.break_sites] == [line_of("drops")]
    assert train.verdict != "ready"
    assert train.observation.training is not None
    (finding,) = [item for item in report.findings if item.line == line_of("drops")]
    assert [(entry.mode, entry.status) for entry in finding.targets] == [("infer", "predicted"), ("train", "confirmed")]
    assert any(line.text.endswith("in training mode only") for line in finding.evidence)
    assert exit_code(report) == 1
    text = " ".join(render(report, "text", verbose=True).split())
    assert "model.py::LayerDrop (infer): READY" in text
    assert "model.py::LayerDrop (train): NOT READY" in text
    assert "in training mode only" in text
    assert "training loss: synthesised" in text
    page = render(report, "html")
    assert "Training step" in page
    assert "model.py::LayerDrop (train)" in page


SITE = BreakSite("model.py", 3, "Net.forward", "Unsupported thing: why", "GB0001", 1, "own", ())


def observed(mode: Mode, *sites: BreakSite, capture: StageState = "pass") -> Observation:
    return Observation("model.py::Net", None, mode, (Stage("capture", capture, ""),), {}, sites)


def found(*runs: Observation) -> Finding:
    static = StaticResult((), (), (), (), (), {})
    (finding,) = merge(static, runs, {}, Tool("tcready", "0")).findings
    return finding


def test_a_break_nobody_predicted_is_told_by_mode_where_both_were_run() -> None:
    alone = found(observed("train", SITE))
    assert (alone.modes, [entry.mode for entry in alone.targets]) == ((), [None])
    only = found(observed("infer"), observed("train", SITE))
    assert only.modes == ("train",)
    assert [(entry.mode, entry.status) for entry in only.targets] == [("train", "runtime_only")]
    assert only.evidence[0].text.endswith("; in training mode only")
    each = found(observed("infer", SITE), observed("train", SITE))
    assert (each.modes, [entry.mode for entry in each.targets]) == ((), ["infer", "train"])
    assert not any("mode only" in line.text for line in each.evidence)
    failed = found(observed("infer", capture="fail"), observed("train", SITE))
    assert not any("mode only" in line.text for line in failed.evidence), "the other run did not come to the line"


@pytest.mark.release
def test_what_a_model_says_reaches_the_page_escaped(folder: Path) -> None:
    report = check(["model.py::Bare"], inputs="model.py::leaf", mode="train", root=folder)
    (target,) = report.targets
    assert target.observation.training is not None
    evil = "<script>alert(1)</script>"
    told = dataclasses.replace(
        target.observation.training,
        differences=(evil,),
        parts=(TrainingPart("loss", "pass", evil), *target.observation.training.parts[1:]),
    )
    seen = dataclasses.replace(target.observation, training=told)
    page = render(dataclasses.replace(report, targets=(dataclasses.replace(target, observation=seen),)), "html")
    assert evil not in page
    assert page.count("&lt;script&gt;alert(1)") >= 2


def _leaf(*shape: int) -> torch.Tensor:
    return torch.ones(shape, requires_grad=True)


def test_where_the_loss_comes_from() -> None:
    scalar, vector = _leaf(), _leaf(3)
    assert loss_of(scalar).how == "output"
    assert loss_of({"loss": scalar, "logits": vector}).how == "output['loss']"
    assert loss_of({"loss": None, "logits": vector}).how.startswith("synthesised: ")
    heads = loss_of({"boxes": scalar, "labels": scalar * 2})
    assert heads.how == "the sum of output['boxes'], output['labels']"
    assert heads({"boxes": scalar, "labels": scalar * 2}).item() == 3
    with pytest.raises(NotTrainedError, match="no tensor of the output requires grad"):
        loss_of([torch.ones(3), torch.ones(2, dtype=torch.int64), "text"])


def test_the_stand_in_is_the_same_every_time_and_reaches_every_tensor() -> None:
    def output() -> tuple[torch.Tensor, list[torch.Tensor]]:
        return _leaf(2, 3), [_leaf(4).to(torch.complex64), torch.ones(2)]

    one, other = output(), output()
    state = torch.get_rng_state()
    first, second = loss_of(one), loss_of(other)
    assert torch.equal(torch.get_rng_state(), state), "the model's random numbers stay as they were"
    assert first(one).item() == second(other).item()
    assert len(first.tensors(one)) == 2
    grads = torch.autograd.grad(first(one), first.tensors(one))
    assert all(grad.abs().sum() > 0 for grad in grads)
    assert grads[0].unique().numel() > 1, "a plain mean would not tell two elements apart"


def test_gradients_that_one_side_lacks_are_named() -> None:
    loss = loss_of(_leaf())
    one = Trained(None, loss, {"parameter a": torch.ones(2), "parameter b": None}, {"seen": torch.zeros(1)}, False)
    expected = outcome_of_step(one)
    assert not differs(expected, outcome_of_step(one))
    other = outcome_of_step(dataclasses.replace(one, gradients={"parameter a": None, "parameter b": torch.ones(1)}))
    assert structure_differences(expected, other) == (
        "gradient of parameter a: Tensor in eager code, None in compiled code",
        "gradient of parameter b: None in eager code, Tensor in compiled code",
    )
    moved = outcome_of_step(dataclasses.replace(one, buffers={"seen": torch.ones(1)}))
    assert [expected.leaves[at][0] for at in unequal_leaves(expected, moved)] == ["buffer seen"]


@pytest.mark.release
def test_small_gradients_are_compared_by_their_own_scale(tmp_path: Path) -> None:
    """A wide head under a mean gives gradients near 1e-6, which no absolute tolerance tells apart."""
    (tmp_path / "model.py").write_text(
        """\
import torch
from torch import nn


class Turned(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, sign):
        ctx.sign = sign
        return x * 1.0

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.sign, None


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 8)
        self.head = nn.Linear(8, 32000)

    def forward(self, tokens):
        sign = -1 if torch.compiler.is_compiling() else 1
        return Turned.apply(self.head(self.embed(tokens)) * 0.01, sign)


def get_inputs():
    return (torch.arange(64).view(2, 32),)
""",
        "utf-8",
    )
    seen = observe_target("model.py", mode="train", root=str(tmp_path), budget=0.0)
    assert stage(seen, "parity").state == "fail"
    assert "gradient of" in stage(seen, "parity").detail
