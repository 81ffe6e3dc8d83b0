"""Changes in proofs that round otherwise, and mistakes as small as rounding."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tcready.dynamic import RunRequest, prove
from tcready.fixes.rewriting.changes import changed
from tcready.portable.options import RunOptions
from tcready.schema.proof import ProofRequest, Trial, Variant
from tcready.static.frontend import source

# The bound of clamp() is no number of bfloat16: from torch 2.14 on the gradient of a value that equals it is 0.
MODEL = """\
import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(64, 64)
        self.parts = nn.Parameter(torch.randn(4, 16, 64) / 8)
        self.small = nn.Parameter(torch.full((64,), 1e-3))
        self.norm = nn.Parameter(torch.rand(64) + 0.5)

    def forward(self, x):
        y = self.lin(x)
        y = torch.relu(y) + y.abs() / 2
        spread = (y.double() + 1000).var(-1).to(y.dtype)
        mean = y.float().pow(2).mean(-1, keepdim=True)
        y = (y.float() * torch.rsqrt(mean + 1e-5)).to(y.dtype) * self.norm
        y = y + self.small
        z = torch.cat([F.linear(y, part) for part in self.parts], -1)
        z = z.clamp(max=1.503)
        s = torch.softmax(z.float(), -1).to(z.dtype)
        total = s[:, 0] * 0
        for i in range(64):
            total = total + s[:, i] * z[:, i]
        if y.sum() > 0:
            z = z * 2
        else:
            z = z / 3
        return z, s, total, spread


def get_inputs():
    return [torch.randn(16, 64)]
"""
MEAN = "        mean = y.float().pow(2).mean(-1, keepdim=True)\n"
SCALED = "        y = (y.float() * torch.rsqrt(mean + 1e-5)).to(y.dtype) * self.norm\n"
PARTS = "z = torch.cat([F.linear(y, part) for part in self.parts], -1)"
LOOP = "        total = s[:, 0] * 0\n        for i in range(64):\n            total = total + s[:, i] * z[:, i]\n"
BRANCH = "        if y.sum() > 0:\n            z = z * 2\n        else:\n            z = z / 3\n"
ADDED = "        y = y + self.small\n"
RIGHT = {
    "both sides of a branch": (BRANCH, "        z = torch.where(y.sum() > 0, z * 2, z / 3)\n"),
    "a fused norm": (MEAN + SCALED, "        y = F.rms_norm(y, (64,), self.norm, 1e-5)\n"),
    "one product for a loop": (PARTS, "z = torch.einsum('bi,poi->bpo', y, self.parts).flatten(1)"),
    "a sum for a loop": (LOOP, "        total = (s * z).sum(-1)\n"),
    "another formula": ("torch.rsqrt(mean + 1e-5)", "1 / torch.sqrt(mean + 1e-5)"),
    "where for a sum": ("torch.relu(y) + y.abs() / 2", "torch.where(y > 0, y * 1.5, y * -0.5)"),
}
WRONG = {
    "a small bias dropped": (ADDED, ""),
    "a scale": ("torch.rsqrt(mean + 1e-5)", "torch.rsqrt(mean + 1e-5) * 1.01"),
    "an epsilon": ("mean + 1e-5", "mean + 1e-6"),
    "a row": (ADDED, f"{ADDED}        y = torch.cat((y[:3], y[2:3], y[4:]))\n"),
    "a cast lost": ("(y.double() + 1000)", "(y + 1000)"),
    "rounding of an intermediate result": ("(y.double() + 1000)", "(y.double() + 1000).bfloat16()"),
    "a clamp dropped": ("        z = z.clamp(max=1.503)\n", ""),
    "another axis": ("torch.softmax(z.float(), -1)", "torch.softmax(z.float(), 0)"),
}


def shown(folder: Path, dtype: str | None, changes: Mapping[str, tuple[str, str]]) -> Mapping[str, Trial]:
    path = folder / "model.py"
    path.write_text(MODEL)
    variants = []
    for name, (old, new) in changes.items():
        assert MODEL.count(old) == 1, name
        text = MODEL.replace(old, new)
        differs = changed(str(path), source.of_text(path, MODEL), source.of_text(path, text))
        variants.append(Variant(name, ((str(path), text),), (), differs.functions))
    result = prove(
        RunRequest("model.py::Model", RunOptions(inputs="model.py::get_inputs", dtype=dtype), str(folder)),
        ProofRequest(tuple(variants), variants[0].functions, seeds=(0, 1), seconds=4.0),
    )
    assert result.failure is None
    return {trial.name: trial for trial in result.trials}


@pytest.mark.torch
@pytest.mark.parametrize(
    ("dtype", "step"),
    [("bfloat16", 3), *(pytest.param(dtype, 1, marks=pytest.mark.release) for dtype in ("bfloat16", "float16", None))],
)
def test_rounding_agrees_and_a_mistake_does_not(dtype: str | None, step: int, tmp_path: Path) -> None:
    right, wrong = [*RIGHT][::step], [*WRONG][::step]
    trials = shown(tmp_path, dtype, {name: {**RIGHT, **WRONG}[name] for name in (*right, *wrong)})
    assert {name: trials[name].difference for name in right} == dict.fromkeys(right)
    assert all(trials[name].compiled_calls for name in right)
    assert [name for name in wrong if trials[name].difference is None] == []
    assert {trials[name].differs for name in wrong} <= {"value", "gradient"}
