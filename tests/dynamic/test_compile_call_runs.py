"""Runs of what the user's code compiles itself, with the options of its calls."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from tcready import check
from tcready.merge.verdict import exit_code
from tcready.schema.report import Report, TargetReport

pytestmark = pytest.mark.torch

SERVER = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer, self.calls = nn.Linear(width, width), 0
    def forward(self, x):
        return self.layer(x)

class Server:
    def __init__(self):
        self.net = Net(8)
        self.seen = []
        self.encode = torch.compile(self._encode, dynamic=True)
    def _encode(self, x):
        self.seen.append(self.net.training)
        if x.sum() > 0:
            x = x + 1
        return self.net(x)

def inputs():
    return torch.ones(2, 8)
"""


def checking(folder: Path, source: str, name: str, **options: object) -> Report:
    (folder / "serve.py").write_text(dedent(source))
    return check(name, run=True, root=folder, **options)  # type: ignore[arg-type]


def state(target: TargetReport, name: str) -> str:
    return next(stage.state for stage in target.stages if stage.stage == name)


@pytest.mark.parametrize("name", ["serve.py::Server.encode", "serve.py::Server._encode", "serve.py::Server"])
def test_a_method_of_a_plain_class_is_run_as_its_code_compiles_it(name: str, tmp_path: Path) -> None:
    report = checking(tmp_path, SERVER, name, inputs="serve.py::inputs")
    (target,) = report.targets
    assert target.target == name if name != "serve.py::Server" else target.target == "serve.py::Server._encode"
    call = target.observation.compiled_at
    assert call is not None
    assert call.words == "serve.py:16 with dynamic=True"
    assert target.verdict_reason.endswith("compiled at serve.py:16 with dynamic=True")
    assert state(target, "parity") == "pass"
    assert {(finding.rule, finding.status) for finding in report.findings} == {
        ("TCR101", "confirmed"),
        ("TCR312", "confirmed"),
    }


def test_arguments_of_the_constructor(tmp_path: Path) -> None:
    """A plain class needs them from its file; without them the answer says so, and is not that nothing was found."""
    source = SERVER.replace("def __init__(self):", "def __init__(self, net):").replace("= Net(8)", "= net")
    report = checking(tmp_path, source, "serve.py::Server.encode")
    assert exit_code(report) == 2
    build = next(stage for stage in report.targets[0].stages if stage.stage == "build")
    assert "missing 1 required positional argument: 'net'; define get_init_inputs() in its file" in build.detail
    given = f"{source}\ndef get_init_inputs():\n    return [Net(8)]\n"
    assert exit_code(checking(tmp_path, given, "serve.py::Server.encode")) == 1


def test_a_name_that_no_object_has(tmp_path: Path) -> None:
    report = checking(tmp_path, SERVER, "serve.py::Server.encod")
    build = next(stage for stage in report.targets[0].stages if stage.stage == "build")
    assert (build.detail, exit_code(report)) == (
        "an object of the class Server has no attribute 'encod'; did you mean encode?",
        2,
    )


HELD = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
    def forward(self, x):
        return self.layer(x)

class Server:
    def __init__(self):
        self.net = torch.compile(Net(8))
        self.other = Net(8)
        self.other.compile(fullgraph=True)
    @torch.compile(dynamic=True)
    def run(self, x):
        return self.other.layer(x) * 2

server = Server()

def get_inputs():
    return (torch.ones(2, 8),)
"""


def test_each_thing_that_a_class_compiles_is_run(tmp_path: Path) -> None:
    report = checking(tmp_path, HELD, "serve.py")
    calls = {each.target: each.observation.compiled_at for each in report.targets}
    assert {each.target: (each.verdict, call.words) for each in report.targets if (call := calls[each.target])} == {
        "serve.py::Server.net": ("ready", "serve.py:14"),
        "serve.py::Server.other": ("ready", "serve.py:16 with fullgraph=True"),
        "serve.py::Server.run": ("ready", "serve.py:17 with dynamic=True"),
    }
    (target,) = checking(tmp_path, HELD, "serve.py::server.run").targets
    assert target.verdict == "ready"


@pytest.mark.parametrize("option", ["fullgraph=True", "fullgraph=False"])
def test_a_script_that_compiles_an_imported_class(option: str, tmp_path: Path) -> None:
    printing = SERVER.replace("return self.layer(x)", "print(x.shape)\n        return self.layer(x)")
    (tmp_path / "net.py").write_text(printing.replace("width):", "width=8):"))
    source = f"import torch\nfrom net import Net\ndef main():\n    return torch.compile(Net(8), {option})\n"
    report = checking(tmp_path, source, "serve.py")
    (target,) = report.targets
    assert target.target == "serve.py::Net"
    assert state(target, "fullgraph") == ("fail" if option == "fullgraph=True" else "not_run")
    assert target.verdict_reason.startswith("fullgraph=True at serve.py:4 raises") == (option == "fullgraph=True")
    (finding,) = report.findings
    assert (finding.status, finding.level) == ("confirmed", "error")
    assert (finding.raises_at is not None) == (option == "fullgraph=True")


def test_the_whole_graph_fails_for_what_is_no_finding(tmp_path: Path) -> None:
    """A comment hides the break, yet the call of the user's code raises."""
    source = """
        import torch
        @torch.compile(fullgraph=True)
        def step(x):
            print(x.shape)  # noqa: TCR301
            return x + 1
    """
    report = checking(tmp_path, source, "serve.py::step")
    assert not report.findings
    assert exit_code(report) == 1


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
run = torch.compile(Growing(), dynamic={})
def get_inputs():
    return (torch.ones(3, 8),)
"""


@pytest.mark.parametrize(("dynamic", "on_every_call"), [("True", set()), ("None", {False}), ("False", {True})])
def test_the_run_compiles_with_the_setting_of_dynamic(dynamic: str, on_every_call: set[bool], tmp_path: Path) -> None:
    (target,) = checking(tmp_path, GROWING.format(dynamic), "serve.py::Growing").targets
    assert {each.identical_call for each in target.observation.recompiles} == on_every_call


def test_inductor_compiles_in_the_mode_of_the_call(tmp_path: Path) -> None:
    source = SERVER.replace("dynamic=True", "mode='max-autotune-no-cudagraphs'")
    (target,) = checking(tmp_path, source, "serve.py::Server.encode", backend=True).targets
    if state(target, "backend") == "not_run":
        pytest.skip("Inductor has no compiler here")
    assert {each.mode for each in target.observation.backend} == {"max-autotune-no-cudagraphs"}
