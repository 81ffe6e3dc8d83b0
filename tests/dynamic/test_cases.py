"""What one named case does, fails or hangs, leaves the others' results."""

from __future__ import annotations

from pathlib import Path

import pytest
from observing import observe_target
from tcready.schema import Observation, Stage

SOURCE = """\
import os
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, how: int):
        y = x * 2
        if how == 1:
            {what}
        if y.sum() > 0:  # breaks
            y = y + how
        return y


def get_inputs():
    cases = {{name: (torch.ones(2), how) for how, name in enumerate(("good", "bad", "other"))}}
    return {{"cases": cases}}
"""


def run(root: Path, what: str, **options: object) -> Observation:
    (root / "model.py").write_text(SOURCE.format(what=what), "utf-8")
    return observe_target("model.py::Model", inputs="model.py::get_inputs", root=root, **options)


def stage(seen: Observation, name: str) -> Stage:
    return next(stage for stage in seen.stages if stage.stage == name)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("os._exit(7)", "case bad: the process exited with code 7"),
        ("import ctypes; ctypes.string_at(0)", "case bad: the process died by SIGSEGV"),
        ("raise ValueError('no such thing')", "case bad: ValueError: no such thing (model.py:10)"),
    ],
)
def test_a_case_that_ends_leaves_the_others(tmp_path: Path, what: str, why: str) -> None:
    seen = run(tmp_path, what)
    assert stage(seen, "eager").state == "fail"
    assert stage(seen, "eager").detail.startswith(why)
    assert stage(seen, "capture").state == "pass"
    assert {site.case for site in seen.break_sites} == {"good", "other"}
    assert seen.coverage is not None


def test_a_case_that_hangs_has_its_share_of_the_time(tmp_path: Path) -> None:
    seen = run(tmp_path, "__import__('time').sleep(999)", timeout=60.0)
    detail = stage(seen, "eager").detail
    assert detail.startswith("case bad: no answer within 20 s, its share of 60 s")
    assert "model.py:10" in detail
    assert {site.case for site in seen.break_sites} == {"good", "other"}
