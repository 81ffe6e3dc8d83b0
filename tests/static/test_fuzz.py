"""The engine never raises and is done soon: made-up programs, hostile shapes, and other people's files."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from textwrap import dedent
from typing import Literal

import pytest
from probing import HEAD, forward
from programs import Mixer, Writer, damaged, fixture_sources, hypothesmith_texts, parses, wrong_with
from reading import read
from tcready.fixes.rewriting.suggestions import suggest
from tcready.portable.options import ReadOptions
from tcready.schema.enums import TcreadyError
from tcready.schema.static import StaticResult

HELPERS = Path(__file__).parents[1] / "helpers"
SECONDS = 6.0
"""CPU time for one file: many times what any of these takes, and far below what an explosion takes."""


def _lint(root: Path, target: str) -> StaticResult:
    options = ReadOptions(root=root, mode=None, low=True, search_path=(root,))
    return read([target], options, suggest=suggest)


# made-up programs


PROGRAMS = [text for seed in range(720) if parses(text := Writer(seed).program())]


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
        assert not list(wrong_with(result, text.encode(), path.name)), text
        told += len(result.findings)
    assert told >= 20  # else the programs would reach nothing


@pytest.mark.slow
def test_made_up_programs_give_the_same_twice(tmp_path: Path) -> None:
    for text in PROGRAMS[:40]:
        (tmp_path / "model.py").write_text(text, encoding="utf-8")
        assert _lint(tmp_path, "model.py") == _lint(tmp_path, "model.py")


@pytest.mark.parametrize(("kind", "count"), [("grammar", 80), ("node", 20)])
@pytest.mark.release
def test_hypothesmith_programs(kind: Literal["grammar", "node"], count: int, tmp_path: Path) -> None:
    """benchmarks/fuzz.py does the same thousands of times."""
    texts = hypothesmith_texts(kind, 20_000, count)
    assert len(texts) >= count // 5
    mixer = Mixer(fixture_sources())
    path = tmp_path / "model.py"
    told = skipped = 0
    for number, text in enumerate(texts):
        near = [text, *texts[number - 2 : number]]
        spliced = mixer.spliced(near, number)
        for program in (text, mixer.forward(near, number), spliced, damaged(spliced.encode(), number)):
            data = program if isinstance(program, bytes) else program.encode()
            path.write_bytes(data)
            started = time.process_time()
            result = _lint(tmp_path, path.name)
            assert time.process_time() - started < SECONDS, data
            assert not list(wrong_with(result, data, path.name)), data
            told += len(result.findings)
            skipped += len(result.skipped) + sum("is left out" in told for told in result.warnings)
    assert told >= len(texts) // 4  # else little would be interpreted,
    assert skipped >= len(texts) // 4  # and little damaged


# hostile shapes

RECURSIVE_LAMBDAS = dedent("""\
    def f(g):
        f(lambda: g())
        f(lambda: g)
        return g()
""")
LOCAL_CLASS = dedent("""\
        def f(x):
            class A:
                def g(self):
                    return f(self)
                def h(self):
                    return f([self])
            a = A()
            return a.g(), a.h()
    """)
DEEP_CALLS = "".join(
    f"def f{i}(x):\n    if i:\n        for a in b:\n            with c:\n                try:\n"
    f"                    return [f{i + 1}(x) if x else 0 for x in x]\n                finally:\n                    pass\n"
    for i in range(60)
)
DIAMONDS = "class A0(nn.Module): pass\nclass B0(nn.Module): pass\n" + "".join(
    f"class A{i}(A{i - 1}, B{i - 1}): pass\nclass B{i}(A{i - 1}, B{i - 1}): pass\n" for i in range(1, 24)
)
NESTED_CHAINS = "(" * 60 + "a" + "".join(f" {'or' if i % 2 else 'and'} {'abc'[i % 3]})" for i in range(60))
SHAPES = {
    "60 chains of and and or in one another": forward(
        f"y = {NESTED_CHAINS}\nif {NESTED_CHAINS.replace('((', '(not (')}: return y",
        sig="self, x, a=None, b=None, c=None",
    ),
    "a sum of 600": forward("return " + " + ".join(["x"] * 600)),
    "a chain of 300 calls": forward("return x" + ".abs()" * 300),
    "400 elifs": forward(
        "if n == -1: y = 0\n" + "".join(f"elif n == {i}: y = {i}\n" for i in range(400)), sig="self, x, n: int"
    ),
    "90 nested ifs": forward("\n".join(" " * i + f"if x.sum() > {i}:" for i in range(90)) + "\n" + " " * 90 + "x = 1"),
    "nested loops over layers": forward(
        "".join(" " * i + f"for a{i} in self.l:\n" for i in range(7)) + " " * 7 + "x = x + a0(x)\n",
        init="self.l = nn.ModuleList([nn.Linear(1, 1), nn.Linear(2, 2), nn.Linear(3, 3), nn.Linear(4, 4)])",
    ),
    "a tuple of itself in loops": forward(
        dedent("""\
            for a in (1,2,3,4):
             for b in (1,2,3,4):
              for c in (1,2,3,4):
               x = (x, x)
            return x""")
    ),
    "400 lists in one another": forward("x = [x]\n" * 400 + "if x: return x"),
    "recursion that grows": forward(
        "f(x, x)",
        before=dedent("""\
            def f(x, y):
                if x > 0:
                    return f((x, y), (y, x))
                return f([y], {'a': x})
        """),
    ),
    "dicts of themselves": forward(
        dedent("""\
            d = {}
            d['a'] = d
            for i in range(9):
                d[i] = d
                d = {'x': d, 'y': d}
            if d: return d""")
    ),
    "a container that holds itself": forward(
        "return self.s(x)", init="self.s = nn.Sequential()\nself.s.append(self.s)"
    ),
    "a module wrapped 100 times": forward(
        "return self.net(x)",
        init="net = nn.Identity()\n" + "net = W(net)\n" * 100 + "self.net = net",
        before=dedent("""\
            class W(nn.Module):
                def __init__(self, m):
                    super().__init__()
                    self.m = m
                def forward(self, x):
                    return self.m(x)
        """),
    ),
    "lambdas that make lambdas": forward("return f(lambda: x)", before=RECURSIVE_LAMBDAS),
    "classes made in recursion": forward("return f(x)", before=LOCAL_CLASS),
    "60 deep calls": forward("return f0(x)", before=DEEP_CALLS + "def f60(x): return x\n"),
    "23 diamonds": forward("return A23()", before=DIAMONDS),
    "500 bases in a row": forward(
        "return C499()",
        before="class C0(nn.Module): pass\n" + "".join(f"class C{i}(C{i - 1}): pass\n" for i in range(1, 500)),
    ),
    "class attributes in a circle": forward(
        "return A.b",
        before=dedent("""\
        class A:
            b = B.b
        class B:
            b = A.b
    """),
    ),
    "objects in a circle": forward(
        "return A().b",
        before=dedent("""\
        class A:
            b = B().b
        class B:
            b = A().b
    """),
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
    "targets that are empty": forward(
        dedent("""\
            () = [] = x.unbind()
            for () in [(), x.tolist()]: pass
            for [] in x: pass
            return x""")
    ),
    "forward without self": dedent("""\
        class Model(nn.Module):
            def forward(): return x
            def __init__(): pass
    """),
    "forward that is no function": dedent("""\
        class Model(nn.Module):
            forward = 3
            def __init__(self, *a, **k): super().__init__(*a)
    """),
    "a static forward": dedent("""\
        class Model(nn.Module):
            @staticmethod
            def forward(x): return x.item()
    """),
    "super where there is no class": "def model(x):\n    return super().forward(super(), super(x), super(1, 2))\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_hostile_shapes(name: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(HEAD + SHAPES[name], encoding="utf-8")
    started = time.process_time()
    result = _lint(tmp_path, "model.py")
    assert time.process_time() - started < SECONDS
    assert not result.skipped


DEEP = {
    "a sum of 1,400": (f"if {' + '.join(['x'] * 1400)} > 0: return x", "TCR101"),
    "a chain of 240 calls": (f"return (x{'.abs()' * 240}).item()", "TCR201"),
    "a chain of 1,400 calls": (f"return (x{'.abs()' * 1400}).item()", "TCR201"),
    "400 attributes": (f"if x{'.data' * 400}: return x", "TCR101"),
    "400 subscripts": (f"if x{'[0]' * 400}: return x", "TCR101"),
    "1,400 subscripts": (f"if x{'[0]' * 1400}: return x", "TCR101"),
    "1,400 nots": (f"if {'not ' * 1400}x: return x", "TCR101"),
    "1,400 signs": (f"if {'-' * 1400}x: return x", "TCR101"),
    "400 tests in a row": (f"return {'x if x.sum() > 0 else ' * 400}-x", "TCR104"),
    "a test of 1,400": (f"if {' and '.join(['x.any()'] * 1400)}: return x", "TCR101"),
    "printing 400": (f"print({' + '.join(['str(x.item())'] * 400)})", "TCR201"),
    "190 calls in one another": (f"if {'F.relu(' * 190}x{')' * 190}: return x", "TCR101"),
    "1,400 elifs": ("if x.item() == 0: y = x\n" + "elif x.item() == 1: y = x\n" * 1400, "TCR201"),
}
"""Suspects that are nested as deeply as Python reads, with what they are."""


@pytest.mark.slow
@pytest.mark.parametrize("name", DEEP)
def test_deep_suspects_are_told(name: str, tmp_path: Path) -> None:
    body, rule = DEEP[name]
    (tmp_path / "model.py").write_text(HEAD + forward(body), encoding="utf-8")
    started = time.process_time()
    result = _lint(tmp_path, "model.py")
    assert time.process_time() - started < SECONDS
    assert rule in {finding.rule for finding in result.findings}
    assert not result.skipped


MANY_ELIFS = {
    "in a module": HEAD + "if a: pass\n" + "elif a: pass\n" * 1400 + forward("return x.item()"),
    "in a class": HEAD + "class A:\n    if a: pass\n" + "    elif a: pass\n" * 1400 + forward("return x.item()"),
}


@pytest.mark.parametrize("name", MANY_ELIFS)
def test_a_long_chain_of_elif_is_read_like_any_other(name: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MANY_ELIFS[name], encoding="utf-8")
    result = _lint(tmp_path, ".")
    assert not result.skipped
    assert [finding.rule for finding in result.findings] == ["TCR201"]


TOO_DEEP = {"a decorator": HEAD + f"@f{'.a' * 2800}\ndef f(x): return x.item()\n" + forward("return f(x)")}


@pytest.mark.parametrize("name", TOO_DEEP)
def test_what_is_nested_too_deeply_is_skipped_with_its_reason(name: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(TOO_DEEP[name], encoding="utf-8")
    (tmp_path / "other.py").write_text(HEAD + forward("return x.item()"), encoding="utf-8")
    result = _lint(tmp_path, ".")
    assert [(skip.path, skip.reason) for skip in result.skipped] == [
        ("model.py", "cannot be analysed: nested too deeply")
    ]
    assert {finding.path for finding in result.findings} == {"other.py"}


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


@pytest.mark.slow
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
sys.path.insert(0, sys.argv[1])
from reading import read
from tcready.portable.options import ReadOptions
from tcready.schema.codec import as_json
root = Path(sys.argv[2])
result = read(sys.argv[3:], ReadOptions(root=root, mode=None, low=True, search_path=(root,)))
print(json.dumps(as_json(result)))
"""


@pytest.mark.slow
def test_results_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    names = []
    for number, text in enumerate(PROGRAMS[:60]):
        names.append(f"model_{number}.py")
        (tmp_path / names[-1]).write_text(text, encoding="utf-8")
    outputs = []
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", DIGEST, str(HELPERS), str(tmp_path), *names, *map(str, _library_files()[:12])],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert len(json.loads(outputs[0])["findings"]) >= 10


# odd things in a folder


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_what_is_no_file_is_skipped_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "nothing_there.py").symlink_to("nothing_there_either.py")
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.py")  # nobody will ever write
    (tmp_path / "model.py").write_text("x = 1\n", encoding="utf-8")
    result = _lint(tmp_path, ".")
    assert {Path(skip.path).name: skip.reason for skip in result.skipped} == {
        "loop.py": "cannot be read: Too many levels of symbolic links",
        "nothing_there_either.py": "cannot be read: No such file or directory",
        "pipe.py": "cannot be read: Not a regular file",
    }
    assert result.statistics["files"] == 1


def test_a_link_to_itself_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "loop.py").symlink_to("loop.py")
    with pytest.raises(TcreadyError, match=r"loop\.py: no such file or folder"):
        _lint(tmp_path, "loop.py")


@pytest.mark.skipif(sys.platform != "linux", reason="names are text elsewhere")
@pytest.mark.parametrize("name", [b"bad\xff.py", b"new\nline.py", b"a b.py", "漢.py".encode(), b"-.py"])
def test_names_of_files_that_are_odd(name: bytes, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(name)
    path.write_text(HEAD + forward("if x.sum() > 0: return x\nreturn -x"), encoding="utf-8")
    result = _lint(tmp_path, ".")
    assert [finding.rule for finding in result.findings] == ["TCR101"]
    assert not list(wrong_with(result, path.read_bytes(), result.findings[0].path))
