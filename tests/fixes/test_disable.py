"""A function that is left out of what is compiled: where the decorator goes, and where there is no place for one."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from rewriting import loaded
from tcready.fixes.rewriting.disabling import disable_function
from tcready.fixes.rewriting.suggestions import Proposal
from tcready.source.edits import apply_edits
from tcready.static.diagnostics.rule import Declined
from tcready.static.frontend import source

MODEL = '''"""A model."""
import torch
from torch import nn


def helper(y):
    return y + y.sum().item()  # helper


class Model(nn.Module):
    @torch.no_grad()
    def method(self, y):
        return y + y.sum().item()  # method

    @staticmethod
    @torch.no_grad()
    def static(y):
        return y + y.sum().item()  # static

    def nested(self, y):
        def inner(z):
            if z.dim():
                return z + z.sum().item()  # inner

        return inner(y)

    @property
    def share(self):
        return 2  # property

    def rows(self, y):
        yield y  # generator

    @torch.compiler.disable
    def out(self, y):
        return y.item()  # disabled

    def forward(self, x):
        x = helper(x * 2) * 2
        x = self.method(x) * 2
        x = self.static(x) * 2
        return self.nested(x) + 1


SIZE = 3  # module
'''


def written(folder: Path, mark: str, text: str = MODEL) -> Proposal | Declined:
    (folder / "model.py").write_text(text, newline="")
    line = next(number for number, each in enumerate(text.splitlines(), 1) if each.endswith(f"# {mark}"))
    return disable_function("model.py", source.read(folder / "model.py"), line)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("mark", "lines"),
    {
        "helper": ("@torch.compiler.disable", "def helper(y):"),
        "method": ("    @torch.compiler.disable", "    @torch.no_grad()", "    def method(self, y):"),
        "static": ("    @staticmethod", "    @torch.compiler.disable", "    @torch.no_grad()"),
        "inner": ("        @torch.compiler.disable", "        def inner(z):"),
    }.items(),
)
def test_the_innermost_function_runs_eagerly(mark: str, lines: tuple[str, ...], tmp_path: Path) -> None:
    import torch

    found = written(tmp_path, mark)
    assert isinstance(found, Proposal)
    after = apply_edits(MODEL, found.edits)
    assert "\n".join(lines) in after
    x = torch.randn(4)
    torch._dynamo.reset()
    compiled = torch.compile(loaded(after), backend="eager")
    torch.testing.assert_close(compiled(x), loaded(MODEL)(x))
    breaks = torch._dynamo.explain(loaded(after))(x).break_reasons
    assert sum("disable" in each.reason for each in breaks) == 1


@pytest.mark.parametrize(
    ("mark", "reason"),
    {
        "property": "is a property",
        "generator": "is a generator",
        "disabled": "already",
        "module": "no function",
    }.items(),
)
def test_there_is_no_place_for_it(mark: str, reason: str, tmp_path: Path) -> None:
    found = written(tmp_path, mark)
    assert isinstance(found, Declined)
    assert reason in found.reason


def test_another_torch_has_no_such_decorator(tmp_path: Path) -> None:
    found = written(
        tmp_path,
        "helper",
        dedent("""\
        torch = None


        def f(x):
            return x.item()  # helper
    """),
    )
    assert isinstance(found, Declined)
    assert "The name `torch` is assigned to something else" in found.reason


def test_torch_is_called_what_the_file_calls_it(tmp_path: Path) -> None:
    found = written(
        tmp_path,
        "helper",
        dedent("""\
        import torch as t


        def f(x):
            return x.item()  # helper
    """),
    )
    assert isinstance(found, Proposal)
    assert [each.new_text for each in found.edits] == ["@t.compiler.disable\n"]
    found = written(tmp_path, "helper", "def f(x):\r\n    return x.item()  # helper\r\n")
    assert isinstance(found, Proposal)
    assert [each.new_text for each in found.edits] == ["import torch\r\n", "@torch.compiler.disable\r\n"]


@pytest.mark.parametrize("test", ["TYPE_CHECKING", "typing.TYPE_CHECKING"])
def test_an_import_for_type_checkers_binds_no_name(test: str, tmp_path: Path) -> None:
    text = f"import typing\nfrom typing import TYPE_CHECKING\n\nif {test}:\n    import torch\n\n\n"
    found = written(tmp_path, "helper", text + "def f(x: 'torch.Tensor'):\n    return x.item()  # helper\n")
    assert isinstance(found, Proposal)
    assert "import torch\n" in [each.new_text for each in found.edits]
    both = text.replace(
        "    import torch\n",
        dedent("""\
            import torch
        else:
            import torch as t
    """),
    )
    found = written(tmp_path, "helper", both + "def f(x):\n    return x.item()  # helper\n")
    assert isinstance(found, Proposal)
    assert [each.new_text for each in found.edits] == ["@t.compiler.disable\n"]
