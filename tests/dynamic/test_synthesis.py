"""Inputs that nobody gives, made up from what the module wants and what its forward complains of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tcready.api import check, exit_code
from tcready.dynamic.worker.core.case import RunError
from tcready.dynamic.worker.core.request import Work
from tcready.dynamic.worker.inputs import synthesis
from tcready.dynamic.worker.inputs.loading import build
from tcready.dynamic.worker.inputs.synthesis import TRIES, synthesise
from tcready.portable.options import RunOptions
from torch import nn
from torch.nn import functional

WORK = Work("model.py::Net", RunOptions(), ".")


def made(model: Any) -> str:
    """The label; and the inputs are taken by the model."""
    found = synthesise(model, WORK, str)
    args, kwargs = found.case
    with torch.no_grad():
        model(*args, **kwargs)
    return found.label


class Digits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 5)
        self.out = nn.Linear(6 * 12 * 12, 10)

    def forward(self, x):
        return self.out(functional.max_pool2d(self.conv(x), 2).flatten(1))


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(50, 16), nn.Embedding(6, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, batch_first=True)

    def forward(self, idx):
        _, length = idx.shape
        return self.block(self.tokens(idx) + self.places(torch.arange(length)))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell = nn.Embedding(30, 12), nn.LSTM(12, 20)

    def forward(self, sentence):
        return self.cell(self.embed(sentence))[0]


class Patches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, 16, 8, 8)
        self.places = nn.Parameter(torch.zeros(1, 64, 16))

    def forward(self, picture):
        return self.cut(picture).flatten(2).transpose(1, 2) + self.places


class Fixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, 4, 16, 16)

    def forward(self, x):
        if x.shape[-1] != 224:
            raise ValueError(f"Input height ({x.shape[-1]}) doesn't match the model ({224})")
        return self.cut(x)


class Message(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(11, 4)

    def forward(self, x, edge_index):
        x = self.lin(x)
        return torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])


class Noise(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.when = nn.Conv2d(4, 8, 3, padding=1), nn.Linear(16, 8)

    def forward(self, x, t):
        waves = torch.sin(t[:, None].float() * torch.arange(16))
        return self.conv(x) + self.when(waves)[:, :, None, None]


class Annotated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(5, 9), nn.Linear(7, 9)

    def forward(self, a: torch.Tensor, b: torch.Tensor, *, times: int, flip: bool):
        return self.left(a) * self.right(b) * times


class Several(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)

    def forward(self, images: list[torch.Tensor]):
        return [self.conv(image) for image in images]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(20)

    def forward(self, h, mask=None):
        batch, length, width = h.shape
        return self.norm(h).reshape(batch * length, width)


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(7, 3))

    def forward(self, i):
        return self.weight[i]


class Speech(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv1d(5, 4, 3), nn.Linear(4 * 98, 3)

    def forward(self, x):
        return self.out(self.conv(x).flatten(1))


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        (Digits, "x float32 (2, 1, 28, 28)"),
        (Language, "idx int64 (2, 6)"),
        (Recurrent, "sentence int64 (2, 8)"),
        (Patches, "picture float32 (2, 3, 64, 64)"),
        (Fixed, "x float32 (2, 3, 224, 224)"),
        (Message, "x float32 (8, 11), edge_index int64 (2, 16)"),
        (Noise, "x float32 (2, 4, 32, 32), t int64 (2,)"),
        (Annotated, "a float32 (2, 5), b float32 (2, 7), times 2, flip False"),
        (Several, "images [float32 (2, 3, 32, 32)]"),
        (Attention, "h float32 (2, 8, 20)"),
        (Table, "i int64 (2, 8)"),
        (Speech, "x float32 (2, 5, 100)"),
    ],
)
def test_what_a_module_wants(kind: type[nn.Module], label: str) -> None:
    torch.manual_seed(0)
    model = kind().eval()
    assert made(model) == label
    first, second = (synthesise(model, WORK, str).case[0] for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert not isinstance(one, torch.Tensor) or torch.equal(one, other), "the same inputs each time"


def test_the_dtype_of_the_model_is_that_of_the_inputs() -> None:
    assert made(nn.Sequential(nn.Linear(8, 8)).double()) == "input float64 (2, 8)"


def test_a_model_of_timm_tells_its_size() -> None:
    model = nn.Sequential(nn.AdaptiveAvgPool2d(7), nn.Conv2d(3, 4, 3))
    model.pretrained_cfg = {"input_size": (3, 160, 96)}  # type: ignore[assignment]
    assert made(model) == "input float32 (2, 3, 160, 96)"


@pytest.mark.parametrize(
    ("name", "sizes", "label"),
    [
        ("Bert", {"vocab_size": 31}, "input_ids int64 (3, 5)"),
        ("ViT", {"image_size": 24, "patch_size": 8}, "pixel_values float32 (2, 3, 24, 24)"),
    ],
)
def test_a_model_of_transformers_tells_its_inputs(name: str, sizes: dict[str, int], label: str) -> None:
    transformers = pytest.importorskip("transformers")
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = getattr(transformers, f"{name}Config")(**small, **sizes)
    kind = getattr(transformers, f"{name}Model")
    assert made(kind(config).eval()) == label
    assert synthesis.init_of(kind) is not None
    assert synthesis.init_of(Digits) is None


def test_the_constructor_gets_the_default_configuration() -> None:
    class Settings:
        width = 5

    class Configured(nn.Module):
        config_class = Settings

        def __init__(self, config: Settings) -> None:
            super().__init__()
            self.lin = nn.Linear(config.width, 1)

        def forward(self, x):
            return self.lin(x)

    assert made(build(Configured, synthesis.init_of(Configured), WORK)) == "x float32 (2, 5)"


def test_what_cannot_be_made_up_is_told_after_a_bounded_number_of_tries() -> None:
    calls = []

    class Refuses(nn.Module):
        def forward(self, graph):
            calls.append(graph)
            return graph.nodes.data

    with pytest.raises(RunError, match=r"^inputs could not be made up in \d+ tries, .*no attribute 'nodes'$") as error:
        synthesise(Refuses(), WORK, str)
    assert 1 < len(calls) <= TRIES
    assert "\n" not in str(error.value)


SOURCE = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(13, 4)

    def forward(self, x):
        return self.lin(x)


class Refuses(nn.Module):
    def forward(self, graph):
        return graph.nodes
"""


def test_only_a_run_that_is_asked_for_makes_inputs_up(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(SOURCE)
    assert check(["model.py::Net"], root=tmp_path).targets[0].environment is None
    report = check(["model.py::Net"], root=tmp_path, run=True)
    net = report.targets[0]
    assert net.observation.convention == "synthesised: x float32 (2, 13)"
    assert net.verdict == "ready"
    assert net.verdict_reason.endswith("; the inputs were made up")
    assert "model.py::Net: the inputs were made up: x float32 (2, 13)" in report.warnings
    assert exit_code(report) == 0


def test_a_run_that_finds_no_inputs_could_not_be_established(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(SOURCE)
    report = check(["model.py::Refuses"], root=tmp_path, run=True)
    (failed,) = [stage for stage in report.targets[0].stages if stage.state == "fail"]
    assert failed.stage == "build"
    assert failed.detail.startswith("inputs could not be made up in ")
    assert failed.detail.endswith("AttributeError: 'Tensor' object has no attribute 'nodes' (model.py:16)")
    assert exit_code(report) == 2
