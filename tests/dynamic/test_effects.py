"""What calls leave in a model and in their arguments is compared, and what a second call gives."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest
import torch
from observing import observe_target
from tcready.dynamic.worker.measure import effects
from tcready.dynamic.worker.torch_internals.compile_calls import memory_of
from tcready.schema.observation import Observation

pytestmark = pytest.mark.torch

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
            dedent("""\
            y = self.layer(x)
            if traced():
                self.layer.bias.add_(1.0)
            return y"""),
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


def test_a_small_part_of_a_tensor_is_kept_without_the_rest() -> None:
    logits = torch.randn(4, 512, 32)
    last = effects._detach_from_memory(logits[:, -1], set())
    assert torch.equal(last, logits[:, -1])
    assert memory_of(last) == last.numel() * last.element_size()
    assert effects._detach_from_memory(logits, set()) is logits


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


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        (
            dedent("""\
                if not hasattr(self, 'k'):
                    self.k = torch.empty(4, 64)
                y = self.layer(x)
                self.k[:, :16] = y
                return y"""),
            X,
        ),
        (
            dedent("""\
            import time
            y = self.layer(x)
            self.cache.fill_(time.perf_counter())
            return y"""),
            X,
        ),
        ("if not hasattr(self, 'lazy'):\n    self.lazy = 1\nreturn self.layer(x)", X),
    ],
    ids=["unwritten memory", "time", "flag"],
)
def test_state_that_differs_in_eager_code_too_is_no_mistake(tmp_path: Path, body: str, inputs: str) -> None:
    state, detail = parity(run(tmp_path, body, inputs))
    assert state == "pass", detail


ODD = """
import torch
from torch import nn


class Odd:
    __slots__ = ("_value",)

    def __getattr__(self, name):
        raise RuntimeError("not loaded yet")


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LazyLinear(8)
        self.odd = Odd()
        self.mixed = {"y": 1, 3: torch.zeros(2)}
        self.vocabulary = {at: str(at) for at in range(200_000)}

    def forward(self, x):
        return torch.tanh(self.layer(x))


class Wrong(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.cache = [torch.zeros(4, 8)]

    def forward(self, x):
        y = self.layer(x)
        self.cache = [y * 5, y * 7] if torch.compiler.is_compiling() else [y]
        return y


class Eleven(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        found = [self.layer(x) + at for at in range(11)]
        found[1] = noise(x)
        if torch.compiler.is_compiling():
            found[10] = found[10] * 2
        return tuple(found)


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, state):
        state["at"] += 2 if torch.compiler.is_compiling() else 1
        return self.layer(x)


@torch.compiler.disable
def noise(x):
    return torch.empty_like(x).uniform_(generator=torch.Generator().manual_seed(torch.seed() % 1000))


def x():
    return torch.randn(4, 8)


def with_state():
    return torch.randn(4, 8), {"at": 1}
"""


@pytest.mark.parametrize(
    ("name", "inputs", "state", "words"),
    [
        ("Lazy", "x", "pass", ""),
        ("Wrong", "x", "fail", "attribute cache[0]"),
        ("Eleven", "x", "fail", "output 10"),
        ("Counts", "with_state", "fail", "argument 1[at]"),
    ],
)
def test_odd_models(tmp_path: Path, name: str, inputs: str, state: str, words: str) -> None:
    tmp_path.joinpath("odd.py").write_text(ODD)
    seen = observe_target(f"odd.py::{name}", root=tmp_path, inputs=f"odd.py::{inputs}", plan=False, shapes=False)
    found, detail = parity(seen)
    assert (found, detail.startswith(words)) == (state, True), detail
