"""Programs that nobody wrote, and what must hold of every one that is linted.

Four makers: a small grammar of its own that speaks of tensors and modules (`Writer`); hypothesmith's, of any Python
(`hypothesmith_texts`); both kinds of statements put into fixtures and into a `forward` of their own (`Mixer`); and
bytes that were damaged (`damaged`). The same seed makes the same program; of hypothesmith, with the same versions in
the same process, because Hypothesis takes constants from the modules that are loaded.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import io
import json
import random
import re
import textwrap
import tokenize
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Literal

from probing import HEAD
from tcready.schema.codec import as_json
from tcready.schema.static import StaticResult

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"

NAMES = "x y z n self m fn Sub Model items G".split()
ATTRIBUTES = "shape sum item n training layers sub forward append T size max items step".split()
CONSTANTS = "0 1 -1 2.5 None True False 'a' b'a' ... 3j () [] {}".split()
CALLABLES = (
    "len int float bool range list dict zip enumerate map filter sum max min isinstance getattr setattr hasattr super "
    "type next iter reversed sorted print torch.zeros torch.where torch.cat torch.cond torch.compile torch.no_grad "
    "F.relu nn.Linear nn.ModuleList nn.Sequential nn.ModuleDict nn.Parameter functools.partial functools.reduce Sub "
    "Model fn self.step self.sub self.layers.append x.item x.max items.append any"
).split()
TARGETS = ("x", "y", "z", "n", "G", "self.n", "self.sub", "self.layers", "x.data", "x[0]", "items[y]", "(x, *y)")
EXPRESSIONS = (
    *("({e} + {e})", "({e} @ {e})", "({e} // {e})", "({e} % {e})", "({e} ** {e})", "({e} & {e})", "({e} == {e} < {e})"),
    *("({e} is {e})", "({e} is not None)", "({e} in {e})", "({e} and {e} or {e})", "(not {e})", "(-{e})", "(~{e})"),
    *("({e} if {e} else {e})", "({e}).{a}", "({e})[{e}]", "({e})[{e}:{e}, None, ...]", "[{e}, *{e}]", "({e}, {e})"),
    *("{{{e}, {e}}}", "{{{e}: {e}, **{e}}}", "[{e} for y in {e} if {e}]", "{{{e}: {e} for y, z in {e}}}"),
    *("({e} for x in {e} for y in x)", "(lambda y=1, *z: {e})", "(lambda: (yield {e}))", "f'{{{n}!r:>{{{n}}}}}'"),
    *("(y := {e})", "{c}({e})", "{c}({e}, *{e})", "{c}({e}, {e}, k={e}, **{e})", "({e})({e})", "{c}()", "{n}.{a}"),
    *("isinstance({e}, (int, torch.Tensor, Sub))", "{c}({e}, {e})", "{n}.{a}({e})", "{n}.{a}()"),
)
SIMPLE = (
    *("{e}", "{t} = {e}", "x = y = {e}", "x += {e}", "self.n -= {e}", "x[0] *= {e}", "z: {e} = {e}", "return {e}"),
    *("raise {e} from {e}", "assert {e}, {e}", "del x", "del self.n, items[y:z]", "y = yield {e}", "yield from {e}"),
    *("pass", "import torch as m", "from . import G", "import os.path", "from elsewhere import z"),
)
COMPOUND = (
    *(
        dedent("""\
        if {e}:
        {b}
        elif {e}:
        {b}
        else:
        {b}"""),
        dedent("""\
        for {t} in {e}:
        {b}
            if x: break
        else:
        {b}"""),
    ),
    *(
        "while {e}:\n{b}\n    continue",
        dedent("""\
        try:
        {b}
        except (KeyError, fn) as e:
        {b}
        else:
        {b}
        finally:
        {b}"""),
    ),
    *("with {e} as {t}, fn(x):\n{b}", "def fn(x, /, y={e}, *m, n: {e}, **z) -> {e}:\n{b}", "@{e}\ndef fn(*x):\n{b}"),
    *(
        dedent("""\
        def fn(x=1, *m):
            nonlocal y
        {b}
            return fn"""),
        "async def fn(x):\n    async for y in {e}: await x\n{b}",
    ),
    dedent("""\
        class Sub({n}):
            y = {e}
            n: int
            @property
            def forward(self, x):
                y = x
            {s}"""),
    dedent("""\
        match {e}:
            case [x, *y] if {e}:
                {s}
            case {{'k': z, **n}} | Sub(n=z):
                {s}
            case None | 3:
                {s}"""),
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
            + dedent("""\
                class Sub(nn.Module):
                    n = 3
                    def forward(self, x):
                        return fn(x, self)
            """)
            + dedent("""\
                class Model(Sub):
                    def __init__(self, n=2, items=None):
                        super().__init__()
            """)
            + f"        x = y = z = n\n{self.block(2, '        ')}\n"
            + f"    def step(self, x, y=0):\n        z = m = items = n = y\n{self.block(2, '        ')}\n"
            + f"    def forward(self, x, y: int = 1, *z):\n        items = n = m = x\n{self.block(3, '        ')}\n"
        )


def parses(program: str | bytes) -> bool:
    """Whether this Python reads and compiles it. Says nothing of what it finds odd.

    Bytes must fit the encoding that is declared: in a comment, `import` takes any, but a script may hold none.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(program, bytes):
                program.decode(tokenize.detect_encoding(io.BytesIO(program).readline)[0])
            ast.parse(program)
            with contextlib.suppress(ValueError, RecursionError, MemoryError):  # deeper than it compiles
                compile(program, "<program>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, LookupError, RecursionError, MemoryError):
        return False
    return True


def hypothesmith_texts(kind: Literal["grammar", "node"], number: int, count: int) -> list[str]:
    """Distinct programs, at most `count`: of Python's grammar, or of libcst's node types (five times as slow)."""
    import hypothesmith  # takes seconds
    from hypothesis import HealthCheck, Phase, given, seed, settings

    strategy = hypothesmith.from_grammar() if kind == "grammar" else hypothesmith.from_node()
    found: dict[str, None] = {}

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.target],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(text: str) -> None:
        found[text] = None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is made up is full of `is` with a literal and of odd escapes
        collect()
    return list(found)


def fixture_sources() -> list[str]:
    """The fixture models, and each measured construct as a program of its own."""
    found = [path.read_text(encoding="utf-8") for path in sorted((FIXTURES / "models").rglob("*.py"))]
    for path in sorted((FIXTURES / "constructs").glob("*.py")):
        head, *rows = re.split(r"(?m)^# row: .*\n", path.read_text(encoding="utf-8"))
        found += [head + row for row in rows]
    return found


class _Renamed(ast.NodeTransformer):
    """Gives the names of a made-up program a meaning: those of `names` and `attributes`, each always the same."""

    def __init__(self, random_: random.Random, names: Sequence[str], attributes: Sequence[str]) -> None:
        self._random = random_
        self._pools = {"name": names, "attribute": attributes}
        self._given: dict[tuple[str, str], str] = {}

    def _new(self, kind: str, old: str) -> str:
        if (kind, old) not in self._given:
            self._given[kind, old] = self._random.choice(self._pools[kind])
        return self._given[kind, old]

    def visit(self, node: ast.AST) -> ast.AST:
        for field in ("id", "name", "arg", "asname", "rest", "module"):
            old = getattr(node, field, None)
            if isinstance(old, str):
                setattr(node, field, self._new("name", old))
        if isinstance(node, ast.Attribute):
            node.attr = self._new("attribute", node.attr)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            node.names = [self._new("name", name) for name in node.names]
        return self.generic_visit(node)


class _Swapped(ast.NodeTransformer):
    """Replaces the expressions at some places, counted in order, where any other may stand."""

    def __init__(self, news: dict[int, ast.expr]) -> None:
        self._news = news
        self.places = 0

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, (ast.pattern, ast.JoinedStr)):
            return node  # only some expressions may stand there
        if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", None), (ast.Load, type(None))):
            self.places += 1
            if self.places - 1 in self._news and not isinstance(node, ast.Starred):
                return copy.deepcopy(self._news[self.places - 1])
        return self.generic_visit(node)


class Mixer:
    """Makes programs of the statements and expressions of others."""

    def __init__(self, sources: Sequence[str]) -> None:
        self._hosts = [tree for source in sources if (tree := ast.parse(source)).body]
        nodes = [node for host in self._hosts for node in ast.walk(host)]
        self._statements = [node for node in nodes if isinstance(node, ast.stmt)]
        self._expressions = [node for node in nodes if _is_value(node)]

    def forward(self, texts: Sequence[str], number: int) -> str:
        """A module whose methods are the statements of `texts`, under names that mean something there."""
        choose = random.Random(f"forward {number}")
        blocks = {name: _renamed(texts, choose, NAMES, ATTRIBUTES) for name in ("init", "step", "forward")}
        for block in blocks.values():
            choose.shuffle(block)
        tree = ast.parse(HEAD + METHODS)
        cls = next(node for node in tree.body if isinstance(node, ast.ClassDef))
        for method, block in zip(cls.body, blocks.values(), strict=True):
            assert isinstance(method, ast.FunctionDef)
            while len(block) > 1 and choose.random() < 0.4:
                around = ast.parse(choose.choice(AROUND)).body[0]
                around.body = [block.pop(), block.pop()]  # type: ignore[attr-defined]
                block.insert(0, around)
            method.body += block
        return _unparsed(tree)

    def spliced(self, texts: Sequence[str], number: int) -> str:
        """A fixture in which statements were put in, taken out and moved, and expressions swapped."""
        choose = random.Random(f"spliced {number}")
        tree = copy.deepcopy(choose.choice(self._hosts))
        words = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)] or NAMES
        members = [n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)] or ATTRIBUTES
        others = _renamed(texts, choose, words, members)
        values = [node for other in others for node in ast.walk(other) if _is_value(node)]
        for _ in range(choose.randint(1, 6)):
            bodies = [
                body
                for node in ast.walk(tree)
                for name in ("body", "orelse", "finalbody")
                if isinstance(body := getattr(node, name, None), list) and body
            ]
            body = choose.choice(bodies)
            place = choose.randrange(len(body))
            new = copy.deepcopy(choose.choice(choose.choice([self._statements, others or self._statements])))
            action = choose.choice(("put in", "put in", "replace", "move"))
            if action == "put in":
                body.insert(place, new)
            elif action == "replace":
                body[place] = new
            else:
                target = choose.choice(bodies)
                target.insert(choose.randint(0, len(target)), copy.deepcopy(body[place]))
        counting = _Swapped({})
        counting.visit(tree)
        news = {
            choose.randrange(counting.places): choose.choice(
                choose.choice([self._expressions, values or self._expressions])
            )
            for _ in range(choose.randint(0, 8) if counting.places else 0)
        }
        return _unparsed(_Swapped(news).visit(tree))


METHODS = """
class Model(nn.Module):
    def __init__(self, n=2, items=None):
        super().__init__()
        x = y = z = m = n
        self.layers = self.sub = nn.ModuleList([nn.Linear(4, 4), nn.ReLU()])
    def step(self, x, y=0, *z, **m):
        items = n = x
    def forward(self, x, y: int = 1, *z, m=None):
        items = n = self.step(x, y)
"""
AROUND = (
    "if x.sum() > 0: pass\nelse: return x",
    "for y in range(x.shape[0]): pass",
    "for z in self.layers: pass",
    "while n: pass",
    "with torch.no_grad() as m: pass",
    "try: pass\nexcept Exception as items: raise",
    "def fn(x, *z): pass",
)


def _is_value(node: ast.AST) -> bool:
    """An expression that may stand wherever one is read."""
    if isinstance(node, (ast.Starred, ast.Slice, ast.FormattedValue, ast.JoinedStr)):
        return False
    return isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", None), (ast.Load, type(None)))


def _renamed(
    texts: Sequence[str], choose: random.Random, names: Sequence[str], attributes: Sequence[str]
) -> list[ast.stmt]:
    """The statements of `texts`, their names changed to some of `names` and `attributes`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trees = [ast.parse(text) for text in texts]
    return [s for tree in trees for s in _Renamed(choose, names, attributes).visit(tree).body]


def _unparsed(tree: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def damaged(program: bytes, number: int) -> bytes:
    """A file some of whose bytes were lost, doubled, or changed."""
    choose = random.Random(f"damaged {number}")
    data = bytearray(program)
    for _ in range(choose.randint(1, 4)):
        start = choose.randrange(len(data) + 1)
        end = min(start + choose.choice((1, 1, 1, 4, 40, 4000)), len(data))
        action = choose.choice(("lose", "double", "change", "insert", "declare"))
        if action == "lose":
            del data[start:end]
        elif action == "double":
            data[start:start] = data[start:end]
        elif action == "change":
            data[start:end] = choose.randbytes(end - start)
        elif action == "insert":
            data[start:start] = choose.choice(ODDITIES)
        else:
            data[:0] = b"# coding: " + choose.choice(CODINGS) + b"\n"
    return bytes(data)


ODDITIES = (
    *(b"\0", b"\f", b"\r", b"\r\n", b"\t", b"\\\n", b"\x1a", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80"),
    *(b"\x0b", b"\xe2\x80\xa8", b"\xc2\x85", b";", b"'''", b"{", b"lambda: ", b"# noqa\n", b"0" * 5000, b"~" * 300),
)
CODINGS = tuple(b"utf-8 latin-1 cp1252 utf-7 utf-16 ascii big5 shift_jis idna rot13 hex mbcs no-such".split())


# what must hold of every file that is linted


def wrong_with(result: StaticResult, data: bytes, shown: str) -> Iterator[str]:
    """What a result says that cannot be, of a file that was named and is shown as `shown` and holds `data`."""
    reasons = {skip.path: skip.reason for skip in result.skipped}
    if parses(data):
        if shown in reasons:
            yield f"skipped, though this Python reads it: {reasons[shown]}"
    elif shown not in reasons and not any(told.startswith(f"{shown} is left out: ") for told in result.warnings):
        yield "this Python does not read it, and it is said to be neither skipped nor left out"
    if b"torch" in data and any(told.startswith(f"{shown} is left out: ") for told in result.warnings):
        yield "it is left out, and it names torch"
    for path, reason in reasons.items():
        if not reason.strip() or len(reason.splitlines()) != 1:
            yield f"the reason why {path} is skipped is no line: {reason!r}"
    lines = {source.path: re.split(r"\r\n|\r|\n", source.text) for source in result.sources}
    for finding in result.findings:
        place = f"{finding.rule} at {finding.path}:{finding.line}:{finding.column}"
        text = lines.get(finding.path)
        if text is None:
            yield f"{place}: its source is not told"
        elif not 1 <= finding.line <= finding.end_line <= len(text):
            yield f"{place}: lines {finding.line} to {finding.end_line} of {len(text)}"
        elif not 1 <= finding.column <= len(text[finding.line - 1]):
            yield f"{place}: no such column"
        elif not 1 <= finding.end_column <= len(text[finding.end_line - 1]) + 1:
            yield f"{place}: no such end column {finding.end_column}"
    try:
        json.dumps(as_json(result))
    except (TypeError, ValueError) as error:
        yield f"no report can be written of it: {error}"
