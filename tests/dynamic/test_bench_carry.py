"""Compiled code that another process saved: how it is saved, loaded and compared, and that its lines run as they are shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tcready.dynamic import RunRequest, bench
from tcready.portable.options import RunOptions
from tcready.schema.bench import Arm, BenchAnswer, BenchRequest, CarriedCode, CarryWay

pytestmark = [pytest.mark.torch, pytest.mark.slow]
DEFAULT = Arm("default", "model = torch.compile(model)")
MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 16)
        self.b = nn.BatchNorm1d(16)
        self.factor = 2.5

    def forward(self, x, scale=1.0):
        return {"y": torch.relu(self.b(self.a(x))) * self.factor * scale}


class Breaks(Net):
    def forward(self, x):
        y = self.a(x)
        if y.sum() > 0:
            y = y + 1
        return self.b(y)


class Hooked(Net):
    def __init__(self):
        super().__init__()
        self.register_forward_hook(lambda module, args, output: {"y": output["y"] + 1})


def one():
    return (torch.ones(4, 8),), {"scale": 2.0}


def plain():
    return torch.ones(4, 8)


def two():
    return {"cases": {"small": torch.ones(2, 8), "large": torch.ones(6, 8)}}
"""


def has_capture() -> bool:
    try:
        from torch.compiler.precompile import capture
    except ImportError:
        return False
    return callable(capture)


LINES = """\
import torch
from net import Net, one

torch.manual_seed({seed})
model = Net().eval()
args, kwargs = one()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(MODEL)
    return tmp_path


def carry(root: Path, name: str, inputs: str = "one", way: CarryWay | None = None, **options: object) -> BenchAnswer:
    request = BenchRequest("carry", (DEFAULT,), way=way, carried=str(root / f"carried-{name}"))
    run = RunRequest(f"net.py::{name}", RunOptions(inputs=f"net.py::{inputs}", timeout=300, **options), str(root))  # type: ignore[arg-type]
    return bench(run, request)


def by_way(answer: BenchAnswer) -> dict[str, CarriedCode]:
    assert answer.failure is None
    return {each.way: each for each in answer.carried}


def run_lines(root: Path, code: str, seed: int, cache: str) -> str:
    """Run lines in a process with an empty cache; return what it prints of the output."""
    shown = (
        "\nif 'output' in globals():\n    print(output['y'].sum().item(), model(*args, **kwargs)['y'].sum().item())\n"
    )
    text = LINES.format(seed=seed) + code + shown
    (root / "lines.py").write_text(text)
    environment = {"PATH": "/usr/bin:/bin", "TORCHINDUCTOR_CACHE_DIR": str(root / cache), "HOME": str(root)}
    done = subprocess.run(
        [sys.executable, "lines.py"],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_function_is_saved_for_every_case_loaded_and_compared(root: Path) -> None:
    saved = by_way(carry(root, "Net", "two"))["aot_compile"]
    assert saved.error == ""
    assert saved.bytes is not None
    assert saved.bytes > 1000
    assert saved.save_seconds is not None
    (loaded,) = carry(root, "Net", "two", way="aot_compile").carried
    assert (loaded.error, loaded.same, loaded.detail) == ("", True, "")
    assert loaded.seconds is not None
    assert loaded.load_seconds is not None
    assert 0 < loaded.load_seconds <= loaded.seconds + 0.1


def test_the_shown_lines_run_in_processes_of_their_own(root: Path) -> None:
    """The second process has other weights: what was loaded takes those of its model."""
    ways = [each for each in by_way(carry(root, "Net")).values() if not each.error]
    assert "aot_compile" in {each.way for each in ways}
    for way in ways:
        run_lines(root, way.save_code, 0, "one")
        loaded, eager = map(float, run_lines(root, way.load_code, 1, f"two-{way.way}").split())
        assert loaded == pytest.approx(eager, rel=1e-4)


def test_a_graph_break_is_the_reason_why_a_function_cannot_be_saved(root: Path) -> None:
    found = by_way(carry(root, "Breaks", "plain"))["aot_compile"]
    assert found.seconds is None
    assert "data-dependent" in found.error.lower()
    assert "\n" not in found.error


def test_a_hook_that_the_loaded_function_skips_is_a_difference(root: Path) -> None:
    assert by_way(carry(root, "Hooked"))["aot_compile"].error == ""
    (loaded,) = carry(root, "Hooked", way="aot_compile").carried
    assert loaded.same is False
    assert "differs" in loaded.detail


def test_what_is_not_measured_says_why(root: Path) -> None:
    found = by_way(carry(root, "Net", mode="train"))
    assert found["aot_compile"].error == "not measured for a training step"
    assert found["aot_compile"].save_code.endswith('compiled.save_compiled_function("model.aot")')
    if not has_capture():
        assert found["precompile"].error == "this torch has no torch.compiler.precompile.capture"


@pytest.mark.skipif(not has_capture(), reason="torch.compiler.precompile.capture came with torch 2.15")
def test_a_precompiled_function_is_loaded_and_compared(root: Path) -> None:
    saved = by_way(carry(root, "Net", "two"))["precompile"]
    assert saved.error == ""
    (loaded,) = carry(root, "Net", "two", way="precompile").carried
    assert (loaded.error, loaded.same) == ("", True)
    assert loaded.seconds is not None


@pytest.mark.release
def test_a_start_with_artifacts_of_the_caches_has_its_lines_and_a_comparison(root: Path) -> None:
    run = RunRequest("net.py::Net", RunOptions(inputs="net.py::one", timeout=300), str(root))
    path = root / "saved.artifacts"
    first, second = (bench(run, BenchRequest("cold", (DEFAULT,), artifacts=str(path))) for _ in range(2))
    assert (first.carried, first.failure, second.failure) == ((), None, None)
    (found,) = second.carried
    assert (found.way, found.arm, found.same, found.bytes) == ("cache_artifacts", "default", True, path.stat().st_size)
    cold = second.measured[0].cold
    assert cold is not None
    assert cold.seconds == found.seconds
    assert found.load_seconds is not None
    run_lines(root, found.save_code, 0, "one")
    loaded, eager = map(float, run_lines(root, found.load_code, 1, "two").split())
    assert loaded == pytest.approx(eager, rel=1e-4)
