"""What a break costs, which modules a graph holds, what the author decided: from a real run."""

from __future__ import annotations

from pathlib import Path

import pytest
from observing import observe_target
from tcready.schema.observation import Observation
from tcready.schema.run import Cost

pytestmark = pytest.mark.torch

SOURCE = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(8, 8)

    def forward(self, x):
        return torch.relu(self.line(x))


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.line = nn.Linear(8, 8)

    def forward(self, x):
        y = self.block(x)
        for _ in range(2):
            y = self.line(y)
            if y.sum() > 0:  # in a loop: the whole frame
                y = y + 1
        return y


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block()
        self.gate = Gate()
        self.last = Block()

    def forward(self, x):
        y = self.first(x)
        count = y.abs().sum().item()  # one number
        return self.last(self.gate(y)) + count


class Counting(nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls
        self.line = nn.Linear(8, 8)

    def forward(self, x):
        print("told")
        self.calls += 1
        return torch.relu(self.line(x)) * self.calls


# Two instances, compiled again at every call: within the calls that are timed Dynamo reaches its limit.
class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Counting(0)
        self.second = Counting(100)

    def forward(self, x):
        return self.second(self.first(x))


@torch.compiler.disable
def outside(x):
    return x * 3


@torch.compile
def inside(x):
    return x * 2 + 1


class Options(dict):
    __getattr__ = dict.__getitem__  # raises KeyError for whatever it does not have


class Decided(nn.Module):
    def __init__(self):
        super().__init__()
        self.options = Options(size=4)
        self.a = Block()
        self.b = Block()
        self.a.compile()

    def forward(self, x):
        return inside(outside(self.b(self.a(x))))


@torch.compile
def never(x):
    return x


def get_inputs():
    return (torch.ones(4, 8),)
"""


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(SOURCE.split("\n"), 1) if text in line)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cost")
    (place / "model.py").write_text(SOURCE, "utf-8")
    return place


@pytest.fixture(scope="module")
def seen(folder: Path) -> Observation:
    return observe_target("model.py::Model", inputs="model.py::get_inputs", root=str(folder))


def test_operations_outside_of_graphs_are_on_the_account_of_the_break(seen: Observation) -> None:
    costs = {site.line: site.cost for site in seen.break_sites}
    number, loop = costs[line_of("one number")], costs[line_of("in a loop")]
    assert number is not None
    assert loop is not None
    # `.item()` reads one number; the loop runs eagerly: two linears of a transpose and a product, sums, tests
    assert number.ops == 1
    assert loop.ops > 6
    assert loop.seconds > number.seconds > 0
    cover = seen.coverage
    assert cover is not None
    assert number.ops + loop.ops == cover.ops_total - cover.ops_captured


@pytest.mark.release
def test_what_a_recompilation_loses_is_on_no_breaks_account(folder: Path) -> None:
    """Behind a break the rest of its function is called from the break's line."""
    seen = observe_target("model.py::Twice", inputs="model.py::get_inputs", root=str(folder))
    (site,) = (site for site in seen.break_sites if site.line == line_of('print("told")'))
    assert any(event.identical_call for event in seen.recompiles)
    assert seen.coverage is not None
    assert seen.coverage.share == 1, "the third call was compiled whole"
    assert seen.coverage.time_share is not None
    assert seen.coverage.time_share < 0.9, "of later ones most of the time is lost"
    assert seen.coverage.timed_calls is not None
    assert seen.coverage.timed_calls >= 5, "on a busy machine more"
    assert site.cost == Cost(0, 0.0)


def test_time_is_shared_out_as_operations_are(seen: Observation) -> None:
    cover = seen.coverage
    assert cover is not None
    assert cover.clock == "host"
    assert cover.seconds is not None
    assert cover.time_share is not None
    shares = {share.name: share for share in seen.modules}
    assert shares[""].seconds == pytest.approx(cover.seconds)
    captured = shares[""].seconds_captured
    assert captured is not None
    assert captured / cover.seconds == pytest.approx(cover.time_share)
    assert shares["first"].seconds_captured == shares["first"].seconds
    assert shares["gate.line"].seconds_captured == 0
    assert (shares["gate.line"].seconds or 0) > 0


def test_a_graph_names_the_modules_it_holds(seen: Observation) -> None:
    held = {graph.symbol: graph.modules for graph in seen.graphs if graph.symbol != "Model.forward"}
    assert held == {"Block.forward": ("gate.block.line", "gate.block")}
    roots = [graph.modules for graph in seen.graphs if graph.symbol == "Model.forward"]
    assert ("first.line", "first", "") in roots
    assert any("last.line" in modules for modules in roots)


@pytest.mark.release
def test_what_the_author_decided_is_told_and_left_as_it_is(folder: Path) -> None:
    seen = observe_target("model.py::Decided", inputs="model.py::get_inputs", root=str(folder))
    told = {(intent.symbol, intent.kind, intent.how, intent.modules) for intent in seen.intents}
    assert told == {
        ("Block.forward", "compiled", "module.compile()", ("a",)),
        ("outside", "disabled", "torch.compiler.disable", ()),
        ("inside", "compiled", "torch.compile", ()),
    }
    site = next(site for site in seen.break_sites if site.gb_id == "GB0098")
    assert "0x" not in site.reason
    assert site.line == line_of("return inside(")


def test_fullgraph_is_tried_on_request_though_the_default_run_broke(folder: Path) -> None:
    seen = observe_target("model.py::Model", inputs="model.py::get_inputs", root=folder, fullgraph=True)
    stages = {stage.stage: stage for stage in seen.stages}
    assert stages["fullgraph"].state == "fail"
    assert f"model.py:{line_of('in a loop')}" in stages["fullgraph"].detail
