"""Regions that the source alone tells: which are offered, what is said of their number, and their code under Dynamo."""

from __future__ import annotations

import copy
import importlib.util
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tcready import api
from tcready.schema.report import Region, TargetReport

HEAD = """
import torch
from torch import nn

class Good(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
    def forward(self, x):
        return self.fc(x).relu()

class Bad(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return self.fc(x)
"""


@dataclass(frozen=True)
class Sample:
    """A model's source, the regions expected of it, and arguments to make it with, each in its turn."""

    source: str
    regions: tuple[tuple[str, int], ...]
    made_with: tuple[Any, ...] = (SimpleNamespace(layers=3, neck=False), SimpleNamespace(layers=2, neck=True))


SAMPLES = {
    "a loss module that a helper makes in the call": Sample(
        """
        class Loss(nn.Module):
            def forward(self, x):
                return x * x.mean().item()

        def make_loss(x):
            return Loss()(x)

        class Net(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.body = Good()
                self.loss_function = make_loss
            def forward(self, x):
                return self.loss_function(self.body(x))
        """,
        (("body", 1),),
    ),
    "a method of a module that stands elsewhere": Sample(
        """
        class Memory(nn.Module):
            def forward(self, x):
                return x
            def read(self, x):
                return x + x.mean().item()

        class Reader(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 8)
            def forward(self, x, memory):
                return memory.read(self.fc(x))

        class Net(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.body = Good()
                self.reader = Reader()
                self.memory = Memory()
            def forward(self, x):
                return self.reader(self.body(x), self.memory)
        """,
        (("body", 1),),
    ),
    "a list as long as the configuration says": Sample(
        """
        class Net(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.layers = nn.ModuleList([Good() for _ in range(config.layers)])
                self.more = nn.ModuleList()
                for _ in range(config.layers):
                    self.more.append(Good())
                self.chain = nn.Sequential(*[Good() for _ in range(config.layers)])
                self.three = nn.ModuleList([Good(), Good(), Good()])
                self.bad = Bad()
            def forward(self, x):
                for layer in (*self.layers, *self.more, *self.three):
                    x = layer(x)
                return self.bad(self.chain(x))
        """,
        (("chain", 1), ("layers.*", 0), ("more.*", 0), ("three.*", 3)),
    ),
    "members that a branch adds": Sample(
        """
        class Net(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.layers = nn.ModuleList()
                self.layers.append(Good())
                if config.neck:
                    self.layers.append(Good())
                self.bad = Bad()
            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return self.bad(x)
        """,
        (("layers.*", 0),),
    ),
    "modules that the configuration may leave out": Sample(
        """
        class Other(Good):
            def forward(self, x):
                return self.fc(x).tanh()

        class Net(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.bad = Bad()
                if config.neck:
                    self.neck = Good()
                self.head = Good() if config.neck else None
                self.pool = None
                if config.neck:
                    self.pool = Good()
                if config.neck:
                    self.either = Good()
                else:
                    self.either = nn.Sequential(Good(), Good())
                if config.neck:
                    self.tail = Good()
                else:
                    self.tail = Other()
            def forward(self, x):
                x = self.bad(x)
                if self.head is not None:
                    x = self.pool(self.head(self.neck(x)))
                return self.tail(self.either(x))
        """,
        (("tail", 1),),
    ),
    "one list of two classes": Sample(
        """
        class First(nn.Module):
            def __init__(self):
                super().__init__()
                self.bad, self.norm, self.attention = Bad(), Good(), Good()
            def forward(self, x):
                return self.attention(self.norm(self.bad(x)))

        class Second(nn.Module):
            def __init__(self):
                super().__init__()
                self.bad, self.norm, self.mixer = Bad(), Good(), Good()
            def forward(self, x):
                return self.mixer(self.norm(self.bad(x)))

        class Net(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.layers = nn.ModuleList([])
                for index in range(config.layers):
                    self.layers.append(First() if index % 2 else Second())
            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x
        """,
        (("layers.*.norm", 0),),
    ),
    "a list of lists, some of whose members break": Sample(
        """
        class Net(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.layers = nn.ModuleList([])
                for _ in range(config.layers):
                    self.layers.append(nn.ModuleList([Good(), Bad()]))
            def forward(self, x):
                for good, bad in self.layers:
                    x = bad(good(x))
                return x
        """,
        (("layers.*.0", 0),),
    ),
    "lists of several lengths in one list": Sample(
        """
        class Net(nn.Module):
            def __init__(self, config):
                super().__init__()
                stages = [nn.Sequential(*[Bad() for _ in range(config.layers)])]
                stages.append(nn.Sequential(Good()))
                self.stages = nn.Sequential(*stages)
            def forward(self, x):
                return self.stages(x)
        """,
        (("stages.1", 1),),
    ),
    "classes of torch.nn": Sample(
        """
        class Net(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
                self.stack = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
                self.lstm = nn.LSTM(8, 8)
                self.bad = Bad()
            def forward(self, x):
                x, _ = self.lstm(self.stack(x))
                return self.bad(self.layer(x[None])[0])
        """,
        (("stack", 1),),
    ),
    "a module of a helper that cannot be followed": Sample(
        """
        def load(config):
            return eval(bytes([66, 97, 100]).decode())()

        class Net(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.backbone = load(config)
                self.head = Good()
            def forward(self, x):
                return self.head(self.backbone(x))
        """,
        (("head", 1),),
    ),
    "an activation that the configuration gives": Sample(
        """
        TABLE = {}

        class Net(nn.Module):
            def __init__(self, config):
                super().__init__()
                self.act = TABLE.get(config.neck, torch.relu)
                self.body = Good()
            def forward(self, x):
                return self.act(self.body(x))
        """,
        (("", 1),),
    ),
}


@pytest.fixture
def reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Sample], TargetReport]:
    monkeypatch.chdir(tmp_path)

    def report(sample: Sample) -> TargetReport:
        (tmp_path / "sample.py").write_text(HEAD + textwrap.dedent(sample.source), "utf-8")
        (found,) = api.check("sample.py::Net", run=False, torch="2.13", cache=False).targets
        return found

    return report


@pytest.mark.parametrize("name", SAMPLES)
def test_only_what_the_source_establishes_is_a_region(name: str, reported: Callable[[Sample], TargetReport]) -> None:
    found = reported(SAMPLES[name]).regions
    assert sorted((region.name, region.instances) for region in found) == sorted(SAMPLES[name].regions)
    assert {region.state for region in found} <= {"predicted"}
    for region in found:
        assert ("the source does not show how many" in region.reason) == (region.instances == 0)


def test_what_the_source_does_not_tell_is_named(reported: Callable[[Sample], TargetReport]) -> None:
    target = reported(SAMPLES["a module of a helper that cannot be followed"])
    assert target.unresolved == ("self.backbone of Net",)
    assert "does not show what these are: self.backbone of Net" in target.verdict_reason
    text = api.render(api.check("sample.py::Net", run=False, torch="2.13", cache=False), "text")
    assert "sample.py::Net: the source does not show what these are: self.backbone of Net" in text


@pytest.mark.torch
@pytest.mark.parametrize("name", SAMPLES)
def test_the_code_compiles_what_it_says_without_a_break(
    name: str, reported: Callable[[Sample], TargetReport], tmp_path: Path
) -> None:
    regions = reported(SAMPLES[name]).regions
    spec = importlib.util.spec_from_file_location("sample_of_regions", tmp_path / "sample.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for argument in SAMPLES[name].made_with:
        model = module.Net(argument).eval()
        for region in regions:
            assert _graphs(copy.deepcopy(model), region) > 0


def _graphs(model: Any, region: Region) -> int:
    """The graphs of a call once the region's code has been executed; a break raises."""
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    seen = []

    def backend(graph: Any, _: Any) -> Any:
        seen.append(graph)
        return graph.forward

    code = region.code.replace(".compile()", ".compile(backend=backend)")
    compiling = SimpleNamespace(compile=lambda function: torch.compile(function, backend=backend))
    exec(code, {"model": model, "torch": compiling, "backend": backend})
    with torch.no_grad(), torch._dynamo.error_on_graph_break(True):
        model(torch.ones(2, 8))
    return len(seen)
