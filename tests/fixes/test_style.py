"""Changed files keep the style of their project: the length of lines, and the imports."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest
from tcready.fixes.rewriting.imports import remove_unused
from tcready.fixes.rewriting.line_wrapping import wrap
from tcready.fixes.rewriting.style import line_length, tidy
from tcready.fixes.rewriting.suggestions import add_imports
from tcready.source.edits import apply_edits
from tcready.static.frontend import source

LONG = [
    "y = torch.where((torch.rand(1) < self.probability_of_it).to(hidden_states.device), hidden_states + 1, hidden_states)",
    "if not torch.compiler.is_compiling() and self.verbose_output_is_wanted and hidden_states.dim() == 2 and self.step > 3:",
    "return torch.where(hidden_states.sum() > threshold_value, hidden_states * scaling_factor, hidden_states)",
    "return hidden_states_of_the_model * scaling_factor_one + residual_connection_value * scaling_factor_two",
    "return hidden_states_of_the_model + torch.nn.functional.scaled_dot_product_attention(query, key, value, mask)",
    'torch._assert_async(torch.logical_not(hidden_states.max() >= self.vocabulary_limit), "id ... out of range ...")',
    "x = first_value_of_the_thing if torch.compiler.is_compiling() else second_value_of_the_thing_that_is_long(a)",
    "for index, value_of_the_item in enumerate(hidden_states_of_the_model.unbind(0), start=starting_index_value):",
    "y[some_index_value, some_other_index] = torch.where(hidden_states.sum() > threshold, hidden_states, 0.0)",
    "scale = torch.where(hidden_states.sum() > 0, torch.tensor(0.1, dtype=torch.float64), 0.3)[some_index_value_x]",
    'assert torch.isfinite(hidden_states_of_the_model).all() and torch.isfinite(residual_of_the_model).all(), "finite"',
    "x = (first_value_of_the_thing_which_is_long + second_value_of_the_thing_that_is_long) * third_value_that_is_long_x",
    "hidden_states, residual_value = torch.where(condition, hidden_states, others), torch.where(condition, a, bbbbbbbbb)",
    "x = torch.stack([self.projection_layer(each_of_the_values) for each_of_the_values in hidden_states.unbind(0)])",
]


@pytest.mark.parametrize("limit", [88, 110])
@pytest.mark.parametrize("line", LONG)
def test_long_lines_are_wrapped_as_ruff_does(line: str, limit: int) -> None:
    ruff = shutil.which("ruff")
    if ruff is None:
        pytest.skip("ruff is not installed")
    body = "\n            pass" if line.endswith(":") else ""
    text = f"class Model:\n    def forward(self, x):\n        {line}{body}\n"
    command = [ruff, "format", "--isolated", "--line-length", str(limit), "-"]
    expected = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    assert wrap("", text, limit, "    ") == expected


def test_lines_that_were_there_stay() -> None:
    long = f"x = f({'a, ' * 40}b)"
    after = f"{long}\r\ny = g({'a, ' * 40}b)\r\n"
    made = wrap(f"{long}\r\n", after, 88, "    ")
    assert made.startswith(f"{long}\r\ny = g(\r\n    a,\r\n")
    assert made.count("\n") == made.count("\r\n")


def test_texts_and_comments_are_not_moved() -> None:
    text = f'x = f({"a, " * 40}b)  # why\ny = """{"a" * 90}\n""" + f({"a, " * 40}b)\nz = "{"a" * 90}"\n'
    assert wrap("", text, 88, "    ") == text


SETTINGS = {
    "[tool.ruff]\nline-length = 110  # long\n": ("pyproject.toml", 110),
    "[tool.black]\nline-length = 100\n": ("pyproject.toml", 100),
    dedent("""\
        [project]
        name = 'a'
        [tool.other]
        line-length = 70
    """): ("pyproject.toml", 88),
    "line-length = 99\n": ("ruff.toml", 99),
    "[flake8]\nmax-line-length = 79\n": ("setup.cfg", 79),
    "[flake8]\nmax_line_length=119\n": (".flake8", 119),
    dedent("""\
        [*]
        max_line_length = 120
        [*.{py,pyi}]
        max_line_length = 96
    """): (".editorconfig", 96),
    "[*.md]\nmax_line_length = 120\n": (".editorconfig", 88),
}


@pytest.mark.parametrize("text", SETTINGS)
def test_the_line_length_of_the_project(text: str, tmp_path: Path) -> None:
    name, expected = SETTINGS[text]
    (tmp_path / ".git").mkdir()
    (tmp_path / name).write_text(text)
    (tmp_path / "package").mkdir()
    assert line_length(tmp_path / "package" / "model.py") == expected


USES = "\n\ndef f(x):\n    return {}\n"
UNUSED = [
    ("import math\nimport torch\n", "import torch\n"),
    (
        dedent("""\
        import os

        import numpy as math

        import torch
    """),
        dedent("""\
        import os

        import torch
    """),
    ),
    ("from math import isnan\nfrom math import pi as math\n", "from math import isnan\n"),
    (
        dedent("""\
        from os import (
            path,
            sep as math,
        )
    """),
        dedent("""\
        from os import (
            path,
        )
    """),
    ),
    ("from os import path, sep as math, curdir\n", "from os import path, curdir\n"),
    ("import math  # noqa: F401\n", None),
    ("import math as math\n", None),
    (
        dedent("""\
        try:
            import math
        except ImportError:
            math = None
    """),
        None,
    ),
    ("import math\n__all__ = ['math']\n", None),
    (
        dedent("""\
        import math


        def g(x) -> 'math.A': ...
    """),
        None,
    ),
    (
        dedent("""\
        import math


        def __getattr__(name):
            return globals()[name]
    """),
        None,
    ),
    ("import math; import os\n", None),
    ("import os\n", None),
]


@pytest.mark.parametrize(("imports", "left"), UNUSED)
def test_an_import_that_became_unused_is_gone(imports: str, left: str | None) -> None:
    uses = "isnan, path, os, torch, curdir" if "curdir" in imports else "1"
    before = f"{imports}{USES.format(f'math.f(x), {uses}')}"
    after = f"{imports}{USES.format(f'x, {uses}')}"
    expected = f"{imports if left is None else left}{USES.format(f'x, {uses}')}"
    assert remove_unused(before, after, "model.py") == expected
    assert remove_unused(before, after, "package/__init__.py") == after
    assert remove_unused(after, after + "\n", "model.py") == after + "\n"  # it was unused before


IMPORTED = [
    (
        dedent("""\
            import os

            import numpy as np
            from torch import nn
        """),
        dedent("""\
            import os

            import numpy as np
            import torch
            from torch import nn
        """),
    ),
    (
        dedent("""\
            import os

            from torch import nn

            from . import a
        """),
        dedent("""\
            import os

            import torch
            from torch import nn

            from . import a
        """),
    ),
    ('"""A."""\nimport os\n', '"""A."""\nimport os\nimport torch\n'),
]


@pytest.mark.parametrize(("before", "after"), IMPORTED)
def test_an_import_that_is_needed_stands_among_those_of_packages(before: str, after: str) -> None:
    rest = "\n\ndef f(x):\n    return x\n"
    read = source.of_text(Path("model.py"), before + rest)
    assert apply_edits(before + rest, add_imports("model.py", read, ("import torch",))) == after + rest


def test_a_changed_file_is_tidied(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    path = tmp_path / "model.py"
    path.write_text("import math\n\n\ndef f(x):\n\treturn math.pi\n")
    made = tidy(source.read(path), f"import math\n\n\ndef f(x):\n\treturn g({'x, ' * 30}x)\n")
    assert made.startswith("def f(x):\n\treturn g(\n\t\tx,\n")
