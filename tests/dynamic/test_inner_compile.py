"""Operations in graphs that the author's own inner `torch.compile` makes count as captured."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from observing import observe_target
from tcready.schema.observation import Observation

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

HEAD = """\
import torch
from torch import nn


class Block(nn.Module):
    def forward(self, x):
        return (x.sin() + 1).relu() * 2


def get_inputs():
    return [torch.ones(3)]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {made}

"""
SKIPPED = """\
    def forward(self, x):
        for _ in range(1):
            print(end="")
            x = self.block(x)
        return x.cos()
"""
TRACED = """\
    def forward(self, x):
        return self.block(x).cos()
"""
MADE = {
    "function": 'self.block = torch.compile(Block(), backend="{backend}")',
    "method": 'self.block = Block(); self.block.compile(backend="{backend}")',
    "decorator": 'Block.forward = torch.compile(Block.forward, backend="{backend}"); self.block = Block()',
}


def run(root: Path, made: str, forward: str, backend: str = "eager") -> Observation:
    source = HEAD.replace("{made}", MADE[made].format(backend=backend)) + forward
    (root / "model.py").write_text(source)
    return observe_target("model.py::Model", root=root)


def shares(seen: Observation) -> tuple[int, int]:
    assert [stage.detail for stage in seen.stages if stage.state == "fail"] == []
    assert seen.coverage is not None
    return seen.coverage.ops_captured, seen.coverage.ops_total


@pytest.mark.parametrize(
    "made", [pytest.param(made, marks=pytest.mark.release) if made == "decorator" else made for made in MADE]
)
def test_a_block_that_its_author_compiles_below_a_skipped_frame(tmp_path: Path, made: str) -> None:
    seen = run(tmp_path, made, SKIPPED)
    assert shares(seen) == (4, 5), "cos alone runs in the skipped forward"
    assert any(frame.symbol == "Model.forward" and not frame.benign for frame in seen.skipped_frames)
    block = next(module for module in seen.modules if module.type == "Block")
    assert (block.ops_captured, block.ops) == (4, 4)


@pytest.mark.parametrize(
    "made", [pytest.param(made, marks=pytest.mark.release) if made == "method" else made for made in MADE]
)
def test_a_block_that_the_outer_compilation_traces_through(tmp_path: Path, made: str) -> None:
    seen = run(tmp_path, made, TRACED)
    assert shares(seen) == (5, 5)
    assert len(seen.graphs) == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler for the CPU")
def test_what_a_fusing_backend_captures_is_counted_by_operation(tmp_path: Path) -> None:
    assert shares(run(tmp_path, "function", SKIPPED, "inductor")) == (4, 5)
