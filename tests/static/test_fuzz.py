"""The engine never raises and is done soon: made-up programs, hostile shapes, and other people's files."""

from __future__ import annotations

import ast
import json
import os
import random
import subprocess
import sys
import sysconfig
import textwrap
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from probing import HEAD, forward
from tcready import rules
from tcready.schema import StaticResult
from tcready.static.lint import LintOptions, lint

RULES = rules.load()
SECONDS = 6.0
"""CPU time for one file: many times what any of these takes, and far below what an explosion takes."""


def _lint(root: Path, target: str) -> StaticResult:
    return lint([target], RULES, LintOptions(root=root, mode=None, low=True, search_path=(root,)))


# made-up programs

NAMES = "x y z n self m fn Sub Model items G".split()
ATTRIBUTES = "shape sum item n training layers sub forward append T size max items step".split()
CONSTANTS = "0 1 -1 2.5 None True False 'a' b'a' ... 3j () [] {}".split()
CALLABLES = (
    "len int float bool range list dict zip enumerate map filter sum max min isinstance getattr setattr hasattr super "
    "type next iter reversed sorted print torch.zeros torch.where torch.cat torch.cond torch.compile torch.no_grad "
    "F.relu nn.Linear nn.ModuleList nn.Sequential nn.ModuleDict nn.Parameter functools.partial functools.reduce Sub "
    "Model fn self.step self.sub self.layers.append x.item x.max items.append any"
).split()
TARGETS = (
    "x",
    "y",
    "z",
    "n",
    "G",
    "self.n",
    "self.sub",
    "self.layers",
    "x.data",
    "x[0]",
    "items[y]",
    "(x, *y)",
)
EXPRESSIONS = (
    *(
        "({e} + {e})",
        "({e} @ {e})",
        "({e} // {e})",
        "({e} % {e})",
        "({e} ** {e})",
        "({e} & {e})",
        "({e} == {e} < {e})",
    ),
    *(
        "({e} is {e})",
        "({e} is not None)",
        "({e} in {e})",
        "({e} and {e} or {e})",
        "(not {e})",
        "(-{e})",
        "(~{e})",
    ),
    *(
        "({e} if {e} else {e})",
        "({e}).{a}",
        "({e})[{e}]",
        "({e})[{e}:{e}, None, ...]",
        "[{e}, *{e}]",
        "({e}, {e})",
    ),
    *("{{{e}, {e}}}", "{{{e}: {e}, **{e}}}", "[{e} for y in {e} if {e}]", "{{{e}: {e} for y, z in {e}}}"),
    *(
        "({e} for x in {e} for y in x)",
        "(lambda y=1, *z: {e})",
        "(lambda: (yield {e}))",
        "f'{{{n}!r:>{{{n}}}}}'",
    ),
    *(
        "(y := {e})",
        "{c}({e})",
        "{c}({e}, *{e})",
        "{c}({e}, {e}, k={e}, **{e})",
        "({e})({e})",
        "{c}()",
        "{n}.{a}",
    ),
    *("isinstance({e}, (int, torch.Tensor, Sub))", "{c}({e}, {e})", "{n}.{a}({e})", "{n}.{a}()"),
)
SIMPLE = (
    *(
        "{e}",
        "{t} = {e}",
        "x = y = {e}",
        "x += {e}",
        "self.n -= {e}",
        "x[0] *= {e}",
        "z: {e} = {e}",
        "return {e}",
    ),
    *(
        "raise {e} from {e}",
        "assert {e}, {e}",
        "del x",
        "del self.n, items[y:z]",
        "y = yield {e}",
        "yield from {e}",
    ),
    *("pass", "import torch as m", "from . import G", "import os.path", "from elsewhere import z"),
)
COMPOUND = (
    *("if {e}:\n{b}\nelif {e}:\n{b}\nelse:\n{b}", "for {t} in {e}:\n{b}\n    if x: break\nelse:\n{b}"),
    *(
        "while {e}:\n{b}\n    continue",
        "try:\n{b}\nexcept (KeyError, fn) as e:\n{b}\nelse:\n{b}\nfinally:\n{b}",
    ),
    *(
        "with {e} as {t}, fn(x):\n{b}",
        "def fn(x, /, y={e}, *m, n: {e}, **z) -> {e}:\n{b}",
        "@{e}\ndef fn(*x):\n{b}",
    ),
    *(
        "def fn(x=1, *m):\n    nonlocal y\n{b}\n    return fn",
        "async def fn(x):\n    async for y in {e}: await x\n{b}",
    ),
    "class Sub({n}):\n    y = {e}\n    n: int\n    @property\n    def forward(self, x):\n        y = x\n    {s}",
    "match {e}:\n    case [x, *y] if {e}:\n        {s}\n    case {{'k': z, **n}} | Sub(n=z):\n        {s}\n    case None | 3:\n        {s}",
)


class Writer:
    """Writes programs of a small grammar; the same seed writes the same one."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def expression(self, depth: int) -> str:
        if depth <= 0:
            return self._random.choice(self._random.choice((NAMES, NAMES, CONSTANTS)))
        return self._filled(self._random.choice(EXPRESSIONS), depth - 1)

    def statement(self, depth: int) -> str:
        return self._filled(
            self._random.choice(COMPOUND if depth > 0 and self._random.random() < 0.5 else SIMPLE), depth
        )

    def block(self, depth: int, indent: str) -> str:
        lines = [self.statement(depth) for _ in range(self._random.randint(1, 3))]
        return textwrap.indent("\n".join(lines), indent)

    def _filled(self, template: str, depth: int) -> str:
        pieces: dict[str, Callable[[], str]] = {
            "{e}": lambda: self.expression(min(depth, 3)),
            "{s}": lambda: self._filled(self._random.choice(SIMPLE), 1),
            "{b}": lambda: self.block(depth - 1, "    "),
            "{n}": lambda: self._random.choice(NAMES),
            "{a}": lambda: self._random.choice(ATTRIBUTES),
            "{c}": lambda: self._random.choice(CALLABLES),
            "{t}": lambda: self._random.choice(TARGETS),
        }
        marked = template.replace("{{", "\1").replace("}}", "\2")
        for mark, piece in pieces.items():
            while mark in marked:
                marked = marked.replace(mark, piece().replace("{", "\1").replace("}", "\2"), 1)
        return marked.replace("\1", "{").replace("\2", "}")

    def program(self) -> str:
        return (
            HEAD
            + f"G = {self.expression(2)}\ndef fn(x, y=1, *z, **m):\n    items = x\n{self.block(2, '    ')}\n"
            + "class Sub(nn.Module):\n    n = 3\n    def forward(self, x):\n        return fn(x, self)\n"
            + "class Model(Sub):\n    def __init__(self, n=2, items=None):\n        super().__init__()\n"
            + f"        x = y = z = n\n{self.block(2, '        ')}\n"
            + f"    def step(self, x, y=0):\n        z = m = items = n = y\n{self.block(2, '        ')}\n"
            + f"    def forward(self, x, y: int = 1, *z):\n        items = n = m = x\n{self.block(3, '        ')}\n"
        )


def _parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError:
        return False
    return True


PROGRAMS = [text for seed in range(240) if _parses(text := Writer(seed).program())]


def test_enough_of_what_is_made_up_parses() -> None:
    """Else the test below would test nothing."""
    assert len(PROGRAMS) >= 200


@pytest.mark.parametrize("part", range(4))
def test_made_up_programs(part: int, tmp_path: Path) -> None:
    told = 0
    for number, text in enumerate(PROGRAMS[part::4]):
        path = tmp_path / f"model_{number}.py"
        path.write_text(text, encoding="utf-8")
        started = time.process_time()
        result = _lint(tmp_path, path.name)
        assert time.process_time() - started < SECONDS, text
        assert not result.skipped
        lines = text.splitlines()
        told += len(result.findings)
        for finding in result.findings:
            assert 1 <= finding.line <= finding.end_line <= len(lines)
            assert 1 <= finding.column <= len(lines[finding.line - 1])
    assert told >= 20  # else the programs would reach nothing


def test_made_up_programs_give_the_same_twice(tmp_path: Path) -> None:
    for text in PROGRAMS[:40]:
        (tmp_path / "model.py").write_text(text, encoding="utf-8")
        assert _lint(tmp_path, "model.py") == _lint(tmp_path, "model.py")


# hostile shapes

RECURSIVE_LAMBDAS = "def f(g):\n    f(lambda: g())\n    f(lambda: g)\n    return g()\n"
LOCAL_CLASS = (
    "def f(x):\n    class A:\n        def g(self):\n            return f(self)\n        def h(self):\n"
    "            return f([self])\n    a = A()\n    return a.g(), a.h()\n"
)
DEEP_CALLS = "".join(
    f"def f{i}(x):\n    if i:\n        for a in b:\n            with c:\n                try:\n"
    f"                    return [f{i + 1}(x) if x else 0 for x in x]\n                finally:\n                    pass\n"
    for i in range(60)
)
DIAMONDS = "class A0(nn.Module): pass\nclass B0(nn.Module): pass\n" + "".join(
    f"class A{i}(A{i - 1}, B{i - 1}): pass\nclass B{i}(A{i - 1}, B{i - 1}): pass\n" for i in range(1, 24)
)
SHAPES = {
    "a sum of 600": forward("return " + " + ".join(["x"] * 600)),
    "a chain of 300 calls": forward("return x" + ".abs()" * 300),
    "400 elifs": forward(
        "if n == -1: y = 0\n" + "".join(f"elif n == {i}: y = {i}\n" for i in range(400)),
        sig="self, x, n: int",
    ),
    "90 nested ifs": forward(
        "\n".join(" " * i + f"if x.sum() > {i}:" for i in range(90)) + "\n" + " " * 90 + "x = 1"
    ),
    "nested loops over layers": forward(
        "".join(" " * i + f"for a{i} in self.l:\n" for i in range(7)) + " " * 7 + "x = x + a0(x)\n",
        init="self.l = nn.ModuleList([nn.Linear(1, 1), nn.Linear(2, 2), nn.Linear(3, 3), nn.Linear(4, 4)])",
    ),
    "a tuple of itself in loops": forward(
        "for a in (1,2,3,4):\n for b in (1,2,3,4):\n  for c in (1,2,3,4):\n   x = (x, x)\nreturn x"
    ),
    "400 lists in one another": forward("x = [x]\n" * 400 + "if x: return x"),
    "recursion that grows": forward(
        "f(x, x)",
        before="def f(x, y):\n    if x > 0:\n        return f((x, y), (y, x))\n    return f([y], {'a': x})\n",
    ),
    "dicts of themselves": forward(
        "d = {}\nd['a'] = d\nfor i in range(9):\n    d[i] = d\n    d = {'x': d, 'y': d}\nif d: return d"
    ),
    "a container that holds itself": forward(
        "return self.s(x)", init="self.s = nn.Sequential()\nself.s.append(self.s)"
    ),
    "a module wrapped 100 times": forward(
        "return self.net(x)",
        init="net = nn.Identity()\n" + "net = W(net)\n" * 100 + "self.net = net",
        before="class W(nn.Module):\n    def __init__(self, m):\n        super().__init__()\n        self.m = m\n    def forward(self, x):\n        return self.m(x)\n",
    ),
    "lambdas that make lambdas": forward("return f(lambda: x)", before=RECURSIVE_LAMBDAS),
    "classes made in recursion": forward("return f(x)", before=LOCAL_CLASS),
    "60 deep calls": forward("return f0(x)", before=DEEP_CALLS + "def f60(x): return x\n"),
    "23 diamonds": forward("return A23()", before=DIAMONDS),
    "500 bases in a row": forward(
        "return C499()",
        before="class C0(nn.Module): pass\n"
        + "".join(f"class C{i}(C{i - 1}): pass\n" for i in range(1, 500)),
    ),
    "class attributes in a circle": forward(
        "return A.b", before="class A:\n    b = B.b\nclass B:\n    b = A.b\n"
    ),
    "objects in a circle": forward(
        "return A().b", before="class A:\n    b = B().b\nclass B:\n    b = A().b\n"
    ),
    "globals in a circle": forward("return P", before="P = Q + 1\nQ = P + 1\n"),
    "a decorator of itself": forward("return f(x)", before="@f\ndef f(g): return f(g)\n"),
    "a property of itself": forward("return self.a", before="").replace(
        "    def forward", "    @property\n    def a(self): return self.a\n    def forward"
    ),
    "an annotation with a null byte": forward("return y", sig="self, x, y: 'a\\0b' = None"),
    "an annotation of parentheses": forward("return y", sig=f"self, x, y: '{'(' * 300}' = None"),
    "a huge number": forward("return 2 ** 10 ** 8, 1 << 10 ** 8, 'a' * 10 ** 9, [x] * 10 ** 9"),
    "a signature that does not fit": forward(
        "return f(), f(1, 2, 3), f(z=1), f(*x, **x)", before="def f(a, *, b): return a\n"
    ),
    "forward without self": "class Model(nn.Module):\n    def forward(): return x\n    def __init__(): pass\n",
    "forward that is no function": "class Model(nn.Module):\n    forward = 3\n    def __init__(self, *a, **k): super().__init__(*a)\n",
    "a static forward": "class Model(nn.Module):\n    @staticmethod\n    def forward(x): return x.item()\n",
    "super where there is no class": "def model(x):\n    return super().forward(super(), super(x), super(1, 2))\n",
}


@pytest.mark.parametrize("name", SHAPES)
def test_hostile_shapes(name: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(HEAD + SHAPES[name], encoding="utf-8")
    started = time.process_time()
    result = _lint(tmp_path, "model.py")
    assert time.process_time() - started < SECONDS
    assert not result.skipped


# other people's files


def _library_files() -> list[Path]:
    """Some 150 files, the same ones on every run of one interpreter, from the standard library and from packages."""
    places = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))
    found: list[Path] = []
    for place in map(Path, places):
        files = sorted(
            path
            for path in place.rglob("*.py")
            if "site-packages" not in path.relative_to(place).parts and path.stat().st_size < 60_000
        )
        found += random.Random(7).sample(files, min(75, len(files)))
    return found


def test_other_peoples_files(tmp_path: Path) -> None:
    slow = []
    for path in _library_files():
        started = time.process_time()
        _lint(tmp_path, str(path))
        if time.process_time() - started > SECONDS:
            slow.append(path)
    assert not slow


DIGEST = """\
import json, sys
from pathlib import Path
from tcready import rules
from tcready.schema import as_json
from tcready.static.lint import LintOptions, lint
root = Path(sys.argv[1])
result = lint(sys.argv[2:], rules.load(), LintOptions(root=root, mode=None, low=True, search_path=(root,)))
print(json.dumps(as_json(result)))
"""


def test_results_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    names = []
    for number, text in enumerate(PROGRAMS[:60]):
        names.append(f"model_{number}.py")
        (tmp_path / names[-1]).write_text(text, encoding="utf-8")
    outputs = []
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", DIGEST, str(tmp_path), *names, *map(str, _library_files()[:12])],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert len(json.loads(outputs[0])["findings"]) >= 10
