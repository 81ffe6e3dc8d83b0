"""Numbers that Dynamo may make symbolic, formatted with a specification: which raise is data of each version."""

from __future__ import annotations

from pathlib import Path

import pytest
from tcready import api

MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, step{annotation}):
        y = x * 2
        name = {text}
        return y * len(name)


def get_inputs():
    return torch.randn(4, 8), {given}
"""


def predicted(root: Path, text: str, version: str, annotation: str = "", given: str = "7") -> bool:
    (root / "model.py").write_text(MODEL.format(text=text, annotation=annotation, given=given))
    report = api.check(["model.py"], run=False, root=root, torch_version=version)
    return any(each.rule == "TCR427" for each in report.findings)


@pytest.mark.parametrize("annotation", ["", ": int"])
@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ('f"{step:05d}"', {"2.14", "2.15"}),
        ('f"{step * 2:05d}"', {"2.11", "2.12", "2.13", "2.14", "2.15"}),
        ('f"{x.shape[0]:3d}"', {"2.11", "2.12", "2.13", "2.14", "2.15"}),
        ('f"{step:>8}"', set()),
        ('f"{x.shape[0]:>{4}}"', set()),
        ('f"{step!r:>8}"', set()),
        ('f"{step}"', set()),
        ('f"{step:>99999999999}"', set()),
        ('f"{step:{len(str(x))}d}"', set()),  # not known
    ],
)
def test_a_number_is_predicted_to_raise_where_it_does(
    text: str, versions: set[str], annotation: str, tmp_path: Path
) -> None:
    assert {
        each for each in ("2.11", "2.12", "2.13", "2.14", "2.15") if predicted(tmp_path, text, each, annotation)
    } == versions


def test_an_argument_that_is_assigned_is_none(tmp_path: Path) -> None:
    assert not predicted(tmp_path, 'f"{step:05d}"; step = 3', "2.15")


@pytest.mark.parametrize("given", ["True", "'7'", "None"])
def test_what_is_no_number_is_not_reported(given: str, tmp_path: Path) -> None:
    assert not predicted(tmp_path, 'f"{step:05d}"', "2.15", given=given)


def test_a_function_that_runs_eagerly_makes_no_symbol(tmp_path: Path) -> None:
    """Up to torch 2.14, a function that calls a recurrent module is not compiled from there on."""
    init = "    def __init__(self):\n        super().__init__()\n        self.rnn = nn.LSTM(8, 8)\n\n    def forward"
    model = MODEL.replace("    def forward", init).replace("y = x * 2", "y = self.rnn(x)[0]")
    found = {}
    for version in ("2.14", "2.15"):
        (tmp_path / "model.py").write_text(model.format(text='f"{y.mean().item():.3f}"', annotation="", given="7"))
        report = api.check(["model.py"], run=False, root=tmp_path, torch_version=version)
        found[version] = {each.rule for each in report.findings}
    assert found == {"2.14": {"TCR406"}, "2.15": {"TCR201", "TCR406", "TCR427"}}
