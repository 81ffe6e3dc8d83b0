"""Rewritten code keeps its tensors on the device of the inputs: it runs on fake CUDA tensors, which raise at a mix."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch
from rewriting import assert_same, change, forward, loaded
from torch._subclasses import FakeTensorMode

BODIES = {
    "drawn in the test": dedent("""\
        y = x * 2
        if torch.rand(1) < 0.5:
            y = y + 1
        return y"""),
    "drawn before": "keep = torch.rand(()) < 0.5\nout = torch.relu(x) if keep else torch.tanh(x)\nreturn out",
    "of two operands": dedent("""\
        y = x * 2
        if torch.rand(()) < 0.5 and x.sum() > 0:
            y = y + 1
        return y"""),
    "early": "if torch.randn(1) > 0:\n    return x + 1\nreturn x - 1",
    "numbers": "scale = 0.1 if x.sum() > 0 else 0.3\nreturn x * scale",
    "numbers, drawn": dedent("""\
        if torch.rand(1) < 0.5:
            scale = 2.0
        else:
            scale = 0.5
        return x * scale"""),
    "bounded": "if (x > 3).any():\n    x = x.clamp(max=3)\nreturn x + 1",
    "device given": "if torch.rand(1, device=x.device) < 0.5:\n    x = x + 1\nreturn x",
}


def on_cuda(text: str) -> torch.Tensor:
    """What the model gives for a CUDA tensor; raises where devices are mixed."""
    with FakeTensorMode(), torch.no_grad():
        made = loaded(text)(torch.empty(4, 8, device="cuda"))
    assert isinstance(made, torch.Tensor)
    return made


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_what_is_written_stays_on_the_device(body: str, tmp_path: Path) -> None:
    before = forward(body)
    after = change(tmp_path, before)
    assert on_cuda(after).device.type == "cuda"

    def inputs() -> tuple[Any, ...]:
        torch.manual_seed(1)
        return (torch.randn(4, 8, dtype=torch.float64, requires_grad=True),)

    assert_same(before, after, inputs)


def test_a_mix_of_devices_raises() -> None:
    with pytest.raises(RuntimeError, match="device"):
        on_cuda(forward("return torch.where(torch.rand(4, 8) < 0.5, x, -x)"))


def test_numbers_in_a_list_keep_their_digits(tmp_path: Path) -> None:
    before = forward("table = [0.1, 0.7, 1.3]\nk = x.argmax() % 3\nreturn x + table[k]")
    after = change(tmp_path, before)

    def inputs() -> tuple[Any, ...]:
        return (torch.arange(4, dtype=torch.float64) * 1e-9,)

    assert torch.equal(loaded(before)(*inputs()), loaded(after)(*inputs()))
    assert loaded(after)(torch.zeros(4, dtype=torch.bfloat16)).dtype == torch.bfloat16
