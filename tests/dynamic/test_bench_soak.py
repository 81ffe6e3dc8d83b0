"""A long run of one arm, and a model beside its data loader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from measuring import CAPTURED, measure
from tcready.dynamic.worker.bench.endurance import drift, growth, judge_soak, steady_growth
from tcready.schema.bench import Arm, Soak, SoakPoint
from tcready.schema.enums import EAGER

MIB = 1 << 20


@pytest.mark.torch
def test_a_model_that_keeps_its_outputs_is_found() -> None:
    answer = measure("soak", "leaks.py", Arm(EAGER, ""), asked={"seconds": 3.0})
    soak = answer.soak
    assert soak is not None, answer.failure
    assert soak.state == "fail"
    assert "resident memory grows steadily, by" in soak.reason
    assert soak.growth_bytes_per_hour is not None
    assert soak.growth_bytes_per_hour > 1 << 30
    assert len(soak.points) == 20
    assert soak.calls == sum(point.calls for point in soak.points)
    assert soak.recompiles == 0


@pytest.mark.torch
@pytest.mark.release
def test_a_model_that_is_compiled_in_each_call_is_found() -> None:
    answer = measure("soak", "recompiles.py", CAPTURED, asked={"seconds": 2.0})
    assert answer.soak is not None, answer.failure
    assert answer.soak.state == "fail"
    assert "Dynamo reached its limit of recompilations" in answer.soak.reason


LABELLED = """\
import time

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, x):
        return self.layer(x)


def inputs():
    return torch.randn(4, 8)


BATCHES = [{"y": torch.ones(4, 8)}]
FEW = [torch.ones(4, 8)] * 2


def never():
    while True:
        try:
            time.sleep(0.1)
        except Exception:
            pass
    yield
"""


@pytest.mark.torch
def test_a_model_that_waits_for_its_loader() -> None:
    answer = measure("loader", "loader_bound.py", asked={"loader": "loader_bound.py::make_loader"})
    share = answer.loader
    assert share is not None, answer.failure
    assert share.batches == 16
    assert share.loader_seconds > 0.02  # four rows of 5 ms
    assert share.bound is not None
    rest = share.loader_seconds + share.copy_seconds
    assert share.bound == pytest.approx((rest + share.model_seconds) / rest)


@pytest.mark.torch
def test_batches_that_the_model_does_not_take_are_said(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(LABELLED)
    asked = {"loader": "model.py::BATCHES"}
    answer = measure("loader", "model.py::Model", root=tmp_path, asked=asked, inputs="model.py::inputs")
    assert answer.loader is None
    assert answer.failure is not None
    assert answer.failure.startswith("the model does not take a batch of the loader: TypeError")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("loader", "why"),
    [
        ("FEW", "model.py::FEW gives 2 batches: the first 2 do not count"),
        ("never", "model.py::never gives no batches within 2 s"),
    ],
)
@pytest.mark.sampled(3)
def test_a_loader_that_gives_too_few_batches_says_nothing(tmp_path: Path, loader: str, why: str) -> None:
    (tmp_path / "model.py").write_text(LABELLED)
    asked = {"loader": f"model.py::{loader}", "seconds": 2.0}
    answer = measure("loader", "model.py::Model", root=tmp_path, asked=asked, inputs="model.py::inputs")
    assert (answer.loader, answer.failure) == (None, why)


def soaked(sizes: Sequence[int], recompiles: Sequence[int] = (), drifted: float = 0.0) -> Soak:
    again = [*recompiles, *[0] * (len(sizes) - len(recompiles))]
    points = tuple(
        SoakPoint(float(number), 10, 0.1, None, size, None, count)
        for number, (size, count) in enumerate(zip(sizes, again, strict=True))
    )
    return Soak("default", float(len(sizes)), 10 * len(sizes), points, sum(again), None, drifted)


LEVEL = [1000 * MIB] * 20


@pytest.mark.parametrize(
    ("soak", "fastest", "state", "words"),
    [
        (soaked(LEVEL), 0.0, "pass", "in 200 calls of 20 s memory did not grow steadily"),
        (soaked([size + 2 * MIB * n for n, size in enumerate(LEVEL)]), 0.0, "fail", "grows steadily"),
        (soaked([size + 50 * MIB * (n > 14) for n, size in enumerate(LEVEL)]), 0.0, "pass", ""),  # a jump
        (soaked([size + 50 * MIB * (n % 2) for n, size in enumerate(LEVEL)]), 0.0, "pass", ""),  # a saw
        (soaked([size + 50 * MIB * min(n, 10) for n, size in enumerate(LEVEL)]), 0.0, "pass", ""),
        (soaked(LEVEL, [3]), 0.0, "pass", "it compiled again 3 times in the first half"),
        (soaked(LEVEL, [1] * 20), 0.0, "fail", "it still compiles again: 10 times in the second half"),
        (soaked(LEVEL, drifted=0.2), 0.19, "fail", "calls got 20% slower"),
        (soaked(LEVEL, drifted=0.2), 0.01, "pass", "others use the machine"),
        (soaked(LEVEL[:3]), None, "not_measured", "too slow"),
    ],
)
def test_what_a_soak_shows(soak: Soak, fastest: float | None, state: str, words: str) -> None:
    found, reason = judge_soak(soak, fastest)
    assert found == state, reason
    assert words in reason


def test_growth_is_that_of_the_second_half() -> None:
    sizes = [0] * 10 + [MIB * n for n in range(10)]
    assert growth(soaked(sizes).points) == pytest.approx(3600 * MIB)
    assert steady_growth(sizes[10:]) == pytest.approx(7 * MIB)
    assert steady_growth([None] * 10) is None


def test_the_order_of_the_cases_is_no_drift() -> None:
    slow_first: list[dict[str | None, float]] = [{"slow": 9.0, "fast": 1.0}, {"slow": 9.0}, {"fast": 1.0}]
    assert drift(slow_first) is None or drift(slow_first) == 0.0
    assert drift([{None: 1.0}] * 4 + [{None: 1.5}] * 4) == pytest.approx(0.5)
