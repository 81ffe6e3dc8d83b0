"""What a caller can see beside outputs: wrong changes to each kind of it, put to the proof in one real worker."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from types import MappingProxyType
from typing import Any

import pytest

MODEL = """\
import collections
import dataclasses
import decimal
import enum
import fractions
import functools
import logging
import os
import random
import re
import warnings
from datetime import date
from pathlib import Path

import numpy
import torch
import torch.nn.functional as F
from torch import nn


class Kind(enum.Enum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Note:
    text: str
    size: int


class Slotted:
    __slots__ = ("value",)


class Table(dict):
    pass


class Rows(list):
    pass


class Gate:
    def __init__(self):
        self.uses = 0

    def __call__(self, x):
        self.uses += 1
        return x


class Special(torch.Tensor):
    pass


def relu(x):
    return F.relu(x)


def gelu(x):
    return F.gelu(x)


ACT = relu
LAST = ""
LAST_KIND = Kind.LOW
LAST_INPUT = None
SEEN = {}
ROWS = []
GATE = Gate()
SHARED = nn.Linear(8, 8)
SHARED.register_buffer("uses", torch.zeros(()))
STREAM = random.Random(3)
DRAWS = numpy.random.default_rng(3)
TABLE = numpy.zeros(3)
FOLDER = Path(os.environ["TMPDIR"] if "TMPDIR" in os.environ else "/tmp")


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.label = "new"
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        self.label = "used"
        return self.lin(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()
        self.act = nn.ReLU()
        self.norm = nn.LayerNorm(8)
        self.kind = Kind.LOW
        self.note = Note("begun", 0)
        self.slotted = Slotted()
        self.slotted.value = 0
        self.gate = Gate()
        self.chosen = relu
        self.table = Table()
        self.rows = Rows()
        self.draw = torch.Generator().manual_seed(1)
        self.stream = random.Random(1)
        self.deep = {"a": {"b": {"c": {"d": {"e": 0}}}}}
        self.many = set()
        self.array = numpy.zeros(3)
        self.amount = decimal.Decimal(1)
        self.register_buffer("kept", torch.ones(8))
        self.register_buffer("hidden", torch.ones(8), persistent=False)
        self.log = open(FOLDER / "tcready-of-a-test.log", "a")

    def noted(self, x):
        global ACT, LAST, LAST_KIND, LAST_INPUT
        rows = len(x)
        self.kind = Kind.HIGH if rows > 2 else Kind.LOW
        self.note = Note("used", rows)
        self.slotted.value = rows
        self.gate(x)
        self.chosen = gelu if rows > 1 else relu
        self.table["rows"] = rows
        self.rows.append(rows)
        torch.rand(2, generator=self.draw)
        self.stream.random()
        self.deep["a"]["b"]["c"]["d"]["e"] += 1
        self.many.add(Kind.HIGH)
        self.array[0] = 2
        self.amount = decimal.Decimal(2)
        ACT = gelu
        LAST = f"rows {rows}"
        LAST_KIND = Kind.HIGH
        LAST_INPUT = x.detach().clone()
        SEEN[rows] = "seen"
        ROWS.append(rows * 2)
        GATE(x)
        SHARED.uses.add_(1)
        STREAM.random()
        DRAWS.random()
        TABLE[0] = rows
        relu.uses = rows
        os.environ["TCREADY_TEST_ROWS"] = str(rows)
        self.log.write("a line\\n")
        (FOLDER / "tcready-of-a-test.txt").write_text(f"{rows} rows")
        print(end="")

    def surrounded(self, x):
        torch.use_deterministic_algorithms(False)
        return x

    def computed(self, x):
        y = self.norm(self.act(self.part(x)))
        z = self.kept.clone()
        small = y.abs().mean() * 1e-7
        return y, z, small

    def forward(self, x, memo=None):
        self.noted(x)
        x = self.surrounded(x)
        y, z, small = self.computed(x)
        memo["rows"] = len(x)
        if len(x) == 0:
            raise ValueError("rows are needed")
        return {
            "y": y,
            "z": z,
            "copy": x.clone(),
            "half": y[:, :4].clone(),
            "again": y + 0,
            "small": small,
            "set": {len(x), 5},
            "frozen": frozenset({len(x)}),
            "table": Table(rows=len(x)),
            "list": Rows([len(x)]),
            "counted": collections.Counter({"rows": len(x)}),
            "note": Note("out", len(x)),
            "kind": Kind.HIGH,
            "amount": decimal.Decimal(len(x)),
            "part": fractions.Fraction(1, 1 + len(x)),
            "day": date(2020, 1, 1 + len(x)),
            "path": Path(f"rows-{len(x)}"),
            "words": numpy.array(["a", "b"]),
            "view": {"rows": len(x)}.items(),
            "iterator": iter([len(x), 2]),
            "generator": (row * 2 for row in y),
            "mapped": map(float, [len(x), 2]),
            "function": relu,
            "closure": functools.partial(relu, inplace=len(x)) if False else functools.partial(F.dropout, p=0.1),
            "not a number": float("nan"),
            "special": y.detach().as_subclass(Special),
            "pattern": re.compile("a+"),
            "ellipsis": ...,
            "type": Note,
        }


def get_inputs():
    return (torch.randn(4, 8),), {"memo": {}}
"""
EVERY_CALL = "        x = self.surrounded(x)\n"


def _beside(statement: str) -> tuple[str, str]:
    return EVERY_CALL, f"{EVERY_CALL}        {statement}\n"


DIFFERENT: dict[str, tuple[str, str]] = {
    "an enum on self": ("Kind.HIGH if rows > 2 else Kind.LOW", "Kind.LOW if rows > 2 else Kind.HIGH"),
    "a dataclass on self": ('Note("used", rows)', 'Note("used", rows + 1)'),
    "a text on a submodule": ('self.label = "used"', 'self.label = "unused"'),
    "a slot": ("self.slotted.value = rows", "self.slotted.value = rows + 1"),
    "what a callable object counts": ("        self.gate(x)\n", ""),
    "a function on self": ("gelu if rows > 1 else relu", "relu if rows > 1 else gelu"),
    "a dict of a class of its own": ('self.table["rows"] = rows', 'self.table["rows"] = -rows'),
    "a list of a class of its own": ("self.rows.append(rows)", "self.rows.append(-rows)"),
    "a torch generator": ("        torch.rand(2, generator=self.draw)\n", ""),
    "a Python generator of numbers": ("        self.stream.random()\n", ""),
    "deep inside": ('        self.deep["a"]["b"]["c"]["d"]["e"] += 1\n', ""),
    "a set of enums": ("self.many.add(Kind.HIGH)", "self.many.add(Kind.LOW)"),
    "an array on self": ("self.array[0] = 2", "self.array[0] = 3"),
    "a decimal on self": ("self.amount = decimal.Decimal(2)", "self.amount = decimal.Decimal(3)"),
    "a global function": ("        ACT = gelu\n", ""),
    "a global text": ('LAST = f"rows {rows}"', 'LAST = f"{rows} rows"'),
    "a global enum": ("LAST_KIND = Kind.HIGH", "LAST_KIND = Kind.LOW"),
    "a global tensor": ("LAST_INPUT = x.detach().clone()", "LAST_INPUT = x.detach() * 2"),
    "an item of a global table": ('SEEN[rows] = "seen"', 'SEEN[rows] = "not seen"'),
    "an item of a global list": ("ROWS.append(rows * 2)", "ROWS.append(rows * 3)"),
    "a global callable object": ("        GATE(x)\n", ""),
    "a buffer of a global module": ("        SHARED.uses.add_(1)\n", ""),
    "a global generator": ("        STREAM.random()\n", ""),
    "a global generator of numpy": ("        DRAWS.random()\n", ""),
    "a global array": ("TABLE[0] = rows", "TABLE[0] = -rows"),
    "an attribute of a function": ("relu.uses = rows", "relu.uses = -rows"),
    "the environment": ("= str(rows)\n", "= str(-rows)\n"),
    "a file that is written": ('write_text(f"{rows} rows")', 'write_text(f"{rows} lines")'),
    "a file that is not written": ('        (FOLDER / "tcready-of-a-test.txt").write_text(f"{rows} rows")\n', ""),
    "the default dtype": _beside("torch.set_default_dtype(torch.float64)"),
    "gradients left on": _beside("torch.set_grad_enabled(True)"),
    "gradients left off": _beside("x = x + 0; torch.set_grad_enabled(False) if not x.requires_grad else None"),
    "deterministic algorithms": (
        "torch.use_deterministic_algorithms(False)",
        "torch.use_deterministic_algorithms(True, warn_only=True)",
    ),
    "autocast": _beside("torch.set_autocast_enabled('cpu', True)"),
    "anomaly detection": _beside("torch.autograd.set_detect_anomaly(True)"),
    "the precision of products": _beside("torch.set_float32_matmul_precision('medium')"),
    "the working folder": _beside("os.chdir('/')"),
    "the level of a logger": _beside("logging.getLogger('model').setLevel(logging.ERROR)"),
    "a filter of warnings": _beside("warnings.simplefilter('ignore')"),
    "a folder to import from": _beside("import sys; sys.path.append('/nowhere')"),
    "numpy's errors": _beside("numpy.seterr(all='raise')"),
    "training": _beside("self.norm.train(not self.norm.training)"),
    "a parameter that trains": _beside("self.norm.weight.requires_grad_(False)"),
    "a gradient that is left": _beside("self.norm.weight.grad = torch.ones(8)"),
    "another parameter": _beside("self.norm.weight = nn.Parameter(self.norm.weight.detach().clone())"),
    "an attribute of a parameter": _beside("self.norm.weight.tag = 1"),
    "another kind of submodule": _beside("self.act = nn.LeakyReLU(0.0) if False else nn.ReLU6()"),
    "a submodule more": _beside("self.more = nn.Identity()"),
    "a buffer that is saved": _beside("self.register_buffer('hidden', self.hidden)"),
    "an output that is a buffer": ("z = self.kept.clone()", "z = self.kept"),
    "an output that is an input": ('"copy": x.clone()', '"copy": x'),
    "an output that is a view of another": ("y[:, :4].clone()", "y[:, :4].as_strided((len(y), 4), (8, 1))"),
    "an output twice": ('"again": y + 0', '"again": y'),
    "an output that no gradient may pass": (
        "y = self.norm(self.act(self.part(x)))\n        z",
        dedent("""\
            y = self.norm(self.act(self.part(x)))
                    if not y.requires_grad:
                        with torch.inference_mode():
                            y = self.norm(self.act(self.part(x)))
                    z"""),
    ),
    "an input that requires grad": _beside("x.requires_grad_(True) if x.is_leaf else None"),
    "a small number": ("* 1e-7", "* 2e-7"),
    "a set": ("{len(x), 5}", "{len(x), 6}"),
    "a frozen set": ("frozenset({len(x)})", "frozenset({len(x), 1})"),
    "a table of a class of its own": ("Table(rows=len(x))", "Table(rows=-len(x))"),
    "rows of a class of its own": ("Rows([len(x)])", "Rows([-len(x)])"),
    "a counter": ('collections.Counter({"rows": len(x)})', 'collections.Counter({"rows": -len(x)})'),
    "a dataclass": ('Note("out", len(x))', 'Note("out", -len(x))'),
    "an enum": ('"kind": Kind.HIGH', '"kind": Kind.LOW'),
    "a decimal": ("decimal.Decimal(len(x))", "decimal.Decimal(-len(x))"),
    "a fraction": ("fractions.Fraction(1, 1 +", "fractions.Fraction(1, 2 +"),
    "a date": ("date(2020, 1, 1", "date(2021, 1, 1"),
    "a path": ('Path(f"rows-', 'Path(f"lines-'),
    "an array of words": ('numpy.array(["a", "b"])', 'numpy.array(["a", "c"])'),
    "a view of a table": ('{"rows": len(x)}.items()', '{"rows": -len(x)}.items()'),
    "an iterator": ("iter([len(x), 2])", "iter([len(x), 3])"),
    "a generator": ("(row * 2 for row in y)", "(row * 3 for row in y)"),
    "a mapping of values": ("map(float, [len(x), 2])", "map(float, [len(x), 3])"),
    "a function": ('"function": relu', '"function": gelu'),
    "a function in part": ("functools.partial(F.dropout, p=0.1)", "functools.partial(F.dropout, p=0.2)"),
    "not a number": ('float("nan")', "3.0"),
    "a tensor of a class of its own": ("y.detach().as_subclass", "(y.detach() + 1).as_subclass"),
    "a plain tensor": ("y.detach().as_subclass(Special)", "y.detach().clone()"),
    "a pattern": ('re.compile("a+")', 're.compile("b+")'),
    "a type": ('"type": Note', '"type": Gate'),
    "hooks that do not fire": (
        "self.norm(self.act(self.part(x)))\n        z",
        "F.layer_norm(self.act(self.part(x)), (8,), self.norm.weight, self.norm.bias)\n        z",
    ),
    "a tensor where a number was": ("self.uses += 1", "self.uses = torch.tensor(self.uses + 1)"),
    "hooks that fire twice": (
        "self.norm(self.act(self.part(x)))\n        z",
        "self.norm(self.act(self.part(x)))\n        self.act(x)\n        z",
    ),
    "a message": ('ValueError("rows are needed")', 'ValueError("no rows")'),
    "a key of what was passed": ('memo["rows"] = len(x)', 'memo["rows"] = -len(x)'),
}


LOADS = """\
import os
import pickle
import sys
from pathlib import Path

import torch
from tcready.dynamic.worker.proof.behaviour_differences import another_message, difference, noticed, restless
from tcready.dynamic.worker.proof.effects_of_call import observe_call

torch.set_num_threads(1)
folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))


def seen(text):
    # a process of its own: what a call leaves set is for the next one
    reads, writes = os.pipe()
    if not os.fork():
        (folder / "model.py").write_text(text)
        import model

        found = []
        for mode in ("infer", "train"):
            for rows in (4, 1, 0):
                torch.manual_seed(0)
                built = model.Model().train(mode == "train")
                x = torch.randn(rows, 8)
                found.append(observe_call(built, built, (x,), {"memo": {}}, (model,), (x,), gradients=mode == "train"))
        with os.fdopen(writes, "wb") as pipe:
            torch.save(found, pipe)
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        answer = pipe.read()
    os.wait()
    import io

    return torch.load(io.BytesIO(answer), weights_only=False) if answer else []


texts = pickle.loads((folder / "texts").read_bytes())
before = seen(texts["nothing"])
again = seen(texts["nothing"])
moves = frozenset().union(*(restless(one, other) for one, other in zip(before, again, strict=True)))
answers = {}
for name, text in texts.items():
    after = seen(text)
    answers[name] = "it ended" if not after else None
    for one, other in zip(before, after):
        found = difference(one, other, moves)
        answers[name] = answers[name] or (found and found[1]) or noticed(one, other) or another_message(one, other)
(folder / "answers").write_bytes(pickle.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str | None]:
    """What each change was seen by."""
    folder = tmp_path_factory.mktemp("seen")
    texts = {"nothing": MODEL}
    for name, (old, new) in DIFFERENT.items():
        assert MODEL.count(old) == 1, name
        texts[name] = MODEL.replace(old, new)
    (folder / "texts").write_bytes(pickle.dumps(texts))
    ran = subprocess.run(
        [sys.executable, "-B", "-c", LOADS, str(folder)], env={**os.environ, "TMPDIR": str(folder)}, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return MappingProxyType(pickle.loads((folder / "answers").read_bytes()))


@pytest.mark.torch
def test_a_difference_is_seen_and_only_then(answers: Mapping[str, str | None]) -> None:
    assert answers["nothing"] is None
    assert [name for name in DIFFERENT if answers[name] is None] == []


RAISING = {
    "raise ValueError('a')": True,
    "assert x.sum() > 1000, 'a'": True,
    "assert x[:0].max() > 0": False,
    "x.view(3)": False,
}


@pytest.mark.torch
@pytest.mark.parametrize("statement", RAISING)
def test_whose_exception_it_is(statement: str, tmp_path: Path) -> None:
    """What torch raises in the line of an `assert` is torch's."""
    import torch
    from tcready.dynamic.worker.proof.effects_of_call import observe_call

    path = tmp_path / "raising.py"
    path.write_text(f"def f(x):\n    {statement}\n")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    found = observe_call(None, names["f"], (torch.ones(4),), {})
    assert found.error is not None
    assert found.raised == RAISING[statement]
