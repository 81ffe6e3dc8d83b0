"""What is said of members of enums is what Python says, or nothing."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from probing import HEAD
from reading import read
from tcready.portable.options import ReadOptions

ENUMS = """
import enum
class Op(enum.Enum):
    NONE = 0
    ADD = 1
    SAME = 1
    @property
    def adds(self): return self is Op.ADD
class Number(enum.IntEnum):
    ZERO = 0
    ONE = 1
class Word(str, enum.Enum):
    A = "a"
    EMPTY = ""
class Own(enum.Enum):
    A = 1
    def __bool__(self): return False
    def __eq__(self, other): return other == 1
    __hash__ = None
class Made(enum.Enum):
    SMALL = (1, False)
    BIG = (2, True)
    def __init__(self, size, deep): self.size, self.deep = size, deep
    @property
    def odd(self): return self.size % 2 == 1
class Named(enum.Enum):
    def _generate_next_value_(name, start, count, last): return name.lower()
    FOO = enum.auto()
class Bits(enum.Flag):
    A = enum.auto()
    B = enum.auto()
    C = enum.auto()
"""
ASKED = [
    "Op.NONE", "Op.NONE == 0", "Op.ADD == 1", "Op.ADD == Op.SAME", "Op.ADD is Op.SAME", "Op.SAME.name == 'SAME'",
    "Op.SAME.name == 'ADD'", "len(list(Op)) == 3", "Op(1) is Op.ADD", "Op['SAME'] is Op.ADD", "Op.ADD.value == 1",
    "Op.ADD in (1, 2)", "Op.ADD in (Op.NONE, Op.SAME)", "Op.SAME.adds", "Op.NONE.adds", "Op.ADD != 1",
    "Number.ZERO", "Number.ONE == 1", "Number.ONE == Op.ADD", "Word.A == 'a'", "Word.EMPTY", "Own.A", "Own.A == 1",
    "Own.A == 2", "Made.BIG.odd", "Made.SMALL.odd", "Made.BIG.deep", "Made.BIG.value == (2, True)",
    "Named.FOO.value == 1", "Named.FOO.value == 'foo'", "Bits.C.value == 3", "Bits.C.value == 4",
]  # fmt: skip
if sys.version_info >= (3, 11):
    ENUMS += "class Text(enum.StrEnum):\n    Foo = enum.auto()\n"
    ASKED += ["Text.Foo == 'foo'", "Text.Foo == 1"]


@pytest.mark.parametrize("asked", ASKED)
def test_a_question_about_a_member(asked: str, tmp_path: Path) -> None:
    names: dict[str, Any] = {"enum": enum}
    exec(ENUMS, names)
    model = dedent("""\
        class Model(nn.Module):
            def forward(self, x):
                return x.max().item() if {} else x
    """)
    told = {}
    for question in (asked, f"not ({asked})"):
        (tmp_path / "model.py").write_text(f"{HEAD}{ENUMS}{model.format(question)}", encoding="utf-8")
        found = read(["model.py"], ReadOptions(root=tmp_path)).findings
        told[bool(eval(question, names))] = any(f.confidence == "high" for f in found)
    assert told[True] or not told[False], "decided, and wrongly"
