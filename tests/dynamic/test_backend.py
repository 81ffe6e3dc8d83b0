"""The stage `backend` with the real Inductor. A run compiles C++ and costs half a minute: few runs, many assertions."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from observing import observe_target
from tcready.merge import merge
from tcready.reports.html import document
from tcready.reports.text import summary_or_full
from tcready.schema.codec import as_json, from_json
from tcready.schema.observation import Observation, Stage
from tcready.schema.report import Tool
from tcready.schema.run import Backend, CudaGraphSkip, Fallback
from tcready.schema.static import StaticResult

pytestmark = pytest.mark.torch

MODEL = """\
import os
import signal
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return {"out": torch.cumprod(self.drop(torch.relu(self.layer(x))), 0)}


class Drops(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x * self.scale)


@torch.library.custom_op("tcr_backend::rows", mutates_args=())
def rows(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1)


@rows.register_fake
def _(x):
    return x.new_empty(x.shape[0] + 1)


class WrongFake(nn.Module):
    def forward(self, x):
        return rows(x) + 1


def dies(graph):
    os.kill(os.getpid(), signal.SIGSEGV)


class Dies(nn.Module):
    def __init__(self):
        super().__init__()
        torch._inductor.config.post_grad_custom_pre_pass = dies

    def forward(self, x):
        return x + 1


class Cancels(nn.Module):
    # What is summed nearly cancels: float32 keeps few digits of it, in whatever order.

    def forward(self, x):
        return torch.cat([x, -x.flip(-1) + 1e-4], -1).sum(-1)


class Differs(nn.Module):
    def forward(self, x):
        return x.sum(-1) * (1.01 if torch.compiler.is_compiling() else 1.0)


def example():
    return torch.ones(4, 8)


def rows_of_noise():
    return torch.randn(200, 4096) * 100


def examples():
    return {"cases": {"small": torch.ones(4, 8), "large": torch.ones(6, 8)}}
"""
compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler for the CPU")


def stage(seen: Observation, name: str = "backend") -> Stage:
    return next(stage for stage in seen.stages if stage.stage == name)


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Observation]:
    root = tmp_path_factory.mktemp("inductor")
    (root / "model.py").write_text(MODEL)

    def run(name: str, inputs: str = "example", budget: float | None = None, **options: Any) -> Observation:
        usual = {"inputs": f"model.py::{inputs}", "timeout": 300, "backend": True, "budget": budget}
        seen = observe_target(f"model.py::{name}", root=root, **(usual | options))
        assert from_json(Observation, as_json(seen)) == seen
        return seen

    return run


@compiler
@pytest.mark.release
def test_what_inductor_made_of_each_case(
    watch: Callable[..., Observation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Inductor's own default cache, and the run's room, lie below TMPDIR.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    seen = watch("Model", "examples")
    found = stage(seen)
    assert found.state == "pass", found.detail
    assert "cold" in found.detail
    assert [(item.case, item.mode) for item in seen.backend] == [("small", "default"), ("large", "default")]
    for item in seen.backend:
        assert item.kernels > 0
        assert item.extern_calls >= 2  # the matrix product and the fallback
        assert item.fallbacks == (Fallback("aten.cumprod", 1),)
        assert (item.cache_hits, item.cache_misses) == (1, 0)
        assert item.cold_seconds is not None
        assert item.warm_seconds is not None
        assert item.cold_seconds > item.warm_seconds > 0
        assert item.difference is not None
        assert item.difference <= 1e-4
        assert (item.tolerance, item.cudagraphs) == (None, None)  # no tolerance was given
    # Importing torch._dynamo makes the default folder; nothing is put there.
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert list(tmp_path.glob("tcready-*")) == []
    assert not any(frame.path.endswith(".py") and "torchinductor" in frame.path for frame in seen.executed)


@compiler
@pytest.mark.release
def test_training_compiles_the_backward_and_compares_what_is_drawn(watch: Callable[..., Observation]) -> None:
    seen = watch("Drops", mode="train")
    found = stage(seen)
    assert found.state == "pass", found.detail
    (item,) = seen.backend
    assert item.cache_hits == 2  # forward and backward
    assert item.difference is not None
    assert item.difference <= 1e-4


@compiler
def test_what_only_inductor_refuses_fails_the_stage_with_the_reason(watch: Callable[..., Observation]) -> None:
    seen = watch("WrongFake")
    assert stage(seen, "capture").state == "pass"
    found = stage(seen)
    assert found.state == "fail"
    assert "\n" not in found.detail
    assert "expected size" in found.detail
    nothing = StaticResult((), (), (), (), (), {})
    target = merge(nothing, [seen], {}, Tool("tcready", "test")).targets[0]
    assert target.verdict != "ready"
    assert "backend failed" in target.verdict_reason


@compiler
@pytest.mark.release
def test_compiled_code_is_not_blamed_for_the_rounding_of_eager_code(watch: Callable[..., Observation]) -> None:
    seen = watch("Cancels", "rows_of_noise")
    found = stage(seen)
    assert found.state == "pass", found.detail
    assert "(rounding): error against float64" in found.detail
    (item,) = seen.backend
    assert item.difference is not None
    assert item.difference > 1e-3


@compiler
def test_compiled_code_that_computes_something_else_is_found(watch: Callable[..., Observation]) -> None:
    found = stage(watch("Differs", "rows_of_noise"))
    assert (found.state, found.reason) == ("fail", "mismatch")
    assert found.detail == "differs from eager: output 0 differs by 1 %, and by 1 % in float64 too"


@compiler
@pytest.mark.release
def test_a_crash_of_the_compiler_leaves_what_was_established(watch: Callable[..., Observation]) -> None:
    seen = watch("Dies")
    found = stage(seen)
    assert (found.state, found.detail.split(" (")[0]) == ("fail", "the process died by SIGSEGV")
    states = {item.stage: item.state for item in seen.stages}
    assert {states[name] for name in ("eager", "capture", "fullgraph", "parity")} == {"pass"}
    assert seen.graphs
    assert seen.sources


def test_without_a_compiler_it_is_not_run(watch: Callable[..., Observation], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++")
    seen = watch("Model")
    found = stage(seen)
    assert found.state == "not_run"
    assert "needs a C++ compiler" in found.detail
    assert "CXX=/nowhere/g++" in found.detail
    assert seen.backend == ()


def test_a_spent_budget_is_told(watch: Callable[..., Observation]) -> None:
    found = stage(watch("Model", budget=0.0))
    assert (found.state, found.detail) == ("not_run", "the budget was spent before it began")


def test_the_reports_show_it() -> None:
    skip = CudaGraphSkip("skipping cudagraphs due to cpu device (<x>)", 2, "model.py", 9)
    backend = (
        Backend("default", None, 4.5, 0.2, 1, 0, 3, 2, (Fallback("aten.cumprod", 2),), 1e-7, 1e-3),
        Backend("reduce-overhead", "a", 6.0, kernels=3, cudagraphs=1, cudagraph_skips=(skip,)),
        Backend("reduce-overhead", "b", error="AcceleratorError: <operation failed> (model.py:9)"),
    )
    stages = (Stage("eager", "pass", ""), Stage("capture", "pass", "1 graph"), Stage("backend", "pass", "cold 4.5 s"))
    seen = Observation("model.py::Model", None, "infer", stages, {}, backend=backend)
    report = merge(StaticResult((), (), (), (), (), {}), [seen], {}, Tool("tcready", "test"))
    shown = summary_or_full.render(report)
    assert "compiled in 4.5 s, 0.2 s with a warm cache, 1 cache hit, 3 kernels, 2 extern calls" in shown
    assert "eager fallbacks: aten.cumprod x2" in " ".join(shown.split())
    assert "model.py:9 no CUDA graph: skipping cudagraphs due to cpu device (<x>) (x2)" in " ".join(shown.split())
    page = document.render(report)
    assert "<code>aten.cumprod</code> x2" in page
    assert "cpu device (&lt;x&gt;)" in page
    assert "reduce-overhead in b: AcceleratorError: <operation failed> (model.py:9)" in " ".join(shown.split())
    assert "AcceleratorError: &lt;operation failed&gt; (model.py:9)" in page
