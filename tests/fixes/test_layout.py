"""What stands around a change stays: line ends, tabs, comments, decorators, strings over several lines."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path
from textwrap import dedent

import pytest
from tcready import api

MODEL = '''\
"""A model.

    if x.sum() > 0:  # no code
"""
import functools

import torch
import torch.nn.functional as F
from torch import nn


def kept(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)
    return inner


class Model(nn.Module):
    TEXT = """
    print(x)
\tan indented tab
"""

    @kept
    def forward(self, x, mask):
        # why it is said
        print(x.shape)  # said
        if x.sum() > 0:  # up
            # twice
            x = x * 2  # doubled
        else:
            x = x - 1  # down
        y = (x + 1) if (  # which
            x.mean() > 0
        ) else (x - 1)
        y[mask] = 0.0  # hidden
        scale = y.max().item()  # read
        text = """
            if y.any():
                print(1)
        """
        del text
        return F.relu(y * scale) if y.sum() > 3 else y * scale
'''


def fixed(folder: Path, text: str) -> str:
    (folder / "model.py").write_bytes(text.encode())
    (changed,) = api.fix("model.py", root=folder, unsafe=True).files
    return changed.after


def strings(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.STRING and "\n" in token.string]


def comments(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sorted(token.string for token in tokens if token.type == tokenize.COMMENT)


def test_comments_decorators_and_strings_survive(tmp_path: Path) -> None:
    made = fixed(tmp_path, MODEL)
    assert made != MODEL
    assert comments(made) == comments(MODEL)
    assert strings(made) == strings(MODEL)
    assert "    @kept\n    def forward(self, x, mask):\n        # why it is said\n" in made
    assert made.count("torch.where") >= 2
    assert made.count("is_compiling") >= 1


@pytest.mark.parametrize("end", ["\r\n", "\r"], ids=["crlf", "cr"])
def test_line_ends_stay(end: str, tmp_path: Path) -> None:
    made = fixed(tmp_path, MODEL.replace("\n", end))
    assert made == fixed(tmp_path, MODEL).replace("\n", end)


def test_tabs_stay(tmp_path: Path) -> None:
    tabs = re.sub(r"^((?:    )+)", lambda found: "\t" * (len(found[1]) // 4), MODEL, flags=re.MULTILINE)
    made = fixed(tmp_path, tabs)
    assert comments(made) == comments(tabs)
    assert strings(made) == strings(tabs)
    inside = made.partition("def forward")[2]
    assert "\n    " not in inside.replace('"""', "").partition("text =")[0]
    compile(made, "model.py", "exec")


def test_an_if_that_only_prints_has_one_guard(tmp_path: Path) -> None:
    """Both its test and the print within break; the change for one is that for the other."""
    body = "        if torch.isnan(x).any():\n            print('nan', x.shape)\n        return x\n"
    made = fixed(
        tmp_path,
        dedent("""\
            import torch
            from torch import nn


            class M(nn.Module):
                def forward(self, x):
        """)
        + body,
    )
    assert made.count("is_compiling") == 1
    assert "        if not torch.compiler.is_compiling() and torch.isnan(x).any():\n            print(" in made
