"""The engine says of a name what the table of the torch that is asked for says: nothing is listed a second time."""

from __future__ import annotations

import textwrap
from pathlib import Path
from textwrap import dedent

import pytest
from probing import HEAD
from reading import read
from tcready.portable.options import ReadOptions
from tcready.schema.static import Finding
from tcready.static.library import torch_tables, torch_versions
from tcready.static.library.torch_tables import Tables
from tcready.static.library.torch_versions import Version

KNOWN = torch_versions.with_tables()
BY_VERSION = pytest.mark.parametrize("version", KNOWN, ids=lambda v: f"{v[0]}.{v[1]}")


def found(folder: Path, source: str, version: Version) -> list[Finding]:
    """What is said of the model in a program."""
    path = folder / "model.py"
    path.write_text(HEAD + textwrap.dedent(source), encoding="utf-8")
    options = ReadOptions(root=folder, mode="infer", search_path=(folder,), torch=version)
    result = read([f"{path}::Model"], options)
    assert not result.skipped
    return [finding for finding in result.findings if finding.path == "model.py"]


def names(table: Tables, kind: str) -> list[str]:
    """The names of torch in one table."""
    return sorted(name for name in getattr(table, kind) if name.startswith("torch.") and "._" not in name)


@BY_VERSION
def test_what_a_block_does_to_its_function(version: Version, tmp_path: Path) -> None:
    """One `with` a method: whether entering it breaks, and whether a break inside is one of straight-line code."""
    table = torch_tables.load(version)
    managers = [name for name in names(table, "_contexts") if table.context_of(name) is not None]
    assert len(managers) > 40
    source = "import warnings\n" + "\n".join(f"import {module}" for module in _modules(managers))
    source += "\n\nclass Model(nn.Module):\n    def forward(self, x):\n        y = x * 2\n"
    for number in range(len(managers)):
        source += f"        y = self.f{number}(y)\n"
    source += "        return y\n"
    for number, name in enumerate(managers):
        source += f"\n    def f{number}(self, x):\n        x = x + 1\n        with {name}():\n            print(x)\n"
        source += "        return x * 2\n"
    said = found(tmp_path, source, version)
    entered = {f.symbol: f for f in said if f.rule == "TCR407"}
    printed = {f.symbol: f.break_effect for f in said if f.rule == "TCR301"}
    for number, name in enumerate(managers):
        known = table.context_of(name)
        assert known is not None
        symbol = f"Model.f{number}"
        assert (symbol in entered) is bool(known.gb_id), name
        if symbol in entered:
            before = known.inside == "before" and table.holds("TCR407", f"{name}: the rest goes eager")
            assert ("up to it" in entered[symbol].message) is before, name
            continue
        effect = printed[symbol]
        assert effect is not None
        assert (effect.frame.fate == "split") is (known.inside == "split"), name


@BY_VERSION
def test_what_a_decorated_function_is_to_its_caller(version: Version, tmp_path: Path) -> None:
    """Whether a call of it breaks, and whether what breaks in its body is told."""
    table = torch_tables.load(version)
    decorators = [name for name in names(table, "_decorators") if table.decorator_of(name) is not None]
    assert len(decorators) > 30
    source = "\n".join(f"import {module}" for module in _modules(decorators)) + "\n"
    for number, name in enumerate(decorators):
        source += f"\n\n@{name}\ndef f{number}(x):\n    print(x)\n    return x * 2\n"
    source += "\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
    for number in range(len(decorators)):
        source += f"        x = f{number}(x)\n"
    source += "        return x\n"
    first = (HEAD + source).count("\n", 0, (HEAD + source).index("x = f0(x)")) + 1
    said = found(tmp_path, source, version)
    broken = {f.line - first for f in said if f.symbol == "Model.forward"}
    followed = {f.symbol for f in said if f.rule == "TCR301"}
    for number, name in enumerate(decorators):
        known = table.decorator_of(name)
        assert known is not None
        assert (number in broken) is bool(known.gb_id), name
        assert (f"f{number}" in followed) is (known.body in ("traced", "compiled")), name


@BY_VERSION
def test_draws_and_what_torch_makes_of_values(version: Version, tmp_path: Path) -> None:
    """Calls whose break the table tells, each on a line of its own."""
    table = torch_tables.load(version)
    draws = sorted(n for n in table._calls if n.startswith("random.") and n.count(".") == 1 and n[7].islower())
    source = dedent("""\
        import random


        class Model(nn.Module):
            def forward(self, x):
                y = x * 2
    """)
    source += "".join(f"        {name}(1)\n" for name in draws) + "        return y\n"
    first = (HEAD + source).count("\n", 0, (HEAD + source).index(f"{draws[0]}(1)")) + 1
    broken = {f.line - first for f in found(tmp_path, source, version) if f.rule == "TCR306"}
    calls = {name: table.call_of(name) for name in draws}
    assert {draws[line] for line in broken} == {
        name for name, call in calls.items() if call is not None and call.breaks is not False
    }


SWITCHES = """
class Model(nn.Module):
    def __init__(self, rows: int):
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.given = nn.Embedding(10, 8, padding_idx=0)
        self.asked = nn.Embedding(10, 8, padding_idx=rows)
        self.attn = nn.MultiheadAttention(8, 2)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        if self.embed.padding_idx is not None:
            print("left out")
        if self.given.padding_idx is not None:
            print("given")
        if self.asked.padding_idx > 3:
            print("asked")
        if self.pool.stride is not None:
            x = x / x.norm().item()  # "derived"
        if self.attn.batch_first:
            print("switch")
        if self.attn._forward_hooks:
            print("hooked")
        return x
"""


@BY_VERSION
def test_switches_of_modules(version: Version, tmp_path: Path) -> None:
    """What the table tells of a constructor decides; nothing is sure that it does not tell."""
    lines = (HEAD + SWITCHES).splitlines()
    said = {lines[f.line - 1].split('"')[1]: f.confidence for f in found(tmp_path, SWITCHES, version)}
    assert "high" not in {said.get(each) for each in ("left out", "asked", "switch", "hooked")}
    assert said["derived"] == "medium", "no table has what hangs on an argument that is always given"
    if torch_tables.load(version).constructor_of("torch.nn.Embedding") is not None:
        assert said["given"] == "high"
        assert "left out" not in said
        assert "switch" not in said


def _modules(managers: list[str]) -> list[str]:
    return sorted({name.rpartition(".")[0] for name in managers})
