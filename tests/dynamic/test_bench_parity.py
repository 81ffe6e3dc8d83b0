"""Compiled code beside eager code and float64: what differs, and what is rounding."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from measuring import CAPTURED, measure
from tcready.dynamic.worker.bench import variant_parity as parity
from tcready.dynamic.worker.bench.variant_parity import losses_differ
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.frames import FrameNames
from tcready.dynamic.worker.core.journal import Journal
from tcready.dynamic.worker.core.request import Work
from tcready.dynamic.worker.measure.call_outcome import CallOutcome
from tcready.dynamic.worker.measure.precision import case_in_float64, tolerance
from tcready.portable.options import RunOptions
from tcready.schema.bench import Arm, ParityMeasured

DEFAULT = Arm("default", "model = torch.compile(model)")
TRAINED = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.drop = nn.Dropout(0.5)

    def forward(self, x, drop=False):
        out = torch.tanh(self.layer(x))
        return self.drop(out) if drop else out


class WrongGradient(Model):
    def forward(self, x):
        out = super().forward(x)
        return out + 0.1 * (out - out.detach()) if torch.compiler.is_compiling() else out


class Noise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * (0.5 + torch.rand_like(grad))


class DrawsInBackward(Model):
    def forward(self, x):
        return Noise.apply(super().forward(x))


class RestoresGenerator(Model):
    def noisy(self, x):
        return super().forward(x) + torch.rand_like(x)

    def forward(self, x):
        state = torch.get_rng_state()
        out = self.noisy(x)
        torch.set_rng_state(state)
        return out


class Remembers(Model):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4, 6))

    def forward(self, x, read=False):
        if read:
            return super().forward(x) + self.seen
        self.seen.copy_(x)
        return super().forward(x)


def written_then_read():
    return {"cases": {"writes": torch.randn(4, 6), "reads": {"x": torch.randn(4, 6), "read": True}}}


class Shifted(Model):  # not all that differs between models of two seeds is in parameters and buffers
    def __init__(self):
        super().__init__()
        self.shift = float(torch.rand(()))

    def forward(self, x):
        return super().forward(x) + self.shift


def inputs():
    return {"cases": {"plain": torch.randn(4, 6), "drops": {"x": torch.randn(4, 6), "drop": True}}}


def one():
    return torch.randn(4, 6)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("trained")
    (root / "model.py").write_text(TRAINED)
    return root


@pytest.mark.torch
def test_compiled_code_that_computes_something_else_is_found() -> None:
    (found,) = measure("parity", "differs.py", CAPTURED).measured
    parity = found.parity
    assert parity is not None
    assert parity.same is False
    assert parity.detail == "output 0 of call 1 differs by 2 %, and by 2 % in float64 too (seed 0)"
    assert (parity.seeds, parity.eager_differs, parity.layouts) == (3, False, ("non-contiguous", "expanded"))
    assert parity.error == pytest.approx(0.02, rel=1e-3)
    assert parity.eager_error is not None
    assert parity.eager_error < 1e-5


@pytest.mark.torch
def test_training_compares_gradients_losses_and_what_is_drawn(trained: Path) -> None:
    answer = measure("parity", "model.py::Model", CAPTURED, root=trained, inputs="model.py::inputs", mode="train")
    assert [found.case for found in answer.measured] == ["plain", "drops"]
    plain, drops = (found.parity or ParityMeasured(None) for found in answer.measured)
    for each in (plain, drops):
        assert (each.same, each.detail, each.seeds, each.gradients) == (True, "", 3, 2)
        assert len(each.losses) == 3
        assert all(one == pytest.approx(other, rel=1e-3) for one, other in each.losses)
        assert len(dict(each.losses)) == 3  # it learns
    assert plain.error is drops.error is None, "nothing differs"


@pytest.mark.torch
@pytest.mark.release
def test_an_arm_compiled_for_one_seed_is_not_blamed_for_what_another_one_draws(trained: Path) -> None:
    (found,) = measure("parity", "model.py::Shifted", CAPTURED, root=trained, inputs="model.py::one").measured
    assert found.parity is not None
    assert (found.parity.same, found.parity.detail, found.parity.seeds) == (True, "", 3)


def test_a_large_model_keeps_its_weights_for_further_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work("net.py::Net", RunOptions(), "/")
    context = Context(
        work,
        Journal(work, None, None),
        FrameNames("/", ()),
        build=lambda: torch.nn.Linear(4, 4),
        build_as=lambda mode, seed: torch.nn.Linear(4, seed),
    )
    assert parity._with_seed(context, 2).build().weight.shape == (2, 4)
    monkeypatch.setattr(parity, "SMALL", 0)
    assert parity._with_seed(context, 2).build().weight.shape == (4, 4)


def test_what_shares_memory_shares_it_in_float64() -> None:
    whole = torch.arange(6.0)
    wide = case_in_float64(Case(None, (whole, whole[2:4]), {}))
    wide.args[0][2] = 7.0
    assert wide.args[1].tolist() == [7.0, 3.0]
    assert wide.args[1].dtype == torch.float64
    assert whole[2] == 2.0


@pytest.mark.torch
@pytest.mark.release
def test_a_case_does_not_see_what_another_one_left(trained: Path) -> None:
    answer = measure("parity", "model.py::Remembers", CAPTURED, root=trained, inputs="model.py::written_then_read")
    assert [(found.parity or ParityMeasured(None)).same for found in answer.measured] == [True, True]


CALLED_AGAIN = """\
import random

import numpy
import torch
from torch import nn

compiling = torch.compiler.is_compiling


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)
        self.calls = 0

    def forward(self, x, kind, cache=None):
        if kind == "ties":
            share = torch.softmax(x, -1)
            ordered = share.flip(-1) if compiling() else share  # the same sum, rounded otherwise
            sums = ordered.sum(-1)
            return sums >= 1.0, torch.stack([sums, share.cumsum(-1)[:, -1]]).argmax(0)
        out = self.layer(x)
        if kind == "wrong":
            return out.argmax(-1) + (1 if compiling() else 0)
        if kind == "grows":
            cache["keys"] = torch.cat([cache["keys"], out])
            return cache["keys"].sum(0) * (2 if compiling() and len(cache["keys"]) > 9 else 1)
        if kind == "draws":
            return out * random.random() * float(numpy.random.rand())
        self.calls += 1
        return out * (2 if compiling() and self.calls > 1 else 1)


def inputs():
    cases = {kind: {"x": torch.randn(64, 16), "kind": kind} for kind in ("ties", "wrong", "later", "draws")}
    cases["grows"] = {"x": torch.randn(1, 16), "kind": "grows", "cache": {"keys": torch.randn(8, 16)}}
    return {"cases": cases}
"""


@pytest.mark.torch
@pytest.mark.release
def test_later_calls_are_compared_and_whole_numbers_may_flip_where_rounding_decides(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(CALLED_AGAIN)
    answer = measure("parity", "model.py::Model", CAPTURED, root=tmp_path, inputs="model.py::inputs")
    found = {row.case: row.parity or ParityMeasured(None, row.error) for row in answer.measured}
    assert (found["ties"].same, found["ties"].detail) == (True, "")
    assert (found["wrong"].same, found["later"].same, found["grows"].same) == (False, False, False)
    assert "64 of 64 values of torch.int64 differ" in found["wrong"].detail
    assert found["later"].detail.startswith("output 0 of call 2 ")
    assert found["grows"].detail.startswith("output 0 of call 2 ")
    assert (found["draws"].eager_differs, found["draws"].same) == (False, True), found["draws"].detail


class _Cache:
    def __init__(self) -> None:
        self.layers = [{"keys": torch.ones(2, dtype=torch.bfloat16), "length": torch.tensor(2)}]


def test_what_stands_in_objects_is_in_float64_too() -> None:
    cache = _Cache()
    wide = case_in_float64(Case(None, (cache,), {"same": cache.layers[0]["keys"]}))
    (copied,) = wide.args
    assert copied.layers[0]["keys"].dtype == torch.float64
    assert copied.layers[0]["length"].dtype == torch.int64
    assert wide.kwargs["same"] is copied.layers[0]["keys"]
    assert cache.layers[0]["keys"].dtype == torch.bfloat16


@pytest.mark.torch
@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler for the CPU")
@pytest.mark.release
def test_a_compile_that_outlasts_its_time_leaves_an_answer() -> None:
    answer = measure("parity", "slow_compile.py", DEFAULT, timeout=10)
    assert answer.failure is not None
    assert "10 s" in answer.failure


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(("name", "mode"), [("DrawsInBackward", "train"), ("RestoresGenerator", "infer")])
@pytest.mark.sampled(8)
def test_random_numbers_are_the_same_wherever_they_are_drawn(name: str, mode: Any, trained: Path) -> None:
    answer = measure(
        "parity",
        f"model.py::{name}",
        DEFAULT,
        root=trained,
        inputs="model.py::one",
        mode=mode,
        asked={"first_seed_only": True},
    )
    (found,) = answer.measured
    assert found.parity is not None
    assert found.parity.same is True, found.parity.detail


@pytest.mark.torch
def test_each_arm_is_judged_by_itself_and_a_wrong_gradient_of_right_outputs_is_found(trained: Path) -> None:
    arms = (Arm("broken", "model = torch.compile(model, backend='no_such_one')"), CAPTURED)
    answer = measure("parity", "model.py::WrongGradient", *arms, root=trained, inputs="model.py::one", mode="train")
    broken, captured = answer.measured
    assert "no_such_one" in broken.error
    assert broken.parity is not None
    assert broken.parity.same is None
    assert captured.error == ""
    assert captured.parity is not None
    assert captured.parity.same is False
    assert captured.parity.detail.startswith("gradient of layer.weight")


@pytest.mark.parametrize(
    ("compiled", "exact", "differs"),
    [
        ([1.0, 0.5], None, False),
        ([1.0, 0.6], None, True),
        ([1.0, 0.6], [1.0, 0.52], False),
        ([1.0, float("nan")], None, True),
    ],
)
def test_losses_are_compared_step_by_step(compiled: list[float], exact: list[float] | None, differs: bool) -> None:
    found = losses_differ([1.0, 0.5], compiled, exact, 1e-3)
    assert (found.text is not None) is differs
    assert found.text is None or found.text.startswith("loss of training step 2: 0.5 became")
    assert not found.unsure


def test_losses_that_float64_does_not_rule_out_are_not_the_same() -> None:
    found = losses_differ([1.0, 0.5], [1.0, 0.8], [1.0, 0.4], 1e-3)
    assert found.text == "loss of training step 2: 0.5 became 0.8"
    assert found.unsure


@pytest.mark.parametrize(
    ("options", "output", "parameters", "exact", "allowed"),
    [
        ({}, torch.float32, torch.float32, True, 1e-4),
        ({"mode": "train"}, torch.float32, torch.float32, True, 1e-3),
        ({}, torch.float64, torch.float64, True, 1e-6),
        ({}, torch.float32, torch.bfloat16, True, 1e-2),
        ({"mode": "train"}, torch.bfloat16, torch.float32, True, 2e-2),
        ({"autocast": "float16"}, torch.float32, torch.float32, True, 1e-2),
        ({}, torch.int64, torch.float32, True, 1e-4),
        ({"device": "cuda"}, torch.float32, torch.float32, True, 1e-4),
        ({"device": "cuda"}, torch.float32, torch.float32, False, 1e-2),
        ({"device": "cpu"}, torch.float32, torch.float32, False, 1e-4),
    ],
)
def test_what_may_differ_follows_the_coarsest_type_and_the_mode(
    options: dict[str, Any], output: torch.dtype, parameters: torch.dtype, exact: bool, allowed: float
) -> None:
    """Without float64 to tell how far eager code is off, TF32 in convolutions on CUDA counts as a coarse type."""
    work = Work("net.py::Net", RunOptions(**options), "/")
    context = Context(work, Journal(work, None, None), FrameNames("/", ()))
    seen = CallOutcome((("output 0", torch.zeros(2, dtype=output)),), ())
    model = torch.nn.Conv1d(1, 1, 1).to(parameters)
    assert tolerance(context, model, seen, exact=exact) == allowed
