"""Checks of tensors whose exception a caller catches, in another file than the one that is changed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from types import MappingProxyType

import pytest
from tcready.dynamic import RunRequest, prove
from tcready.fixes.rewriting.changes import changed
from tcready.portable.options import RunOptions
from tcready.schema.proof import ProofRequest, Trial, Variant
from tcready.static.frontend import source

CHECK = "    if x.sum() > 1000:\n        raise ValueError('large')\n    return x\n"
CHECKS = dedent("""\
    import torch


""") + "\n\n".join(
    f"def {name}(x):\n{CHECK}" for name in ("in_a_try", "suppressed", "further_out", "of_another_type", "by_nobody")
)
MODEL = """\
import contextlib

import checks
from checks import by_nobody, suppressed
from torch import nn

ERRORS = (KeyError, ValueError)


class Inner(nn.Module):
    def forward(self, x):
        return checks.further_out(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        x = x.sigmoid()
        try:
            x = checks.in_a_try(x)
        except ValueError:
            x = x * 0
        with contextlib.suppress(ERRORS):
            x = suppressed(x)
        try:
            x = self.inner(x)
        except Exception:
            pass
        try:
            x = checks.of_another_type(x)
        except KeyError:
            pass
        except ValueError:
            self.training = False
            raise
        return by_nobody(x)


def get_inputs():
    import torch

    return (torch.randn(4, 8),)
"""
OPERATOR = """\
import torch


@torch.library.custom_op("checks::large_unless", mutates_args=())
def _large_unless(holds: torch.Tensor) -> None:
    if not holds:
        raise ValueError("large")


_large_unless.register_fake(lambda holds: None)
_large_unless.register_effect(torch.library.EffectType.ORDERED)
"""
ASSERTED = "    if torch.compiler.is_compiling():\n        _large_unless(torch.logical_not(x.sum() > 1000))\n    elif"
IS_CAUGHT = {"in_a_try": True, "suppressed": True, "further_out": True, "of_another_type": False, "by_nobody": False}


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Trial]:
    folder = tmp_path_factory.mktemp("caught")
    path = folder / "checks.py"
    path.write_text(CHECKS)
    (folder / "model.py").write_text(MODEL)
    before = source.of_text(path, CHECKS)
    variants = []
    for name in IS_CAUGHT:
        head, tail = CHECKS.replace("import torch\n", OPERATOR).split(f"def {name}(x):\n")
        after = f"{head}def {name}(x):\n{tail.replace('    if', ASSERTED, 1)}"
        differs = changed(str(path), before, source.of_text(path, after))
        variants.append(Variant(name, ((str(path), after),), (), differs.functions))
    result = prove(
        RunRequest("model.py::Model", RunOptions(inputs="model.py::get_inputs"), str(folder)),
        ProofRequest(tuple(variants), tuple(place for each in variants for place in each.functions)),
    )
    assert result.failure is None
    return MappingProxyType({trial.name: trial for trial in result.trials})


@pytest.mark.torch
def test_a_check_that_compiled_code_makes_later_is_refused_where_its_caller_catches_it(
    trials: Mapping[str, Trial], subtests: pytest.Subtests
) -> None:
    for name, is_caught in IS_CAUGHT.items():
        with subtests.test(name=name):
            trial = trials[name]
            if is_caught:
                assert trial.differs == "compiled"
                assert "only compiled code raises ValueError: large" in (trial.difference or "")
            else:
                assert trial.difference is None
                assert trial.compiled_calls > 3


def test_what_the_calls_under_way_catch(tmp_path: Path) -> None:
    from tcready.dynamic.worker.proof.exception_handlers import caught_around

    def seen() -> tuple[type[BaseException], ...]:
        return caught_around(sys._getframe(1), "observe_call")

    kinds = (OSError, KeyError)
    try:
        with contextlib.suppress(IndexError), open(tmp_path / "a", "w"):
            inner = seen()
    except kinds:
        inner = ()
    else:
        outer = seen()
    assert inner[:3] == (OSError, KeyError, IndexError)
    assert not {OSError, KeyError, IndexError} & {*outer}


INSIDE = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        try:
            n = int(x.sum().item())
        except (ValueError, OverflowError):
            n = 0
        return x * n


def get_inputs():
    return (torch.randn(4, 8),)
"""


@pytest.mark.torch
def test_a_setting_by_which_an_exception_leaves_its_try_is_refused(tmp_path: Path) -> None:
    """Python raises at an infinity; where the number is captured, that comes when the graph has run."""
    (tmp_path / "model.py").write_text(INSIDE)
    result = prove(
        RunRequest("model.py::Model", RunOptions(inputs="model.py::get_inputs"), str(tmp_path)),
        ProofRequest((Variant("captured", (), ("capture_scalar_outputs",)),)),
    )
    assert result.failure is None
    assert result.trials[0].differs == "compiled"
    assert "only compiled code raises OverflowError" in (result.trials[0].difference or "")
