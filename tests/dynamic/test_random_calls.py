"""Calls between which random generators run on: what compiles again for other numbers, and what keeps its first ones."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest
from observing import observe_target, report_of, torch_between
from tcready.schema.observation import Observation, Stage

pytestmark = pytest.mark.torch

MODEL = """\
import random

import numpy
import torch
from torch import nn


@torch.compiler.assume_constant_result
def frozen():
    return random.sample(range(6), 3)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(16, 16) for _ in range(6))
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
{body}


def get_inputs():
    return (torch.randn(4, 16),)
"""
VISITING = """
for index in {picked}:
    x = torch.tanh(self.heads[index](x))
return x
"""


def run(tmp_path: Path, body: str, **options: object) -> Observation:
    tmp_path.joinpath("net.py").write_text(MODEL.format(body=indent(body.strip(), " " * 8)))
    return observe_target("net.py::Model", root=tmp_path, **options)


def stage(seen: Observation, name: str) -> Stage:
    return next(each for each in seen.stages if each.stage == name)


@pytest.mark.parametrize(
    "picked",
    [
        pytest.param(
            "random.sample(range(6), 3)", marks=torch_between((2, 11), (2, 13), "from torch 2.14 on Dynamo folds it")
        ),
        "numpy.random.permutation(6)[:3].tolist()",
    ],
)
def test_an_order_that_compiles_again_for_each_call_is_a_finding(tmp_path: Path, picked: str) -> None:
    seen = run(tmp_path, VISITING.format(picked=picked), plan=True)
    assert stage(seen, "parity").state == "pass"
    assert [event.on_other_numbers for event in seen.recompiles] == [True]
    report = report_of(seen)
    assert "1 function that compiles again on every call" in report.targets[0].verdict_reason
    [finding] = [each for each in report.findings if each.effect == "recompile"]
    assert finding.level == "error"
    assert "compiles again on every call: " in finding.message
    assert "on calls with other random numbers, until the limit" in finding.evidence[0].text
    assert seen.plan is not None
    whole = next(item for item in seen.plan.alternatives if item.name == "whole")
    assert not whole.sound
    assert whole.reason == "compiles again for other random numbers, until the limit"
    assert seen.plan.code != whole.code


def test_an_order_that_is_frozen_into_the_graph_is_a_wrong_result(tmp_path: Path) -> None:
    """On torch 2.13 the author says that the order is constant; from 2.14 on Dynamo folds it by itself."""
    seen = run(tmp_path, VISITING.format(picked="frozen()"), plan=True)
    assert stage(seen, "parity").state == "fail"
    assert stage(seen, "parity").reason == "mismatch"
    assert "of call 2 differs" in stage(seen, "parity").detail
    assert "where random generators run on from call to call" in stage(seen, "parity").detail
    assert report_of(seen).targets[0].verdict_reason.startswith("parity failed: output 0 of call 2")
    assert seen.plan is not None
    assert not any(item.sound for item in seen.plan.alternatives if item.name == "whole")


@pytest.mark.parametrize("mode", ["infer", "train"])
def test_numbers_that_a_graph_draws_and_state_that_calls_change_agree(tmp_path: Path, mode: str) -> None:
    body = "self.seen = getattr(self, 'seen', 0) + x\nreturn self.drop(self.norm(x)) + torch.rand(4, 16) + self.seen"
    seen = run(tmp_path, body, mode=mode)
    assert stage(seen, "parity").state == "pass", stage(seen, "parity").detail
    assert not any(event.on_every_call for event in seen.recompiles)


def test_two_branches_of_chance_are_no_recompilation_on_every_call(tmp_path: Path) -> None:
    seen = run(tmp_path, "if random.random() < 0.5:\n    x = self.heads[0](x)\nreturn self.heads[1](x)")
    assert stage(seen, "parity").state == "pass"
    assert not any(event.on_every_call for event in seen.recompiles)


def test_an_eager_call_that_raises_for_other_numbers_is_told(tmp_path: Path) -> None:
    body = "if random.random() > 0.5:\n    raise ValueError('a rare branch')\nreturn self.heads[1](x)"
    seen = run(tmp_path, body)
    assert stage(seen, "parity").state == "pass"
    assert any("with other random numbers were not made" in line for line in seen.warnings)
