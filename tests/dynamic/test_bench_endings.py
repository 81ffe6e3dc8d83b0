"""Processes of a bench that end by themselves: in which arm, and why."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from measuring import measure
from tcready.schema.bench import Arm
from tcready.schema.enums import EAGER

MODEL = """\
import os

import torch
from torch import nn


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        return self.layer(x).relu().sin()


class Leaves(Plain):
    calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls > 15:
            leave()
        return super().forward(x)


def leave():
    raise SystemExit(0)


def example():
    return (torch.randn(2, 8),)
"""
DYNAMO = Arm("dynamo", 'model = torch.compile(model, backend="eager")')
DIES = Arm(
    "dies",
    dedent("""\
        n = [0]
        def b(gm, inputs):
            def f(*a):
                n[0] += 1
                if n[0] > 20:
                    __import__('os').abort()
                return gm(*a)
            return f
        model = torch.compile(model, backend=b)"""),
)
LEAVES_AT_ONCE = Arm("leaves", "__import__('os')._exit(3)")

pytestmark = pytest.mark.torch


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "m.py").write_text(MODEL)
    return tmp_path


def test_an_arm_that_dies_is_named_and_keeps_what_was_timed_before(root: Path) -> None:
    asked = {"seconds": 2.0, "blocks": 4}
    answer = measure("steady", "m.py::Plain", Arm(EAGER, ""), DIES, root=root, inputs="m.py::example", asked=asked)
    why = "the process died by SIGABRT, in code of the arm dies"
    assert (answer.ended_in, answer.failure) == ("dies", why)
    assert {row.arm: row.error for row in answer.measured} == {EAGER: "", "dies": why}


@pytest.mark.release
def test_code_that_ends_the_process_with_0_did_not_measure_all(root: Path) -> None:
    answer = measure("steady", "m.py::Leaves", Arm(EAGER, ""), root=root, inputs="m.py::example")
    assert answer.ended_in == EAGER
    assert answer.failure == "the process exited with code 0 before it was done, in code of the arm eager"


@pytest.mark.release
def test_an_arm_whose_lines_end_the_process_is_named(root: Path) -> None:
    arms = (Arm(EAGER, ""), DYNAMO, LEAVES_AT_ONCE)
    answer = measure("steady", "m.py::Plain", *arms, root=root, inputs="m.py::example")
    why = "the process exited with code 3, in code of the arm leaves"
    assert (answer.ended_in, answer.failure) == ("leaves", why)
    assert [row.error for row in answer.measured if row.arm == "leaves"] == [why]
