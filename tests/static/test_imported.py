"""Imports read off a text are those that Python would carry out, and more: in functions, and under tests."""

from __future__ import annotations

import time
from textwrap import dedent

import pytest
from tcready.static.frontend.import_scan import imports_in

TEXTS = {
    "import two": ["two"],
    "import pkg . two as t, three": ["pkg", "pkg.two", "three"],
    "from .two import *": ["pkg", "pkg.two"],
    "from .two import*": ["pkg", "pkg.two"],
    "from.import two": ["pkg", "pkg.two"],
    "from . import(two)": ["pkg", "pkg.two"],
    dedent("""\
        from . import (  # all of them (x)
            two,  # and
            three,
        )"""): ["pkg", "pkg.two", "pkg.three"],
    "from . import \\\n    two": ["pkg", "pkg.two"],
    "if True: from . import two": ["pkg", "pkg.two"],
    "x = 1; from . import two": ["pkg", "pkg.two"],
    "def f():\n    from pkg import two, Class": ["pkg", "pkg.two"],
    "import_module('pkg.two')": ["pkg", "pkg.two"],
    "from ..far import two": [],
    "yield from importing": [],
    "x = 'important'": [],
}


@pytest.mark.parametrize("text", TEXTS)
def test_imports_of_a_text(text: str) -> None:
    found = imports_in(text.encode(), "pkg", lambda name: name == "pkg")
    assert list(dict.fromkeys(found)) == TEXTS[text]


@pytest.mark.parametrize("text", ["from" + " " * 40_000 + "x", "from . import (" + "(" * 20_000, "import " * 20_000])
def test_any_text_is_read_soon(text: str) -> None:
    began = time.process_time()
    list(imports_in(f'"""\n{text}\n"""'.encode(), "pkg", lambda _: True))
    assert time.process_time() - began < 2
