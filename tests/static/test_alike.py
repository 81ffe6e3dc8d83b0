"""Several models of one file that are built alike: what is told of each is what reading it alone tells, though what they
share is made and interpreted once; after an edit too."""

from __future__ import annotations

import json
import random
from pathlib import Path
from textwrap import dedent

import pytest
from reading import RULES, read
from tcready.pipeline import registry
from tcready.portable.options import ReadOptions
from tcready.schema.codec import as_json
from tcready.schema.static import StaticResult
from tcready.static.interp import functions
from tcready.static.session import Session

MODELS = ("Tagger", "Seq2Seq", "Speaker", "Switched", "Twice")
TEXT = """
import torch
from torch import nn
from near import scaled

LIMIT = 4


def pooled(x):
    return x.mean(1)


class Norm(nn.Module):
    eps = 1e-6

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x / (x.norm() + self.eps)


class Layer(nn.Module):
    def __init__(self, width, cross=False):
        super().__init__()
        self.norm, self.mix, self.cross = Norm(width), nn.Linear(width, width), cross
        if cross:
            self.look = nn.Linear(width, width)

    def forward(self, x, seen=None, state=None):
        x = self.mix(self.norm(x))
        if self.cross:
            x = x + self.look(seen)
        if state is not None:
            state.item()
        return scaled(x)


class Stack(nn.Module):
    checked = False

    def __init__(self, width, cross=False):
        super().__init__()
        self.layers = nn.ModuleList([Layer(width, cross) for _ in range(LIMIT)])
        self.last = Layer(width, cross)
        self.calls, self.strict = 0, False

    def forward(self, x, seen=None, state=None):
        for layer in self.layers:
            x = layer(x, seen)
        if self.strict:
            print(x)
        return self.last(x, seen, state)


class Tagger(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.encoder, self.head = Stack(width), nn.Linear(width, 2)

    def forward(self, x):
        return self.head(self.encoder(x))


class Seq2Seq(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.encoder, self.decoder = Stack(width), Stack(width, cross=True)

    def forward(self, x, y):
        return self.decoder(y, self.encoder(x))


class Speaker(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.encoder = Stack(width)

    def forward(self, x):
        return pooled(self.encoder(x, state=x))


class Switched(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.encoder = Stack(width)
        self.encoder.strict = True

    def forward(self, x):
        return self.encoder(x)


class Twice(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.one, self.other = Stack(width), Stack(width)

    def forward(self, x):
        return self.one(x) + self.other(x, state=x)
"""
NEAR = "def scaled(x):\n    return x * 2\n"
EDITS = (
    ("    return x.mean(1)\n", "    return x.mean(1) if x.sum() > 0 else x\n"),
    ("x.norm() + self.eps", "x.norm().item() + self.eps"),
    ("    eps = 1e-6\n", '    eps = torch.tensor(1e-6)\n    print("made")\n'),
    ("    checked = False\n", "    checked = True\n"),
    (
        "from near import scaled\n",
        dedent("""\
        from near import scaled as other


        def scaled(x):
            return x.tolist()
    """),
    ),
    ("LIMIT = 4\n", "LIMIT = 2\n"),
    ("cross=True)\n", "cross=False)\n"),
    ("        if self.strict:\n", "        self.calls += 1\n        if self.calls > 3:\n"),
    ("self.strict = 0, False\n", "self.strict = 0, True\n"),
    ("        self.encoder.strict = True\n", "        self.encoder.last.norm = nn.Identity()\n"),
    ("        return scaled(x)\n", "        self.kept = x\n        return scaled(x)\n"),
    ("        x = self.mix(self.norm(x))\n", "\n        x = self.norm(self.mix(x))\n        print(x.shape)\n"),
    ("class Speaker(nn.Module):\n", "class Speaker(Tagger):\n"),
)
"""A helper, what is deep in a module, class attributes, an import, a constant of the file, what a model makes, what it
changes of what it made, what running it stores, lines moved, a base class: each there and back."""


def options(root: Path) -> ReadOptions:
    return ReadOptions(root=root, search_path=(root,), mode="infer", low=True, third_party=False)


def told(results: list[StaticResult]) -> tuple[dict[object, object], dict[object, object]]:
    """Findings by place, as the surest result has them, and for each module of each model the places of its breaks."""
    confidences = ("low", "medium", "high")
    found: dict[object, object] = {}
    modules: dict[object, object] = {}
    for result in results:
        places = {f.fingerprint: (f.line, f.column, f.rule) for f in result.findings}
        for finding in result.findings:
            place = places[finding.fingerprint]
            sure = max(finding.confidence, str(found.get(place, "low")), key=confidences.index)
            found[place] = sure
        for target in result.targets:
            for module in target.modules:
                breaks = sorted(places[each] for each in module.breaks)
                modules[target.target, module.name] = module.type, module.sure, module.unknown, breaks
    return found, modules


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_each_model_is_told_as_if_alone_and_after_edits_as_if_cold(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    (tmp_path / "near.py").write_text(NEAR)
    file = tmp_path / "model.py"
    file.write_text("")
    warm = Session(options(tmp_path), registry.rule_set())
    edits = dice.sample(EDITS, len(EDITS))
    text, different = TEXT, set()
    for old, new in [("", ""), *edits]:
        assert old in text or new in text
        text = text.replace(old, new, 1) if old in text else text.replace(new, old, 1)
        edited = warm.check(["model.py"], {file: text}).result
        file.write_text(text)
        whole = read(["model.py"], options(tmp_path), RULES, suggest=registry.rule_set().suggest)
        assert as_json(edited) == as_json(whole), (old, new)
        assert len(whole.targets) == len(MODELS)
        alone = [read([f"model.py::{name}"], options(tmp_path), RULES) for name in MODELS]
        assert told([whole]) == told(alone), (old, new)
        different.add(json.dumps(as_json(whole.findings)))
    assert len(different) > len(EDITS) // 2  # the edits show


@pytest.fixture
def bodies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions whose bodies are interpreted, in order."""
    interpreted: list[str] = []
    real = functions.Functions._body

    def body(self, info, frame):  # type: ignore[no-untyped-def]
        interpreted.append(info.symbol)
        return real(self, info, frame)

    monkeypatch.setattr(functions.Functions, "_body", body)
    return interpreted


def test_what_models_share_is_interpreted_once(tmp_path: Path, bodies: list[str]) -> None:
    (tmp_path / "near.py").write_text(NEAR)
    (tmp_path / "model.py").write_text(TEXT)
    counts = []
    for targets in (["model.py"], [f"model.py::{name}" for name in MODELS]):
        bodies.clear()
        read(targets, options(tmp_path), RULES)
        counts.append((bodies.count("Stack.__init__"), bodies.count("Norm.forward")))
    (made, run), (made_apart, run_apart) = counts
    assert made < made_apart
    assert run < run_apart


NESTED = """
from torch import nn


class Part(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.lin = nn.Linear(config.width, 4)

    def forward(self, x):
        return self.lin(x)


class Body(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.parts = nn.ModuleList([Part(config), Part(config)])

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x


class Beside(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.body = Body(config)

    def forward(self, x):
        return self.body(x)
"""


def deep(levels: int) -> str:
    """A model so many levels above `Body`."""
    below = "Body"
    text = ""
    for level in range(levels):
        text += f"\n\nclass Level{level}(nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
        text += f"        self.below = {below}(config)\n\n    def forward(self, x):\n        return self.below(x)\n"
        below = f"Level{level}"
    return text


def test_what_is_made_at_another_depth_is_made_once(tmp_path: Path, bodies: list[str]) -> None:
    (tmp_path / "model.py").write_text(NESTED + deep(2))
    read(["model.py"], options(tmp_path), RULES)
    made = [bodies.count(f"{name}.__init__") for name in ("Body", "Part", "Level1", "Beside")]
    assert made == [1, 2, 1, 1]


@pytest.mark.parametrize("levels", range(8, 13))
def test_what_would_be_made_too_deep_is_not_lent(levels: int, tmp_path: Path) -> None:
    """A model whose parts others have made too is told as if alone, however many levels of calls its making takes."""
    text = NESTED.replace("x = part(x)", "x = part(x) * x.sum().item()") + deep(levels)
    (tmp_path / "model.py").write_text(text)
    last = f"model.py::Level{levels - 1}"
    (_, whole), (_, alone) = (told([read([target], options(tmp_path), RULES)]) for target in ("model.py", last))
    assert {key: seen for key, seen in whole.items() if key[0] == last} == alone  # type: ignore[index]
