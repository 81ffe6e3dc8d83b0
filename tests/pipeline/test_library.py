"""Models of libraries by name: found without an import, built small, called with what the library says."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from commands import run
from tcready import api
from tcready.pipeline import named_models as library
from tcready.portable.options import RunOptions
from tcready.schema.enums import TcreadyError
from tcready.schema.report import Report

PROJECT = Path(__file__).parents[2]


def target(name: str, root: Path, **options: Any) -> str:
    (found,) = library.find_models((name,), RunOptions(**options), root)
    return found.target


BERT = "transformers.models.bert.modeling_bert::BertModel"


@pytest.mark.parametrize(
    ("name", "stands_for"),
    [
        ("hf:bert", BERT),
        ("hf:BertConfig", BERT),
        ("hf:BertForMaskedLM", "transformers.models.bert.modeling_bert::BertForMaskedLM"),
        ("hf:xlm-roberta", "transformers.models.xlm_roberta.modeling_xlm_roberta::XLMRobertaModel"),
    ],
)
def test_a_name_of_transformers_is_found_in_its_files(name: str, stands_for: str, tmp_path: Path) -> None:
    assert target(name, tmp_path) == stands_for


LIBRARIES = {
    "timm/models/resnet.py": dedent("""\
        @register_model
        def resnet18(pretrained=False): ...
        @register_model
        def resnet34(): ...
        def resnet_cfg(): ...
    """),
    "torchvision/models/resnet.py": "@register_model()\ndef resnet18(*, weights=None): ...\n",
    "diffusers/models/unets/unet_2d.py": "class UNet2DModel(Base, ModelMixin): ...\nclass UNet2DOutput: ...\n",
}


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    """Files laid out as those of libraries are: to be read, never imported."""
    for name, text in LIBRARIES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
        (tmp_path / name.partition("/")[0] / "__init__.py").write_text("raise ImportError\n")
    return tmp_path


@pytest.mark.parametrize(
    ("names", "stand_for"),
    [
        ("timm:resnet*", ("timm:resnet18", "timm:resnet34")),
        ("torchvision:*", ("torchvision:resnet18",)),
        ("diffusers:UNet2D*", ("diffusers:UNet2DModel",)),
        ("hf:xlm-r*", ("hf:xlm-roberta", "hf:xlm-roberta-xl")),
        ("hf:bert", None),
        ("models/*.py", None),
    ],
)
def test_a_glob_of_names_stands_for_the_models_that_match(
    names: str, stand_for: tuple[str, ...] | None, libraries: Path
) -> None:
    assert library.match_models(names, libraries) == stand_for


def test_a_glob_that_nothing_matches_is_an_error(libraries: Path) -> None:
    with pytest.raises(TcreadyError, match=re.escape("timm:vit*: no model of timm matches")):
        library.match_models("timm:vit*", libraries)


@pytest.mark.parametrize(
    ("name", "stands_for"),
    [
        ("timm:resnet18", "timm.models.resnet::resnet18"),
        ("timm:resnet18.a1_in1k", "timm.models.resnet::resnet18"),
        ("torchvision:resnet18", "torchvision.models.resnet::resnet18"),
        ("diffusers:UNet2DModel", "diffusers.models.unets.unet_2d::UNet2DModel"),
    ],
)
def test_other_libraries_are_searched(name: str, stands_for: str, libraries: Path) -> None:
    assert target(name, libraries) == stands_for


@pytest.mark.parametrize(
    ("expression", "stands_for"),
    [
        ("timm.create_model('resnet18', num_classes=3)", "timm.models.resnet::resnet18"),
        ("diffusers.UNet2DModel(sample_size=8)", "diffusers.models.unets.unet_2d::UNet2DModel"),
        ("torch.nn.Linear(2, 2)", "torch.nn.Linear(2, 2)"),
    ],
)
def test_what_an_expression_calls_is_found(expression: str, stands_for: str, libraries: Path) -> None:
    (found,) = library.find_models((), RunOptions(model=expression), libraries)
    assert found.target == stands_for
    assert found.read == (expression != stands_for)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("hf:brt", {}, "hf:brt: transformers has no such model: did you mean bert?"),
        ("hf:nobody/nothing", {}, "no configuration of that name is in the local cache"),
        ("timm:resnet19", {}, "timm has no such model: did you mean resnet18?"),
        ("timm:resnet18", {"tiny": True}, "--tiny goes with hf: and diffusers:"),
        ("hf:bert", {"config": ("hidden_size",)}, "write KEY=VALUE"),
        ("model.py", {"tiny": True}, "--tiny goes with a model of a library"),
        ("model.py", {"model": "resnet18"}, "write a call that gives a model"),
    ],
)
def test_what_is_wrong_is_one_line(name: str, options: dict[str, Any], message: str, libraries: Path) -> None:
    with pytest.raises(TcreadyError, match=message.replace("?", r"\?")):
        library.find_models((name,), RunOptions(**options), libraries)


def test_a_library_that_is_not_installed_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(TcreadyError, match=r"python -m pip install timm \(with --no-deps"):
        library.find_models(("timm:resnet18",), RunOptions(), tmp_path)


def kept_configuration(home: Path, **fields: Any) -> None:
    """A repository's configuration as the hub's client keeps it."""
    folder = home / "hub" / "models--org--little"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc")
    (folder / "snapshots" / "abc").mkdir(parents=True)
    (folder / "snapshots" / "abc" / "config.json").write_text(json.dumps(fields))


def test_a_repository_is_found_by_its_kept_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    kept_configuration(tmp_path, model_type="bert", architectures=["BertForMaskedLM"])
    assert target("hf:org/little", tmp_path).endswith("::BertForMaskedLM")


def need(library: str) -> None:
    """In CI it must be there; elsewhere a test without it is skipped."""
    there = importlib.util.find_spec(library) is not None
    assert there or not os.environ.get("CI"), f"{library} is not installed: pip install -e '.[libraries]'"
    if not there:
        pytest.skip(f"{library} is not installed")


SHIM = """
import torch

library = torch.library.Library("torchvision", "FRAGMENT")
for name in ("nms", "qnms"):
    try:
        library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    except RuntimeError:
        pass  # this torchvision has its own
"""
"""A torchvision whose operators were built for a torch with CUDA cannot be imported beside one without."""


@pytest.fixture(scope="module")
def with_timm(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter of its own: a torchvision that does not fit the torch beside it breaks other libraries too."""
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "base.pth").write_text(sysconfig.get_path("purelib"))
    (site / "sitecustomize.py").write_text(SHIM)
    install = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site))
    wanted = ("-c", str(PROJECT / "constraints.txt"), "timm", "torchvision")
    done = subprocess.run([*install, *wanted], capture_output=True, text=True, check=False)
    assert not (done.returncode and os.environ.get("CI")), done.stderr
    if done.returncode:
        pytest.skip(f"timm and torchvision cannot be installed: {done.stderr.splitlines()[-1:]}")
    return str(folder / "bin" / "python")


def checked(names: tuple[str, ...], root: Path, **options: Any) -> Report:
    return api.check(names, root=root, **options)


@pytest.mark.torch
def test_a_small_model_runs_with_the_inputs_of_its_library(tmp_path: Path) -> None:
    said: list[str] = []
    report = checked(("hf:bert",), tmp_path, tiny=True, config=["num_hidden_layers=1"], announce=said.append)
    (seen,) = report.targets
    assert said[0].endswith("with the default inputs of its library, or else made-up ones")
    assert said[1].startswith("BertModel, 1")
    assert "B, called with model.dummy_inputs, of hf:bert --tiny" in said[1]
    assert (seen.target, seen.verdict, seen.observation.inputs_from) == (BERT, "ready", "library")
    assert seen.observation.convention == ("model.dummy_inputs, of hf:bert --tiny --config num_hidden_layers=1")
    (build,) = (stage for stage in seen.stages if stage.stage == "build")
    assert "BertModel, 1" in build.detail


def test_the_command_that_proves_repeats_what_was_asked(tmp_path: Path) -> None:
    from tcready.reports.shared.wording import proving

    def command(*names: str, **options: Any) -> str:
        report = checked(names, tmp_path, run=False, **options)
        found = [proving(target, report) for target in report.targets]
        return next(each[1] for each in found if each is not None)

    options = {"config": ["num_hidden_layers=1"], "checkpoint": "w.safetensors", "mode": "both"}
    (tmp_path / "w.safetensors").touch()
    assert command("hf:bert", tiny=True, **options) == (
        "tcready check hf:bert --mode both --checkpoint w.safetensors --tiny --config num_hidden_layers=1 --run --plan"
    )
    expression = "transformers.models.bert.modeling_bert.BertLayer(transformers.BertConfig(hidden_act='gelu'))"
    assert command(model=expression, device="cpu") == (
        f'tcready check --device cpu --model "{expression}" --run --plan'
    )


def test_the_command_that_proves_repeats_isolated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What pyproject.toml says would be taken in when it is pasted."""
    (tmp_path / "pyproject.toml").write_text("[tool.tcready]\ndevice = 'meta'\n")
    (tmp_path / "model.py").write_text(
        dedent("""\
            from torch import nn
            class Net(nn.Module):
                def forward(self, x):
                    print(x)
                    return self.a(x)
                def __init__(self):
                    super().__init__()
                    self.a = Inner()
            class Inner(nn.Module):
                def forward(self, x):
                    return x * 2
        """)
    )
    monkeypatch.chdir(tmp_path)
    run("check", "model.py::Net", "--isolated", "--no-run", "-v")
    shown = " ".join(capsys.readouterr().out.split())
    assert "`tcready check model.py::Net --isolated --run --plan`" in shown


@pytest.mark.torch
@pytest.mark.release
def test_an_expression_is_run_and_the_report_says_that_it_was_not_read(tmp_path: Path) -> None:
    expression = "torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())"
    said: list[str] = []
    report = checked((), tmp_path, model=expression, run=True, announce=said.append)
    assert f'80 bytes; built from --model "{expression}", called with made-up inputs: ' in said[-1].replace("'", '"')
    (seen,) = report.targets
    assert (seen.target, seen.verdict) == (expression, "ready")
    assert any("the run alone tells of it" in warning for warning in report.warnings)
    with pytest.raises(TcreadyError, match="--no-run forbids the run"):
        checked((), tmp_path, model=expression, run=False)


LIGHTNING = """
import torch
from lightning import LightningDataModule, LightningModule
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Data(LightningDataModule):
    def setup(self, stage):
        self.rows = TensorDataset(torch.randn(8, 4), torch.randn(8, 1))

    def train_dataloader(self):
        return DataLoader(self.rows, batch_size=4)


class LitModel(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = (self(x) - y).square().mean()
        if loss > 100:  # data-dependent
            loss = loss * 0.5
        return loss
"""


def lightning_named(text: str, root: Path, mode: Any = "infer", **options: Any) -> str:
    (found,) = library.find_models((text,), RunOptions(**options), root, mode)
    return found.target


def test_a_lightning_module_stands_for_itself_or_its_training_step(tmp_path: Path) -> None:
    text = "lightning:lit.py::LitModel"
    assert lightning_named(text, tmp_path) == "lit.py::LitModel"
    assert lightning_named(text, tmp_path, "both") == "lit.py::LitModel"
    assert lightning_named(text, tmp_path, "train") == "lit.py::LitModel.training_step"
    with pytest.raises(TcreadyError, match=r"name the LightningModule, as in lightning:lit.py::LitModel"):
        lightning_named("lightning:lit.py", tmp_path)
    with pytest.raises(TcreadyError, match="--tiny goes with a model of a library"):
        lightning_named(text, tmp_path, tiny=True)
    with pytest.raises(TcreadyError, match=r"name lit.py::LitModel, with --inputs"):
        library.reject_library_models((text,), tmp_path)
    with pytest.raises(TcreadyError, match=rf"name {BERT} to be shown them; .* \(FILE::function\), with --inputs"):
        library.reject_library_models(("hf:bert",), tmp_path)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.release
def test_a_lightning_module_is_run_with_batches_of_its_data_module(tmp_path: Path) -> None:
    need("lightning")
    (tmp_path / "lit.py").write_text(LIGHTNING)
    report = checked(("lightning:lit.py::LitModel",), tmp_path, mode="train")
    (seen,) = report.targets
    assert seen.target == "lit.py::LitModel.training_step"
    assert seen.observation.convention == (
        "the first batch of Data.train_dataloader(), to training_step, of lightning:lit.py::LitModel"
    )
    assert seen.observation.training is not None
    assert seen.observation.training.loss == "output"
    line = next(n for n, text in enumerate(LIGHTNING.splitlines(), 1) if "data-dependent" in text)
    (found,) = report.findings
    assert (found.rule, found.line, found.status) == ("TCR101", line, "confirmed")
    assert not [text for text in report.warnings if "patched torch" in text], "Lightning wraps torch.compile"


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.release
def test_a_small_model_of_diffusers_runs(tmp_path: Path) -> None:
    need("diffusers")
    sizes = ["sample_size=8", "block_out_channels=(32,)", "down_block_types=('DownBlock2D',)"]
    blocks = ["up_block_types=('UpBlock2D',)", "layers_per_block=1"]
    report = checked(("diffusers:UNet2DModel",), tmp_path, tiny=True, config=[*sizes, *blocks])
    (seen,) = report.targets
    assert (seen.verdict, seen.observation.inputs_from) == ("ready", "library")
    assert (seen.observation.convention or "").startswith("sample, timestep of the sizes in its config, 3x8x8")


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.release
def test_a_model_of_timm_runs(tmp_path: Path, with_timm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(next((Path(with_timm).parents[1]).glob("lib/python*/site-packages")))
    report = checked(("timm:resnet18",), tmp_path, python=with_timm)
    (seen,) = report.targets
    assert (seen.target, seen.verdict) == ("timm.models.resnet::resnet18", "ready")
    assert seen.observation.convention == 'default_cfg["input_size"], 3x224x224, of timm:resnet18'


def test_a_table_of_the_project_says_what_it_wants_instead_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.tcready.targets.x]\ntarget = "hf:bert"\n')
    with pytest.raises(
        TcreadyError, match=r"target hf:bert: such a name is for the command line; write a function in a file"
    ):
        checked((), tmp_path, run=True)


@pytest.mark.torch
def test_the_size_of_a_model_is_known_before_it_is_built() -> None:
    torch = pytest.importorskip("torch")
    from tcready.dynamic.worker.core.request import Work
    from tcready.dynamic.worker.inputs import library_models

    def size(name: str, build: Any, **options: Any) -> str:
        return str(library_models.size_to_be(build, Work(name, RunOptions(model=name, **options), "/")))

    def large() -> Any:
        return torch.nn.Linear(40_000, 40_000, bias=False)  # 6.4 GB, were it to hold values

    assert size("hf:bert", large) == "1,600,000,000 parameters, 6.4 GB"
    assert size("hf:bert", lambda: torch.nn.Linear(3, 2)) == "8 parameters, 32 bytes"
    assert size("hf:bert", large, tiny=True) == size("timm:resnet18", large) == "None"
    assert size("diffusers:X", lambda: torch.nn.Linear(2, int(torch.ones(1).item()))) == "None", "it asks for a value"


@pytest.mark.torch
@pytest.mark.parametrize("pair", ["num_hidden_layers=-1", "hidden_size=0"])
def test_a_configuration_of_nothing_is_refused(pair: str) -> None:
    pytest.importorskip("torch")
    from tcready.dynamic.worker.core.case import RunError
    from tcready.dynamic.worker.core.request import Work
    from tcready.dynamic.worker.inputs import library_models

    with pytest.raises(RunError, match=f"--config {pair}: .* write 1 or more"):
        library_models._values(Work("hf:bert", RunOptions(model="hf:bert", config=(pair,)), "/"))


@pytest.mark.torch
def test_weights_of_a_file_are_loaded_or_refused_in_one_line(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    save_file = pytest.importorskip("safetensors.torch").save_file
    from tcready.dynamic.worker.core.case import RunError
    from tcready.dynamic.worker.inputs.loading import load_weights

    class Tied(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(3, 2)
            self.head = torch.nn.Linear(2, 3, bias=False)
            self.head.weight = self.embedding.weight

    def refused(**weights: Any) -> str:
        save_file(weights, tmp_path / "w.safetensors")
        with pytest.raises(RunError) as error:
            load_weights(Tied(), str(tmp_path / "w.safetensors"), "w.safetensors")
        return str(error.value)

    model = Tied()
    save_file({"embedding.weight": torch.ones(3, 2)}, tmp_path / "good.safetensors")
    load_weights(model, str(tmp_path / "good.safetensors"), "good.safetensors")
    assert model.head.weight.tolist() == [[1.0, 1.0]] * 3
    assert "weights of the file are not in the model (1): other" in refused(other=torch.ones(1))
    assert "have another shape" in refused(**{"embedding.weight": torch.ones(1, 2)})
    assert "weights of the model are not in the file (2): " in refused()
    (tmp_path / "text").write_text("no weights")
    with pytest.raises(RunError, match="text: it cannot be read as safetensors"):
        load_weights(model, str(tmp_path / "text"), "text")
