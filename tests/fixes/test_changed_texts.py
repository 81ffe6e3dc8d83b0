"""What a change takes away that no call need show, and what of it some call has to run."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from tcready.fixes.rewriting.changes import Changed, changed
from tcready.static.frontend import source

BEFORE = """\
import torch
from torch import nn


class RowsError(ValueError):
    pass


class Model(nn.Module):
    @torch.no_grad()
    def forward(self, x, names=()):
        global LAST
        for LAST, scale in self.pairs:
            x = x * scale
        with torch.no_grad():
            h = torch.relu(x) if len(x) < 4096 else torch.sigmoid(x)
        try:
            h = self.act(h) or torch.tanh(h)
        except KeyError:
            import math
        if x.dim() > 7:
            h = h + 1
        elif x.dim() > 5:
            h = h + 2

        def inner(y, slope=0.1):
            return y

        match h:
            case [one]:
                h = one
        while x.dim() > 9:
            break
        return h


class Other(Model):
    pass
"""
RUN = {
    "a side": ("else torch.sigmoid(x)", "else torch.relu(x)", {16}),
    "an operand": ("or torch.tanh(h)", "or torch.relu(h)", {18}),
    "a loop over other things": ("in self.pairs:", "in self.pairs[1:]:", {14}),
    "a context": ("with torch.no_grad()", "with torch.enable_grad()", {15}),
    "a handler": ("except KeyError", "except ValueError", {20}),
    "an import": ("import math", "import cmath", {20}),
    "a pattern": ("case [one]:", "case [one, _]:", {31}),
    "a break": ("            break", "            continue", {33}),
}
DECLARED = {
    "what a class derives from": ("(ValueError)", "(Exception)", 5),
    "a class": ("class Other(Model):\n    pass\n", "", 37),
    "a decorator": ("    @torch.no_grad()\n", "", 11),
    "a name of the module": ("        global LAST\n", "", 11),
    "a default inside": ("slope=0.1", "slope=0.3", 11),
    "another kind": ("    def forward", "    async def forward", 11),
}


def differs(tmp_path: Path, old: str, new: str) -> Changed:
    assert BEFORE.count(old) == 1
    path = tmp_path / "model.py"
    return changed(str(path), source.of_text(path, BEFORE), source.of_text(path, BEFORE.replace(old, new)))


@pytest.mark.parametrize(("old", "new", "lines"), RUN.values(), ids=RUN)
def test_what_has_to_be_run(old: str, new: str, lines: set[int], tmp_path: Path) -> None:
    found = differs(tmp_path, old, new)
    assert lines <= {each.line for each in found.gone}
    assert found.written


@pytest.mark.parametrize(("old", "new", "line"), DECLARED.values(), ids=DECLARED)
def test_what_no_call_shows(old: str, new: str, line: int, tmp_path: Path) -> None:
    assert [each.line for each in differs(tmp_path, old, new).declared] == [line]


def test_a_declaration_of_a_name_that_is_only_read_changes_nothing(tmp_path: Path) -> None:
    read = BEFORE.replace("for LAST, scale", "for last, scale")
    path = tmp_path / "model.py"
    after = read.replace("        global LAST\n", "")
    found = changed(str(path), source.of_text(path, read), source.of_text(path, after))
    assert not found.declared


def test_tests_in_another_order_are_wanted_on_both_sides(tmp_path: Path) -> None:
    text = BEFORE.replace("> 7", "> n").replace("> 5", "> 7").replace("> n", "> 5")
    path = tmp_path / "model.py"
    found = changed(str(path), source.of_text(path, BEFORE), source.of_text(path, text))
    assert found.tests


def test_a_function_that_is_left_out_of_what_is_compiled_is_declared_as_it_was(tmp_path: Path) -> None:
    found = differs(tmp_path, "    @torch.no_grad()\n", "    @torch.no_grad()\n    @torch.compiler.disable\n")
    assert (found.declared, found.gone, found.once) == ((), (), ())


@pytest.mark.parametrize(
    ("block", "differs"),
    [
        ("        with torch.no_grad():\n            y = x * 2\n            return y\n", False),
        ("        with torch.no_grad():\n            y = x * 3\n            return y\n", True),
        ("        with torch.enable_grad():\n            y = x * 2\n            return y\n", True),
        ("        with torch.no_grad():\n            y = x * 2\n        return y\n", True),
        ("        y = x * 2\n        return y\n", True),
    ],
)
def test_a_block_without_gradients_is_what_its_decorator_is(block: str, differs: bool) -> None:
    head = dedent("""\
        import torch


        class A:
    """)
    before = f'{head}    @torch.no_grad()\n    def f(self, x):\n        """Doubles."""\n        y = x * 2\n        return y\n'
    after = f'{head}    def f(self, x):\n        """Doubles."""\n{block}'
    path = Path("m.py")
    found = changed("m.py", source.of_text(path, before), source.of_text(path, after))
    empty = changed("m.py", source.of_text(path, before), source.of_text(path, before))
    assert (found != empty) == differs
    back = changed("m.py", source.of_text(path, after), source.of_text(path, before))
    assert (back != empty) == differs
