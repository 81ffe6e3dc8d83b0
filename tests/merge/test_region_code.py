"""The code that a region is compiled with, pasted and run under Dynamo on real modules."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tcready.merge.regions import predict_regions
from tcready.schema.observation import ModuleShare
from tcready.schema.report import Region
from tcready.schema.run import SkippedFrame

torch = pytest.importorskip("torch")
nn = torch.nn
WIDTH = 8


class Own(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return self.fc(x).relu()


class OwnSequence(nn.Sequential):  # type: ignore[misc, name-defined]
    """Its forward is torch's."""


class Around(nn.Module):  # type: ignore[misc, name-defined]
    """Breaks, so that only what it holds is a region."""

    def __init__(self, *parts: Any) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
            torch._dynamo.graph_break()
        return x


KINDS: dict[str, Callable[[], Any]] = {
    "Linear": lambda: nn.Linear(WIDTH, WIDTH),
    "Sequential": lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()),
    "LayerNorm": lambda: nn.LayerNorm(WIDTH),
    "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True),
    "own": Own,
    "own, torch's forward": lambda: OwnSequence(nn.Linear(WIDTH, WIDTH), nn.ReLU()),
}


def regions_of(model: Any) -> tuple[Region, ...]:
    """Those of a run that saw `Around` break."""
    shares = []
    for name, module in model.named_modules():
        code = type(module).forward.__code__
        own = {"path": "m.py", "line": code.co_firstlineno} if code.co_filename == __file__ else {}
        shares.append(ModuleShare(name, type(module).__name__, 10, 10, **own))
    line = Around.forward.__code__.co_firstlineno
    lost = (SkippedFrame("m.py", line, "Around.forward", "why", benign=False),)
    return predict_regions(shares, (), (), skipped=lost if isinstance(model, Around) else ())


def graphs(model: Any, code: str) -> int:
    """How many graphs a call has after the region's code was pasted."""
    torch._dynamo.reset()
    seen = []

    def backend(graph: Any, inputs: Any) -> Any:
        seen.append(graph)
        return graph.forward

    counting = SimpleNamespace(compile=lambda function: torch.compile(function, backend=backend))
    code = code.replace(".compile()", ".compile(backend=backend)")
    exec(code, {"model": model, "torch": counting, "backend": backend})
    with torch.no_grad():
        model(torch.ones(2, 3, WIDTH))
    return len(seen)


@pytest.mark.torch
@pytest.mark.parametrize("kind", KINDS)
def test_the_code_for_a_whole_model_makes_one_graph_and_leaves_its_state_alone(kind: str) -> None:
    model = KINDS[kind]().eval()
    before = [*model.state_dict()]
    (region,) = regions_of(model)
    assert (region.name, graphs(model, region.code)) == ("", 1)
    assert [*model.state_dict()] == before


@pytest.mark.torch
@pytest.mark.parametrize("kind", KINDS)
def test_the_code_for_equal_parts_makes_a_graph_that_serves_them_all(kind: str) -> None:
    model = Around(*(KINDS[kind]() for _ in range(12))).eval()
    before = [*model.state_dict()]
    (region,) = regions_of(model)
    assert (region.name, region.instances, graphs(model, region.code)) == ("parts.*", 12, 1)
    assert [*model.state_dict()] == before
