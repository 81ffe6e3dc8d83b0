"""What the calls that compile say: their options, and what these make of the findings."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from reading import read
from tcready import check
from tcready.portable.options import ReadOptions
from tcready.schema.compile_call import CompileCall
from tcready.schema.static import StaticResult

NET = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
    def forward(self, x):
        if x.sum() > 0:
            return x
        return self.layer(x)
"""
GROWING = """
import torch
from torch import nn
class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = torch.zeros(2, 8)
    def forward(self, x):
        self.cache = torch.cat([self.cache, x.detach()])
        return x + self.cache.sum()
"""


def reading(folder: Path, source: str, *names: str) -> StaticResult:
    """The result of reading `serve.py` with this source, beside `net.py`."""
    (folder / "net.py").write_text(NET)
    (folder / "serve.py").write_text(dedent(source))
    return read(list(names) or ["serve.py"], ReadOptions(root=folder, search_path=(folder,), mode="infer"))


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("run = torch.compile(Net(4), fullgraph=True, mode='max-autotune')", "fullgraph=True, mode='max-autotune'"),
        ("Net(4).compile(dynamic=False)", "dynamic=False"),
        ("@torch.compile(backend='eager')\ndef f(x):\n    return x", "backend='eager'"),
        ("run = torch.compile(dynamic=True)(Net(4))", "dynamic=True"),
        ("fast = partial(torch.compile, dynamic=True)\nrun = fast(Net(4), fullgraph=True)", "dynamic=True, fullgraph=True"),
        ("fast = partial(torch.compile, dynamic=True)\n@fast\ndef f(x):\n    return x", "dynamic=True"),
        ("run = partial(torch.compile, dynamic=True)(Net(4), dynamic=None)", "dynamic=None"),
        ("MODE = 'default'\nrun = torch.compile(Net(4), mode=MODE)", "mode='default'"),
        ("def main(mode):\n    run = torch.compile(Net(4), mode=mode)", "mode=mode"),
        ("Trainer(Net(4), TrainingArguments('o', torch_compile=True, torch_compile_mode='default'))", "mode='default'"),
        ("run = torch.compile(model=Net(4))", ""),
    ],
)  # fmt: skip
def test_the_options_of_a_call_are_read(source: str, options: str, tmp_path: Path) -> None:
    head = "from functools import partial\nimport torch\nfrom transformers import Trainer, TrainingArguments\n"
    found = reading(tmp_path, f"{head}from net import Net\n{source}\n")
    call = found.targets[0].compiled_at
    assert call is not None
    assert call.words == f"serve.py:{call.line}" + (f" with {options}" if options else "")


def test_an_option_has_a_value_only_if_the_source_shows_it() -> None:
    call = CompileCall("serve.py", 1, "", (("dynamic", "True"), ("mode", "mode"), ("fullgraph", "False")))
    assert [call.value(name) for name in ("dynamic", "mode", "fullgraph", "backend")] == [True, None, False, None]
    assert not call.is_fullgraph


@pytest.mark.parametrize("call", ["self.layers[0].compile(fullgraph=True)", "layer.compile(fullgraph=True)"])
def test_blocks_that_a_model_compiles_come_before_it(call: str, tmp_path: Path) -> None:
    source = f"""
        from torch import nn
        from net import Net
        class Block(nn.Module):
            def forward(self, x):
                print(x.shape)
                return x
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList(Block() for _ in range(2))
                for layer in self.layers:
                    {call}
            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x
    """
    for name in ("serve.py", "serve.py::Model"):
        found = reading(tmp_path, source, name)
        assert [each.target for each in found.targets] == ["serve.py::Block", "serve.py::Model"]
        assert [each.compiled_at is not None for each in found.targets] == [True, False]
        assert [each.message.partition("; ")[2] for each in found.findings] == [
            "an error, because serve.py:13 compiles it with fullgraph=True"
        ]


def test_repeated_blocks_are_those_that_the_model_names(tmp_path: Path) -> None:
    found = reading(
        tmp_path,
        """
        from torch import nn
        from net import Net
        class Model(nn.Module):
            _repeated_blocks = ["Net"]
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([nn.Linear(4, 4), Net(4)])
            def forward(self, x):
                return x
        def main():
            model = Model()
            model.compile_repeated_blocks(dynamic=True)
        """,
    )
    assert {each.target: bool(each.compiled_at) for each in found.targets} == {
        "serve.py::Net": True,
        "serve.py::Model": False,
    }


def test_the_steps_of_a_lightning_module_are_compiled_with_it(tmp_path: Path) -> None:
    found = reading(
        tmp_path,
        """
        import lightning
        import torch
        class Lit(lightning.LightningModule):
            def forward(self, x):
                return x
            def training_step(self, batch, index):
                loss = self(batch).sum()
                return loss if loss > 0 else -loss
        lightning.Trainer().fit(torch.compile(Lit()))
        """,
    )
    assert [each.target for each in found.targets] == ["serve.py::Lit", "serve.py::Lit.training_step"]
    assert [(each.rule, each.symbol) for each in found.findings] == [("TCR104", "Lit.training_step")]


def test_a_class_that_the_file_does_not_bind_is_named_where_it_is(tmp_path: Path) -> None:
    found = reading(tmp_path, "import torch\nimport net\ndef main():\n    return torch.compile(net.Net(4))\n")
    assert [each.target for each in found.targets] == ["net.py::Net"]


@pytest.mark.parametrize("option", ["fullgraph=True", "fullgraph=False", ""])
def test_a_break_is_an_error_if_the_whole_graph_is_asked_for(option: str, tmp_path: Path) -> None:
    source = f"import torch\nfrom net import Net\ndef main():\n    return torch.compile(Net(4), {option})\n"
    for names in (["serve.py"], ["."]):  # in a folder, net.py is read by itself, too
        (finding,) = reading(tmp_path, source, *names).findings
        assert (finding.raises_at is not None) == (option == "fullgraph=True"), names
        assert finding.message.endswith("serve.py:4 compiles it with fullgraph=True") == (option == "fullgraph=True")


def test_an_intended_break_is_an_error_if_the_whole_graph_is_asked_for(tmp_path: Path) -> None:
    source = "import torch\n@torch.compile({})\ndef f(x):\n    torch._dynamo.graph_break()\n    return x + 1\n"
    levels = [reading(tmp_path, source.format(each)).findings[0].level for each in ("", "fullgraph=True")]
    assert levels == ["warning", "error"]


@pytest.mark.parametrize(("dynamic", "levels"), [("None", ["warning"]), ("False", ["error"]), ("True", [])])
def test_a_size_that_grows(dynamic: str, levels: list[str], tmp_path: Path) -> None:
    """As often as Dynamo compiled, in six calls of torch 2.13: 2, 6 and 1 times."""
    found = reading(tmp_path, f"{GROWING}run = torch.compile(Growing(), dynamic={dynamic})\n")
    assert [each.level for each in found.findings] == levels


UNKNOWN = {
    "an argument": ("import torch\ndef main(model):\n    return torch.compile(model)\n", "serve.py"),
    "of a constructor": (
        "import torch\nclass A:\n    def __init__(self, model):\n        self.run = torch.compile(model)\n",
        "serve.py::A",
    ),
    "of a library": (
        "from transformers import AutoModel, Trainer, TrainingArguments\nmodel = AutoModel.from_pretrained('b')\n"
        "Trainer(model, TrainingArguments('o', torch_compile=True)).train()\n",
        "serve.py",
    ),
    "a member": (
        "import torch\nclass A:\n    def __init__(self, model):\n        self.model = model\n"
        "        self.run = torch.compile(self._run)\n    def _run(self, x):\n        return self.model(x)\n",
        "serve.py::A.run",
    ),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_what_the_source_does_not_show_is_not_passed_as_checked(kind: str, tmp_path: Path) -> None:
    source, name = UNKNOWN[kind]
    (tmp_path / "serve.py").write_text(source)
    report = check(name, run=False, root=tmp_path)
    (skipped,) = report.skipped
    assert skipped.path == name
    assert "does not show what" in skipped.reason
    assert not check(".", run=False, root=tmp_path).skipped
