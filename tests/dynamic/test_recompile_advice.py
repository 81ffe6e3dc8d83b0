"""What a trace's advice on recompilations says, tried under real Dynamo: a line that it gives ends them, and where it says
that no setting does, none does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tcready.traces import read

MODELS = """\
import torch
from torch import nn


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x, k):
        self.step += 1
        return x * self.step


class Repeats(nn.Module):
    def forward(self, x, k):
        for _ in range(k):
            x = x + 1
        return x


class RepeatsItsOwn(nn.Module):
    def __init__(self):
        super().__init__()
        self.times = 1

    def forward(self, x, k):
        for _ in range(self.times):
            x = x + 1
        return x


class Scales(nn.Module):
    def forward(self, x, k):
        return x * k


FACTOR = 1


class OfTheFile(nn.Module):
    def forward(self, x, k):
        return x * FACTOR


class Rows(nn.Module):
    def forward(self, x, k):
        for row in range(x.shape[0]):
            x = x + row
        return x


class Sized(nn.Module):
    def forward(self, x, k):
        return x + 1
"""
JOB = """\
import json, sys
import torch
from torch._dynamo.testing import CompileCounter
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError
import net

given = json.loads(sys.argv[1])
SETTINGS = {
    "Scales": {"specialize_int": True},
    "Sized": {"automatic_dynamic_shapes": False},
    "RepeatsItsOwn": {"allow_unspec_int_on_nn_module": True},
}
counts = {}
for name in ("Counter", "Repeats", "RepeatsItsOwn", "Scales", "OfTheFile", "Rows", "Sized"):
    torch._dynamo.reset()
    with torch._dynamo.config.patch({**SETTINGS.get(name, {}), "recompile_limit": 16}):
        line = given.get(name) or ""
        if "config" in line:
            exec(line)
        counter, model = CompileCounter(), getattr(net, name)()
        compiled = torch.compile(model, backend=counter)
        for k in range(2, 8):
            x = torch.ones(k if name in ("Rows", "Sized") else 4, 3)
            net.FACTOR = model.times = k
            try:
                if "mark" in line:
                    exec(line)
                compiled(x, k)
            except ConstraintViolationError as error:  # what a mark gives where the code needs the size
                counts[name] = type(error).__name__
                break
        counts.setdefault(name, counter.frame_count)
print(json.dumps(counts))
"""
NO_LINE = ("Repeats", "RepeatsItsOwn", "OfTheFile", "Rows")
ATTEMPTS = {
    "Repeats": "torch._dynamo.config.assume_static_by_default = False",
    "RepeatsItsOwn": "torch._dynamo.config.assume_static_by_default = False",
    "OfTheFile": "torch._dynamo.config.allow_unspec_int_on_nn_module = True",
    "Rows": "torch._dynamo.mark_dynamic(x, 0)",
}
"""What one might think of there."""


def job(folder: Path, given: dict[str, str | None], trace: str | None = None) -> dict[str, int | str]:
    """How often each model is compiled, with a line given for some."""
    environment = {**os.environ, **({"TORCH_TRACE": trace} if trace else {})}
    done = subprocess.run(
        [sys.executable, "job.py", json.dumps(given)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.torch
@pytest.mark.release
def test_the_lines_that_are_given_end_recompilations_and_where_none_is_given_none_does(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODELS)
    (tmp_path / "job.py").write_text(JOB)
    before = job(tmp_path, {}, "trace")
    assert set(before.values()) == {6}
    given: dict[str, str | None] = {}
    for seen in read(("trace",), tmp_path).observations:
        assert seen.trace is not None
        for item in seen.trace.advice:
            given[item.symbol.partition(".")[0]] = item.code
            if item.symbol.startswith(("Repeats", "Rows")):
                assert "needs its value" in item.text
    assert set(given) == set(before)
    assert {name for name, line in given.items() if line is None} == set(NO_LINE)
    after = job(tmp_path, given)
    assert {name: after[name] for name in given if name not in NO_LINE} == {"Counter": 2, "Scales": 2, "Sized": 1}
    tried = job(tmp_path, ATTEMPTS)
    assert {name: tried[name] for name in NO_LINE} == {
        "Repeats": 6,
        "RepeatsItsOwn": 6,
        "OfTheFile": 6,
        "Rows": "ConstraintViolationError",
    }
