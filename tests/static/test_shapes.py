"""What a break does to the functions around it: as the static pass predicts, and as the real Dynamo does it.

Each sample says so in words of its own too, so that a prediction and a record that err alike are seen.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest
from tcready import api
from tcready.reports.shared.wording import shape_sentence
from tcready.schema.break_effect import BreakEffect, FrameFate

if TYPE_CHECKING:
    from tcready.portable.events.record import Record
    from tcready.schema.run import BreakSite

pytestmark = pytest.mark.torch

SETTING = "torch._dynamo.config.nested_graph_breaks = True\n"
HEAD = """\
import contextlib
import torch
import torch.utils.checkpoint
from torch import nn


class Own:
    def __enter__(self):
        return self

    def __exit__(self, *args):
        return False


def inner(x):
    x = x + 1
    print("inner")
    return x * 2


def middle(x):
    return inner(x + 1) * 3


def outer(x):
    return middle(x + 1) * 3


def looping(x):
    for _ in range(2):
        x = middle(x)
    return x + 1


def numbers(x):
    yield x + 1
    print("numbers")
    yield x + 2


def say(text):
    print(text)


def repeated(x, times):
    if times == 0:
        x = x - 1
        print("repeated")
        return x * 2
    return repeated(x + 1, times - 1) * 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        x = self.linear(x)
        print("block")
        return self.linear(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.block = Block()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.chain = nn.Sequential(Block(), nn.ReLU(), nn.Linear(8, 8))

    @property
    def scale(self):
        weight = self.linear.weight[0] + 1
        print("scale")
        return weight * 2

    def guarded(self):
        return torch.no_grad()

    def forward(self, x):
        x = self.linear(x)
"""


@dataclass(frozen=True)
class Sample:
    """The middle of `Model.forward`, and the fate of every function that the break concerns.

    `split` and `lost` are symbols with a space between them; `because` is what the last of `lost` is given up for.
    """

    body: str
    split: str = ""
    lost: str = ""
    because: str | None = None
    levels: int = 1
    chains: int = 1


SAMPLES = {
    "straight": Sample("print(1)", "Model.forward"),
    "if_on_a_tensor": Sample("if x.sum() > 0:\n    x = x + 1", "Model.forward"),
    "for": Sample("for _ in range(2):\n    x = x + 1\n    print(1)", lost="Model.forward", because="for"),
    "for_once": Sample("for _ in [1]:\n    x = x + 1\n    print(1)", lost="Model.forward", because="for"),
    "behind_for": Sample(
        dedent("""\
        for _ in range(2):
            x = x + 1
        else:
            print(1)"""),
        "Model.forward",
    ),
    "head_of_for": Sample("for _ in range(int(x.abs().max())):\n    x = x + 1", "Model.forward"),
    "while": Sample(
        dedent("""\
            n = 0
            while n < 2:
                n += 1
                x = x + 1
                print(1)"""),
        lost="Model.forward",
        because="while",
    ),
    "test_of_while": Sample("while x.sum() < 50:\n    x = x.abs() + 1", "Model.forward"),
    "test_of_while_in_parts": Sample(
        dedent("""\
            n = 0
            while (x < 50).any() and n < 3:
                n += 1
                x = x + 1"""),
        lost="Model.forward",
        because="while",
    ),
    "try": Sample(
        dedent("""\
            try:
                x = x + 1
                print(1)
            except ValueError:
                x = x - 1"""),
        lost="Model.forward",
        because="try",
    ),
    "finally": Sample(
        dedent("""\
        try:
            x = x + 1
        finally:
            print(1)"""),
        "Model.forward",
    ),
    "with_own": Sample("with Own():\n    x = x + 1\n    print(1)", lost="Model.forward", because="with"),
    "with_suppress": Sample(
        "with contextlib.suppress(ValueError):\n    x = x + 1\n    print(1)", lost="Model.forward", because="with"
    ),
    "with_no_grad": Sample("with torch.no_grad():\n    x = x + 1\n    print(1)", "Model.forward"),
    "with_autocast": Sample("with torch.autocast('cpu'):\n    x = x + 1\n    print(1)", "Model.forward"),
    "with_inference_mode": Sample("with torch.inference_mode():\n    x = x + 1\n    print(1)", "Model.forward"),
    "with_nullcontext": Sample("with contextlib.nullcontext():\n    x = x + 1\n    print(1)", "Model.forward"),
    "with_sdpa_kernel": Sample(
        "with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):\n    x = x + 1\n    print(1)",
        "Model.forward",
    ),
    "with_from_method": Sample("with self.guarded():\n    x = x + 1\n    print(1)", "Model.forward"),
    "no_grad_in_for": Sample(
        dedent("""\
            for _ in range(2):
                with torch.no_grad():
                    x = x + 1
                    print(1)"""),
        lost="Model.forward",
        because="for",
    ),
    "helper": Sample("x = inner(x)", "Model.forward inner", levels=2),
    "helper_of_helper": Sample("x = middle(x)", "Model.forward middle inner", levels=3),
    "three_deep": Sample("x = outer(x)", "Model.forward outer middle inner", levels=4),
    "two_ways": Sample("x = middle(inner(x))", "Model.forward middle inner", levels=2, chains=2),
    "call_in_for": Sample(
        "for _ in range(2):\n    x = inner(x)", "inner", lost="Model.forward", because="for", levels=2
    ),
    "call_in_try": Sample(
        dedent("""\
            try:
                x = inner(x)
            except ValueError:
                x = x - 1"""),
        "inner",
        "Model.forward",
        "try",
        levels=2,
    ),
    "call_in_with": Sample("with Own():\n    x = inner(x)", "inner", "Model.forward", "with", levels=2),
    "call_in_no_grad": Sample("with torch.no_grad():\n    x = inner(x)", "Model.forward inner", levels=2),
    "loop_half_way": Sample("x = looping(x)", "Model.forward middle inner", "looping", "for", levels=4),
    "nested_function": Sample(
        dedent("""\
            def local(y):
                y = y + 1
                print(1)
                return y * 2
            x = local(x)"""),
        "Model.forward Model.forward.local",
        levels=2,
    ),
    "calls_itself": Sample("x = repeated(x, 2)", "Model.forward repeated", levels=4),
    "submodule": Sample("x = self.block(x)", "Model.forward Block.forward", levels=2),
    "submodules_in_for": Sample(
        "for block in self.blocks:\n    x = block(x)", "Block.forward", "Model.forward", "for", levels=2
    ),
    "submodule_in_sequential": Sample("x = self.chain(x)", "Model.forward Block.forward", levels=2),
    "property": Sample("x = x * self.scale", "Model.scale", "Model.forward", "property", levels=2),
    "comprehension": Sample("x = [inner(x) for _ in range(2)][0]", "Model.forward inner", levels=2),
    "comprehension_over_modules": Sample(
        "x = [block(x) for block in self.blocks][0]", "Block.forward", "Model.forward", "iterator", levels=2
    ),
    "generator_expression": Sample(
        "x = torch.stack(tuple(inner(row) for row in x))", "inner", "Model.forward", "iterator", levels=2
    ),
    "generator": Sample("for y in numbers(x):\n    x = x + y", lost="Model.forward", because="generator"),
    "no_tensor_goes_in": Sample("say('hello')", "Model.forward"),
    "checkpoint": Sample("x = torch.utils.checkpoint.checkpoint(middle, x, use_reentrant=False)", "Model.forward"),
    "frame_skip": Sample(
        "with torch.device('cpu'):\n    x = x + torch.ones(8)", lost="Model.forward", because="construct"
    ),
}


@dataclass(frozen=True)
class Nested(Sample):
    """The same with nested graph breaks."""

    hits: int = 1
    """How often Dynamo meets the break."""
    graphs: int = 2


NESTED = {
    "helper": Nested("x = inner(x)", "Model.forward inner"),
    "three_deep": Nested("x = outer(x)", "Model.forward outer middle inner"),
    "two_ways": Nested("x = middle(inner(x))", "Model.forward middle inner", chains=2, hits=2, graphs=3),
    "calls_itself": Nested("x = repeated(x, 2)", "Model.forward repeated"),
    "submodule": Nested("x = self.block(x)", "Model.forward Block.forward"),
    "in_no_grad": Nested("with torch.no_grad():\n    x = middle(x)", "Model.forward middle inner"),
    "property": Nested("x = x * self.scale", "Model.forward Model.scale"),
    "no_tensor_goes_in": Nested("say('hello')", "Model.forward say"),
    "call_in_for": Nested(
        "for _ in range(2):\n    x = middle(x)", "middle inner", "Model.forward", "for", levels=2, hits=2
    ),
    "call_in_try": Nested(
        dedent("""\
            try:
                x = middle(x)
            except ValueError:
                x = x - 1"""),
        "middle inner",
        "Model.forward",
        "try",
        levels=2,
        hits=2,
    ),
    "loop_half_way": Nested(
        "x = looping(x)", "Model.forward middle inner", "looping", "for", levels=2, hits=3, graphs=4
    ),
    "try_half_way": Nested(
        dedent("""\
            def local(y):
                y = y + 1
                try:
                    y = inner(y)
                except ValueError:
                    y = y - 1
                return y
            x = local(x)"""),
        "Model.forward inner",
        "Model.forward.local",
        "try",
        levels=2,
        hits=2,
        graphs=4,
    ),
    "try_in_helper": Nested(
        dedent("""\
            def local(y):
                y = y + 1
                try:
                    print(1)
                except ValueError:
                    y = y - 1
                return y
            x = local(x)"""),
        "Model.forward",
        "Model.forward.local",
        "try",
    ),
    "comprehension": Nested(
        "x = [middle(x) for _ in range(2)][0]", "Model.forward middle inner", levels=2, hits=3, graphs=4
    ),
    "generator": Nested("for y in numbers(x):\n    x = x + y", "", "Model.forward", "generator", graphs=0),
}


def _compiled(frames: Iterable[FrameFate]) -> dict[tuple[str, int], str]:
    """The fates of the functions that Dynamo compiles, by symbol and first line."""
    return {
        (frame.symbol.replace("<locals>.", ""), frame.line): frame.fate
        for frame in frames
        if frame.fate != "not_compiled"
    }


def _predicted(folder: Path) -> BreakEffect:
    """The shape of the one break that `Model` runs into, beside what Python then makes that Dynamo gives up."""
    report = api.check(["model.py::Model"], run=False, root=folder)
    breaks = [finding for finding in report.findings if finding.rule != "TCR333"]
    (shape,) = [finding.break_effect for finding in breaks if finding.break_effect is not None]
    return shape


def _compared(sample: Sample, folder: Path) -> tuple[Record, tuple[BreakSite, ...]]:
    """What Dynamo records of a sample, of which the prediction must say what becomes of each function."""
    import dynamo_runs
    import torch
    from tcready.dynamic.worker.core.frames import FrameNames
    from tcready.dynamic.worker.torch_internals import dynamo
    from tcready.dynamic.worker.torch_internals.recording import recording
    from tcready.portable.events import to_schema
    from tcready.portable.events.record import Record

    head = HEAD
    if isinstance(sample, Nested):
        head = head.replace("from torch import nn\n", "from torch import nn\n\n" + SETTING, 1)
    body = textwrap.indent(sample.body, " " * 8)
    program = dynamo_runs.Program(f"{head}{body}\n        return self.linear(x)\n")
    module = dynamo_runs.load(program, folder / "model.py")

    shape = _predicted(folder)
    told = _compiled((*shape.above, shape.frame))
    by_fate = {"split": sorted(sample.split.split()), "whole_frame": sorted(sample.lost.split())}
    for fate, symbols in by_fate.items():
        assert sorted(symbol for (symbol, _), known in told.items() if known == fate) == symbols
    lost = [frame for frame in (*shape.above, shape.frame) if frame.fate == "whole_frame"]
    assert {frame.because for frame in lost} == ({sample.because} if lost else set())
    assert (shape.levels, shape.chains) == (sample.levels, sample.chains)

    dynamo.reset()
    record = Record()
    model = dynamo_runs.build(module)
    with dynamo_runs.quiet(), torch.no_grad(), recording(record):
        torch.compile(model, backend="eager")(*dynamo_runs.arguments(module, program.inputs))
    sites = to_schema.break_sites(record, FrameNames(str(folder), ()), None)
    seen = _compiled(frame for site in sites for frame in site.frames if frame.path == "model.py")
    assert seen == told
    return record, sites


@pytest.mark.parametrize("name", SAMPLES)
def test_the_prediction_is_what_dynamo_does(name: str, tmp_path: Path) -> None:
    from tcready.portable.events.definitions import RESUME

    sample = SAMPLES[name]
    record, _ = _compared(sample, tmp_path)
    # the same, told by which functions Dynamo gave up, and which it compiled in parts
    gone = [s.place for s in record.skips if not s.benign and s.place.name != "<listcomp>"]
    assert _functions(gone, tmp_path) == set(sample.lost.split())
    resumed = [c.place for c in record.compiled if c.place.name.startswith(RESUME)]
    assert _functions(resumed, tmp_path) - set(sample.lost.split()) == set(sample.split.split())


@pytest.mark.parametrize("name", NESTED)
def test_nested_breaks_are_predicted(name: str, tmp_path: Path) -> None:
    import torch

    sample = NESTED[name]
    with torch._dynamo.config.patch(nested_graph_breaks=False):  # the sample's own setting ends here
        record, sites = _compared(sample, tmp_path)
    assert sum(site.hits for site in sites) == sample.hits
    assert sum(1 for frame in record.compiled if frame.ops) == sample.graphs


def _functions(places: Iterable[Any], folder: Path) -> set[str]:
    """The functions of the program that code stands in, be it theirs or a part of them."""
    from tcready.dynamic.worker.core.frames import enclosing

    mine = [place for place in places if place.path == str(folder / "model.py")]
    return {found.symbol for place in mine if (found := enclosing(place.path, place.line)) is not None}


FOLLOWING = {
    "function without tensors": """\
def note(text):
    print(text)  # met
    print(text)  # met if nested

def model(x):
    x = x + 1
    note("here")
    return x * 2
""",
    "method of a new object": """\
class Scaler:
    def scale(self, x):
        print("scaled")  # met
        return x * 2

def model(x):
    y = x + 1
    return Scaler().scale(y)  # met unless nested
""",
    "generator expression": """\
def first(*rows):
    print("rows")  # met
    return rows[0]

def model(x):
    y = x * 2
    return first(*(y * row for row in (y, y)))  # met unless nested
""",
}
"""Where a break in a callee decides whether another place breaks."""


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("name", FOLLOWING)
def test_what_breaks_because_another_does(name: str, nested: bool, tmp_path: Path) -> None:
    import dynamo_runs
    import torch

    text = f"import torch\n\ntorch._dynamo.config.nested_graph_breaks = {nested}\n\n{FOLLOWING[name]}"
    marks = ("# met", "# met if nested" if nested else "# met unless nested")
    met = {number for number, line in enumerate(text.split("\n"), 1) if line.endswith(marks)}
    with torch._dynamo.config.patch(nested_graph_breaks=False):  # the program's own setting ends here
        seen = dynamo_runs.run(dynamo_runs.Program(text), tmp_path / "model.py")
    report = api.check(["model.py::model"], run=False, root=tmp_path)
    told = {finding.line for finding in report.findings if finding.level != "note"}
    assert seen.lines == told == met


def test_a_run_shows_what_was_predicted_of_nested_breaks(tmp_path: Path) -> None:
    program = f"{HEAD}        return self.linear(middle(x))\n".replace(
        "from torch import nn\n", f"from torch import nn\n\n{SETTING}", 1
    )
    (tmp_path / "model.py").write_text(f"{program}\n\nexample = torch.randn(4, 8)\n", encoding="utf-8")
    report = api.check(["model.py::Model"], inputs="model.py::example", run=True, root=tmp_path)
    (finding,) = [finding for finding in report.findings if finding.symbol == "inner"]
    assert finding.status == "confirmed"
    assert shape_sentence(finding) == "splits Model.forward, middle, inner; so it was in the run"
    ran = report.targets[0].observation
    assert [site.hits for site in ran.break_sites] == [1]
    assert len(ran.graphs) == 2
