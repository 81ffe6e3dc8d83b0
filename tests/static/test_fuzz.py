"""The engine never raises and is done soon: made-up programs, hostile shapes, and other people's files."""

from __future__ import annotations

import ast
import textwrap
import warnings
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from probing import HEAD
from tcready import rules
from tcready.schema import StaticResult
from tcready.static.lint import LintOptions, lint

RULES = rules.load()


def _lint(root: Path, target: str, name: str = "") -> StaticResult:
    options = LintOptions(root=root, mode=None, low=True, search_path=(root,))
    return lint([f"{target}::{name}" if name else target], RULES, options)


# programs

NAMES = st.sampled_from(["x", "y", "z", "n", "self", "m", "fn", "Sub", "Model", "items", "G"])
ATTRIBUTES = st.sampled_from(
    [
        "shape",
        "sum",
        "item",
        "n",
        "training",
        "layers",
        "sub",
        "forward",
        "append",
        "T",
        "size",
        "max",
        "items",
        "step",
    ]
)
CONSTANTS = st.sampled_from(
    ["0", "1", "-1", "2.5", "None", "True", "False", "'a'", "b'a'", "...", "3j", "()", "[]", "{}"]
)
CALLABLES = st.sampled_from(
    [
        *(
            "len",
            "int",
            "float",
            "bool",
            "range",
            "list",
            "dict",
            "zip",
            "enumerate",
            "map",
            "filter",
            "sum",
            "max",
            "min",
        ),
        *(
            "isinstance",
            "getattr",
            "setattr",
            "hasattr",
            "super",
            "type",
            "next",
            "iter",
            "reversed",
            "sorted",
            "print",
        ),
        *(
            "torch.zeros",
            "torch.where",
            "torch.cat",
            "torch.cond",
            "torch.compile",
            "torch.no_grad",
            "F.relu",
        ),
        *(
            "nn.Linear",
            "nn.ModuleList",
            "nn.Sequential",
            "nn.ModuleDict",
            "nn.Parameter",
            "functools.partial",
        ),
        *(
            "Sub",
            "Model",
            "fn",
            "self.step",
            "self.sub",
            "self.layers.append",
            "x.item",
            "x.max",
            "items.append",
            "any",
        ),
    ]
)


def _join(template: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda values: template.format(*values))


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.sampled_from("+ - * / // % @ ** & | ^ << >>".split())
    compare = st.sampled_from(["==", "!=", "<", ">=", "is", "is not", "in", "not in"])
    arguments = st.lists(
        st.one_of(inner, _join("*{}", inner), _join("k={}", inner), _join("**{}", inner)), max_size=3
    ).map(
        lambda given: ", ".join(
            sorted(given, key=lambda text: (text.startswith(("k=", "**")), text.startswith("**")))
        )
    )
    return st.one_of(
        _join("({} {} {})", inner, binary, inner),
        _join("({} {} {} {} {})", inner, compare, inner, compare, inner),
        _join("({} and {} or {})", inner, inner, inner),
        _join("(not {})", inner),
        _join("(-{})", inner),
        _join("({} if {} else {})", inner, inner, inner),
        _join("({}).{}", inner, ATTRIBUTES),
        _join("({})[{}]", inner, inner),
        _join("({})[{}:{}, None, ...]", inner, inner, inner),
        _join("[{}, *{}]", inner, inner),
        _join("({}, {})", inner, inner),
        _join("{{{}, {}}}", inner, inner),
        _join("{{{}: {}, **{}}}", inner, inner, inner),
        _join("[{} for y in {} if {}]", inner, inner, inner),
        _join("{{{}: {} for y, z in {}}}", inner, inner, inner),
        _join("({} for x in {} for y in x)", inner, inner),
        _join("(lambda y=1, *z: {})", inner),
        _join("(lambda: (yield {}))", inner),
        _join("f'{{{}!r:>{{{}}}}}'", NAMES, NAMES),
        _join("(y := {})", inner),
        _join("{}({})", CALLABLES, arguments),
        _join("({})({})", inner, arguments),
        _join("isinstance({}, (int, torch.Tensor, Sub))", inner),
    )


def _once(texts: str) -> str:
    """`k=` twice in one call is a syntax error."""
    return texts


EXPRESSIONS = st.recursive(
    st.one_of(NAMES, CONSTANTS, _join("{}.{}", NAMES, ATTRIBUTES)), _compound, max_leaves=6
)
TARGETS = st.one_of(
    st.sampled_from(
        ["x", "y", "z", "n", "G", "self.n", "self.sub", "self.layers", "x.data", "x[0]", "items[y]"]
    ),
    st.just("(x, *y)"),
    st.just("x, (y, self.n)"),
)


def _block(statements: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(statements, min_size=1, max_size=3).map(
        lambda found: textwrap.indent("\n".join(found), "    ")
    )


def _nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    block = _block(inner)
    return st.one_of(
        _join("if {}:\n{}\nelif {}:\n{}\nelse:\n{}", EXPRESSIONS, block, EXPRESSIONS, block, block),
        _join("for {} in {}:\n{}\n    if x: break\nelse:\n{}", TARGETS, EXPRESSIONS, block, block),
        _join("while {}:\n{}\n    continue", EXPRESSIONS, block),
        _join(
            "try:\n{}\nexcept (KeyError, fn) as e:\n{}\nelse:\n{}\nfinally:\n{}", block, block, block, block
        ),
        _join("with {} as {}, fn(x):\n{}", EXPRESSIONS, TARGETS, block),
        _join(
            "match {}:\n    case [x, *y] if {}:\n{}\n    case {{'k': z, **n}}:\n{}\n    case Sub(n=1) | None | 3:\n{}",
            EXPRESSIONS,
            EXPRESSIONS,
            block.map(partial(textwrap.indent, prefix="    ")),
            block.map(partial(textwrap.indent, prefix="    ")),
            block.map(partial(textwrap.indent, prefix="    ")),
        ),
        _join("def fn(x, /, y={}, *m, n: {}, **z) -> {}:\n{}", EXPRESSIONS, EXPRESSIONS, EXPRESSIONS, block),
        _join("def fn(x=1, *m):\n    nonlocal y\n{}\n    return fn", block),
        _join("@{}\ndef fn(*x):\n{}", EXPRESSIONS, block),
        _join("async def fn(x):\n{}\n    async for y in {}: await x", block, EXPRESSIONS),
        _join(
            "class Sub({}):\n    y = {}\n    n: int\n    def forward(self, x):\n{}",
            NAMES,
            EXPRESSIONS,
            block.map(partial(textwrap.indent, prefix="    ")),
        ),
    )


SIMPLE = st.one_of(
    EXPRESSIONS,
    _join("{} = {}", TARGETS, EXPRESSIONS),
    _join("x = y = {}", EXPRESSIONS),
    _join("{} += {}", st.sampled_from(["x", "self.n", "x[0]", "y", "G"]), EXPRESSIONS),
    _join("z: {} = {}", EXPRESSIONS, EXPRESSIONS),
    _join("return {}", EXPRESSIONS),
    _join("raise {} from {}", EXPRESSIONS, EXPRESSIONS),
    _join("assert {}, {}", EXPRESSIONS, EXPRESSIONS),
    _join("del {}", st.sampled_from(["x", "self.n", "x[0]", "items[y:z]", "(x, y)"])),
    _join("y = yield {}", EXPRESSIONS),
    _join("yield from {}", EXPRESSIONS),
    st.sampled_from(
        ["pass", "import torch as m", "from torch import *", "from . import G", "import os.path"]
    ),
)
STATEMENTS = st.recursive(SIMPLE, _nested, max_leaves=8)


def _model(parts: tuple[str, str, str, str]) -> str:
    top, init, body, step = (textwrap.indent(part, " " * 8) for part in parts)
    return (
        HEAD.replace("from probe import see\n", "G = [1, 2]\n")
        + f"def fn(x, y=1, *z, **m):\n    items = x\n{textwrap.dedent(top).replace(chr(10), chr(10) + '    ').join(['    ', ''])}\n\n\n"
        + "class Sub(nn.Module):\n    n = 3\n    def forward(self, x):\n        return fn(x, self)\n\n\n"
        + f"class Model(Sub):\n    def __init__(self, n=2, items=None):\n        super().__init__()\n        x = y = z = n\n{init}\n"
        + f"    def step(self, x, y=0):\n        z = m = items = n = y\n{step}\n"
        + f"    def forward(self, x, y: int = 1, *z):\n        items = n = m = x\n{body}\n"
    )


MODELS = st.tuples(*(st.lists(STATEMENTS, min_size=1, max_size=3).map("\n".join) for _ in range(4))).map(
    _model
)


@pytest.mark.parametrize("seed", [0])
def test_made_up_programs_mostly_parse(seed: int) -> None:
    """Else the test below would test nothing."""
    parsed = 0

    @settings(max_examples=100, deadline=None, database=None, derandomize=True)
    @given(MODELS)
    def count(text: str) -> None:
        nonlocal parsed
        parsed += _parses(text)

    count()
    assert parsed >= 60


def _parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError:
        return False
    return True


@settings(
    max_examples=300,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.data_too_large,
    ],
)
@given(MODELS)
def test_made_up_programs(tmp_path: Path, text: str) -> None:
    path = tmp_path / "model.py"
    path.write_text(text, encoding="utf-8")
    first = _lint(tmp_path, "model.py")
    lines = text.splitlines()
    for finding in first.findings:
        assert 1 <= finding.line <= finding.end_line <= len(lines)
        assert 1 <= finding.column <= len(lines[finding.line - 1])
    assert first == _lint(tmp_path, "model.py")
