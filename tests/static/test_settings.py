"""Settings of Dynamo that files make before a model is compiled: what they capture is not told, or less surely."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from reading import PINNED, read
from tcready.portable.options import ReadOptions

SETTING = "torch._dynamo.config.capture_scalar_outputs"
HEAD = dedent("""\
    import torch
    import torch._dynamo
    from torch import nn
""")
MODEL = """
class Base(nn.Module):
    def __init__(self, flag=False):
        super().__init__()
        {built}
class Model(Base):
    def forward(self, x):
        return x * x.sum().item()
"""
SURE = {
    "nothing": ("", "pass", ["high"]),
    "a statement": (f"{SETTING} = True", "pass", []),
    "taken back": (f"{SETTING} = True\n{SETTING} = False", "pass", ["high"]),
    "a decided test": (f"if False:\n    {SETTING} = True", "pass", ["high"]),
    "asked of torch": (f"if hasattr(torch._dynamo.config, 'x'):\n    {SETTING} = True", "pass", []),
    "a function": (f"def setup(on):\n    {SETTING} = on\nsetup(True)", "pass", []),
    "a function that nobody calls": (f"def setup(on):\n    {SETTING} = on", "pass", ["high"]),
    "a function's argument": (f"def setup(on=True):\n    {SETTING} = on\nsetup(on=False)", "pass", ["high"]),
    "a function that returns before": (f"def setup():\n    return\n    {SETTING} = True\nsetup()", "pass", ["high"]),
    "by name": ("setattr(torch._dynamo.config, 'capture_scalar_outputs', True)", "pass", []),
    "a constructor": ("", f"{SETTING} = True", []),
    "a constructor that may be told not to": ("", f"if flag:\n            {SETTING} = True", ["medium"]),
    "a constructor that takes it": ("", f"{SETTING} = flag", ["medium"]),
    "a constructor's method": (f"class Sets:\n    def allow(self):\n        {SETTING} = True\n", "Sets().allow()", []),
    "a script": (f"if __name__ == '__main__':\n    {SETTING} = True", "pass", ["medium"]),
    "a loop of unknown length": (f"import sys\nfor each in sys.argv:\n    {SETTING} = True", "pass", ["medium"]),
}


def _confidences(folder: Path, source: str) -> list[str]:
    (folder / "model.py").write_text(source)
    result = read(["model.py::Model"], ReadOptions(root=folder, search_path=(folder,), torch=PINNED))
    return [found.confidence for found in result.findings if found.rule == "TCR201"]


@pytest.mark.parametrize("name", SURE)
def test_what_is_set_before_decides(name: str, tmp_path: Path) -> None:
    top, built, told = SURE[name]
    assert _confidences(tmp_path, f"{HEAD}{top}\n{MODEL.format(built=built)}") == told


def test_another_file_may_set_it(tmp_path: Path) -> None:
    (tmp_path / "setup_all.py").write_text(f"import torch\ndef setup():\n    {SETTING} = True\n")
    top = dedent("""\
        import torch
        from torch import nn
        from setup_all import setup
        setup()
    """)
    assert _confidences(tmp_path, top + MODEL.format(built="pass")) == []


@pytest.mark.parametrize(("ahead", "told"), [(True, ["medium"]), (False, ["high"])])
def test_a_variable_counts_if_torch_is_imported_behind_it(ahead: bool, told: list[str], tmp_path: Path) -> None:
    """Unless somebody has imported torch before."""
    variable = "import os\nos.environ['TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS'] = '1'\n"
    top = variable + HEAD if ahead else HEAD + variable
    assert _confidences(tmp_path, top + MODEL.format(built="pass")) == told
