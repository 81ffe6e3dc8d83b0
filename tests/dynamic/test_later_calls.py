"""Settings and edits in later calls of one compiled model: state that grows, other values and lengths, and training steps,
under real Dynamo."""

from __future__ import annotations

from pathlib import Path

import pytest
from tcready import api
from tcready.dynamic import RunRequest, prove
from tcready.fixes.rewriting.changes import changed
from tcready.portable.options import RunOptions
from tcready.schema.enums import Mode
from tcready.schema.proof import ProofRequest, Trial, Variant
from tcready.static.frontend import source

pytestmark = pytest.mark.torch

MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)
        self.seen = []
        self.by_call = {}
        self.calls = 0
        self.last = 0.0
        self.keys = None

    def forward(self, x, number, mask):
        y = self.lin(x)
        BODY
        return torch.relu(y) + 1


def get_inputs():
    return [torch.randn(6, 8), torch.tensor(3), torch.tensor([True, False, True, True, False, True])]
"""
SCALARS, SIZES = "capture_scalar_outputs", "capture_dynamic_output_shape_ops"
INTEGERS = "allow_unspec_int_on_nn_module"


def model(*lines: str) -> str:
    return MODEL.replace("BODY", "\n        ".join(lines))


def tried(
    folder: Path, text: str, *settings: str, edited: tuple[str, str] | None = None, mode: Mode = "infer"
) -> Trial:
    """Try settings of a model, and an edit of its source."""
    path = folder / "model.py"
    path.write_text(text)
    variant, functions = Variant("change", settings=settings), ()
    if edited is not None:
        assert text.count(edited[0]) == 1
        after = text.replace(*edited)
        differs = changed(str(path), source.of_text(path, text), source.of_text(path, after))
        functions = differs.functions
        variant = Variant("change", ((str(path), after),), settings, functions)
    found = prove(
        RunRequest("model.py::Model", RunOptions(inputs="model.py::get_inputs", mode=mode), str(folder)),
        ProofRequest((variant,), functions),
    )
    assert found.failure is None
    return found.trials[0]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("body", "calls", "guard"),
    [
        ("self.seen.append(x.sum().item())", "with the same inputs", "len(self.seen) == 4"),
        ("self.by_call[len(self.by_call)] = x.norm().item()", "with the same inputs", "len(self.by_call) == 4"),
        ("self.calls += 1; y = y * self.calls + x.sum().item()", "with the same inputs", "self.calls == 4"),
        ("y = sum([y] * number.item())", "with other values", "number.item() == 7"),
    ],
)
def test_a_setting_is_refused_if_each_call_compiles_again(body: str, calls: str, guard: str, tmp_path: Path) -> None:
    trial = tried(tmp_path, model(body), SCALARS)
    assert trial.difference is None
    assert trial.not_lasting == (
        f"each call {calls} recompiles `Model.forward` (guard `{guard}`); at Dynamo's recompile limit, the code runs eagerly"
    )


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("body", "settings"),
    [
        ("self.last = x.sum().item()", (SCALARS,)),
        ("y = y[:, : number.item()]", (SCALARS,)),
        ("y = y + torch.zeros(int(mask.sum()), 8).sum()", (SCALARS,)),
        ("index = mask.nonzero()[:, 0]; y = y[index] + torch.ones(index.shape[0], 8)", (SIZES,)),
        ("self.calls += 1; y = y * self.calls + x.sum().item()", (SCALARS, INTEGERS)),
        (
            "key = y.detach(); self.keys = key if self.keys is None else torch.cat([self.keys, key]); "
            "self.last = key.max().item(); y = y @ self.keys.t()",
            (SCALARS,),
        ),
    ],
    ids=["last value", "slice", "zeros", "nonzero", "counter", "cache"],
)
def test_a_setting_holds_if_later_calls_use_what_is_compiled(
    body: str, settings: tuple[str, ...], tmp_path: Path
) -> None:
    trial = tried(tmp_path, model(body), *settings)
    assert trial.observation.break_sites == ()
    assert (trial.difference, trial.not_lasting, trial.condition, trial.recompiled) == (None,) * 4


SPLIT = ("k = number.item()", "y = torch.cat([self.lin(x[:k]), x[k:]]).view(-1, 4)")


def test_a_setting_that_raises_for_empty_inputs_holds_except_for_these(tmp_path: Path) -> None:
    """The backend `eager` takes them."""
    trial = tried(tmp_path, model(*SPLIT), SCALARS)
    assert trial.difference is None
    assert (trial.condition or "").startswith(
        "for empty inputs: compiled with `aot_eager`, it raises BackendCompilerFailed: Pending"
    )


BACKWARD = ("rows = y[mask]", "y = nn.functional.pad(rows.t(), (0, 6 - mask.sum().item())).t().cumsum(0).prod(0)")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["train", "infer"])
def test_a_setting_is_tried_in_training(mode: Mode, tmp_path: Path) -> None:
    trial = tried(tmp_path, model(*BACKWARD), SCALARS, SIZES, mode=mode)
    assert trial.observation.break_sites == ()
    found = trial.notice if mode == "infer" else trial.difference
    assert "it raises BackendCompilerFailed: " in (found or "")
    assert (trial.difference is None) == (mode == "infer")


LOWERED = ("rows = y[mask]", "y = nn.functional.conv1d(rows.t()[None], torch.ones(1, 8, 2), padding=1)")


@pytest.mark.parametrize("mode", [pytest.param("train", marks=pytest.mark.release), "infer"])
def test_a_setting_is_compiled_with_inductor(mode: Mode, tmp_path: Path) -> None:
    """It cannot generate code for each graph that AOTAutograd traces: here the length of a convolution is unknown."""
    trial = tried(tmp_path, model(*LOWERED), SIZES, mode=mode)
    assert trial.observation.break_sites == ()
    words = "training" if mode == "train" else "inference"
    assert (trial.difference or "").startswith(f"compiled with Inductor in {words}, it raises InductorError: ")


def test_an_edit_says_what_still_compiles_at_every_call(tmp_path: Path) -> None:
    trial = tried(tmp_path, model("self.seen.append(1)", "y = y * 2"), edited=("y * 2", "2 * y"))
    assert (trial.difference, trial.not_lasting) == (None, None)
    assert trial.recompiled == "`Model.forward` (guard `len(self.seen) == 4`)"


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("body", "settings"),
    [
        ("y = y + torch.zeros(int(mask.nonzero().max()), 8).sum()", {SCALARS, SIZES}),
        ("self.last = self.last + (x.mean().item() - self.last) / 2", {SCALARS}),
    ],
    ids=["both are needed", "one is needed"],
)
def test_settings_are_a_smallest_set(body: str, settings: set[str], tmp_path: Path) -> None:
    """In the second model the number becomes a buffer, which is tried with all settings that the break names."""
    (tmp_path / "model.py").write_text(model(body))
    found = api.fix("model.py", root=tmp_path, verify=True).result
    assert (found.breaks_before, found.breaks_after) == (1, 0)
    assert {name for change in found.changes for name in change.settings} == settings
