"""A call with inputs of the same sizes and other values: what compiled code cannot take, and what it has frozen."""

from __future__ import annotations

from pathlib import Path

import pytest
from observing import observe_target, report_of, torch_between
from tcready.schema.observation import Observation, Stage

pytestmark = pytest.mark.torch

MODEL = """\
import torch
from torch import nn


@torch.compiler.assume_constant_result
def largest(x):
    return float(x.abs().max())


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x, gain=1.0):
        y = self.lin(x)
        {body}


def get_inputs():
    return (torch.full((4, 8), 2.0){more},)
"""


def run(root: Path, body: str, more: str = "") -> Observation:
    (root / "net.py").write_text(MODEL.format(body=body, more=more))
    return observe_target("net.py::Model", root=root)


def stage(seen: Observation, name: str) -> Stage:
    return next(each for each in seen.stages if each.stage == name)


@torch_between((2, 14), (2, 99), "until 2.13 such a number does not become a symbol")
def test_a_number_that_is_formatted_raises_for_another_value(tmp_path: Path) -> None:
    seen = run(tmp_path, 'return y * len(f"{y.mean().item():.3f}")')
    assert stage(seen, "capture").state == "pass"
    parity = stage(seen, "parity")
    assert (parity.state, parity.reason) == ("fail", "compile_error")
    assert "called with other values, compiled code raised InternalTorchDynamoError" in (parity.detail or "")
    assert "net.py:" in (parity.detail or "")
    [target] = report_of(seen).targets
    assert target.verdict == "not_ready"


@torch_between((2, 14), (2, 99), "until 2.13 such a number does not become a symbol")
def test_an_integer_argument_that_is_formatted_raises_for_another_value(tmp_path: Path) -> None:
    seen = run(tmp_path, 'return y * len(f"{gain:05d}")', ", 7")
    parity = stage(seen, "parity")
    assert (parity.state, parity.reason) == ("fail", "compile_error")


@pytest.mark.parametrize("body", ["return y.reshape(gain, -1)", "return y[:gain].sum() + gain"])
def test_an_integer_that_is_a_size_passes(body: str, tmp_path: Path) -> None:
    """If eager code refuses another integer, the call is made with the same one."""
    seen = run(tmp_path, f"print(); {body}", ", 4")
    assert stage(seen, "parity").state == "pass"
    assert not [text for text in seen.warnings if "other values" in text]


def test_a_number_that_is_kept_from_the_first_call_is_a_mistake(tmp_path: Path) -> None:
    seen = run(tmp_path, "print(); return y * largest(x)")
    parity = stage(seen, "parity")
    assert parity.state == "fail"
    assert "called with other values" in (parity.detail or "")


@pytest.mark.parametrize(("body", "more"), [("print(y.mean().item()); return y", ""), ("return y * gain", ", 1.5")])
def test_code_that_takes_any_value_passes(tmp_path: Path, body: str, more: str) -> None:
    seen = run(tmp_path, body, more)
    assert stage(seen, "capture").state == "pass"
    assert stage(seen, "parity").state == "pass"


def test_state_that_counts_calls_is_no_mistake(tmp_path: Path) -> None:
    body = "self.lin.calls = getattr(self.lin, 'calls', 0) + 1; print(); return y * self.lin.calls"
    seen = run(tmp_path, body)
    assert stage(seen, "parity").state == "pass"


def test_what_refuses_other_values_is_said(tmp_path: Path) -> None:
    seen = run(tmp_path, 'print(); assert float(x[0, 0]) == 2.0, "twos are needed"; return y')
    assert stage(seen, "capture").state == "pass"
    told = [text for text in seen.warnings if "a call with other values was not made" in text]
    assert len(told) == 1
    assert "twos are needed" in told[0]
