"""What calls leave in a model and in their arguments is compared, and what a second call gives."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest
from observing import observe_target
from tcready.schema.observation import Observation

pytestmark = pytest.mark.dynamo

PREAMBLE = """
import torch
from torch import nn

traced = torch.compiler.is_compiling


class Cache:
    def __init__(self, *shape):
        self.keys = [torch.zeros(shape)]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)
        self.register_buffer("cache", torch.zeros(4, 16))
        self.plain = torch.zeros(4, 16)
        self.calls = 0

    def forward(self, x, *rest):
{body}


def get_inputs():
    return {inputs}
"""
X = "(torch.randn(4, 16),)"


def run(tmp_path: Path, body: str, inputs: str = X, **options: object) -> Observation:
    source = PREAMBLE.format(body=indent(dedent(body).strip(), " " * 8), inputs=inputs)
    tmp_path.joinpath("net.py").write_text(source)
    return observe_target("net.py::Model", root=tmp_path, plan=False, shapes=False, **options)


def parity(seen: Observation) -> tuple[str, str]:
    stage = next(each for each in seen.stages if each.stage == "parity")
    return stage.state, stage.detail or ""


@pytest.mark.parametrize(
    ("body", "inputs", "name"),
    [
        ("y = self.layer(x)\nself.cache.copy_(y * 0.97 if traced() else y)\nreturn y", X, "buffer cache"),
        ("y = self.layer(x)\nself.plain = y * 0.97 if traced() else y\nreturn y", X, "attribute plain"),
        (
            "y = self.layer(x)\nif traced():\n    self.layer.bias.add_(1.0)\nreturn y",
            X,
            "parameter layer.bias",
        ),
        (
            "y = self.layer(x)\nrest[0][:, 1 if traced() else 0] = y\nreturn y",
            "(torch.randn(4, 16), torch.zeros(4, 3, 16))",
            "argument 1",
        ),
        (
            "y = self.layer(x)\nrest[0].keys[0].copy_(-y if traced() else y)\nreturn y",
            "(torch.randn(4, 16), Cache(4, 16))",
            "argument 1",
        ),
    ],
    ids=["buffer", "attribute", "parameter", "argument", "object"],
)
def test_a_mistake_in_what_a_call_writes_is_found(tmp_path: Path, body: str, inputs: str, name: str) -> None:
    state, detail = parity(run(tmp_path, body, inputs))
    assert state == "fail"
    assert detail.startswith(name)


def test_a_mistake_in_the_second_call_is_found(tmp_path: Path) -> None:
    body = """
    self.calls += 1
    y = self.layer(x)
    return y * 1.03 if traced() and self.calls > 1 else y
    """
    state, detail = parity(run(tmp_path, body))
    assert state == "fail"
    assert detail.endswith("in the second call")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rounding_of_a_cache_is_no_mistake(tmp_path: Path, dtype: str) -> None:
    body = """
    y = self.layer(x)
    y = x @ self.layer.weight.t() + self.layer.bias if traced() else y
    self.cache.copy_(torch.softmax(y, -1))
    return y + self.cache
    """
    state, detail = parity(run(tmp_path, body, dtype=dtype))
    assert state == "pass", detail


def test_an_output_that_the_next_call_writes_to_is_compared_as_it_was(tmp_path: Path) -> None:
    body = """
    self.cache.add_(self.layer(x))
    return self.cache
    """
    state, detail = parity(run(tmp_path, body))
    assert (state, detail) == ("pass", "1 tensor within tolerance")


def test_a_model_that_counts_its_calls_agrees(tmp_path: Path) -> None:
    body = """
    self.calls += 1
    self.cache[0, self.calls % 16] = 1.0
    return self.layer(x) + self.cache * self.calls
    """
    state, detail = parity(run(tmp_path, body))
    assert state == "pass", detail


def test_what_only_eager_code_caches_is_no_mistake(tmp_path: Path) -> None:
    body = """
    if traced():
        return self.layer(x) + torch.arange(16.0).sin()
    if not hasattr(self, "known"):
        self.known = torch.arange(16.0).sin()
    return self.layer(x) + self.known
    """
    state, detail = parity(run(tmp_path, body))
    assert state == "pass", detail
