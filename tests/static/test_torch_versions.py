"""Versions of torch: as text, and as an environment shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tcready.pipeline import registry
from tcready.schema.enums import TcreadyError
from tcready.static.library import torch_versions


@pytest.mark.parametrize(
    "text",
    ["2.13", "2.13.0", "v2.13", "2.13.0+cu130", "2.13.0rc1", "2.13rc2", "2.13.0a0+git1f2e3d4", "2.13.0.dev20260801"],
)
def test_a_version_is_read_in_every_form_that_torch_has(text: str) -> None:
    assert torch_versions.version_of(text) == (2, 13)


@pytest.mark.parametrize("text", ["", "2", "3.0", "2.013", "2.x", "torch", "2.13.0.1.2"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(TcreadyError, match="is no version of torch 2"):
        torch_versions.version_of(text)


@pytest.mark.parametrize("folder", ["lib/python3.12/site-packages", "Lib/site-packages"])
def test_the_torch_beside_an_interpreter_is_predicted_for(folder: str, tmp_path: Path) -> None:
    python = str(tmp_path / "bin" / "python")
    assert torch_versions.installed_beside(python) is None
    torch = tmp_path / folder / "torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").touch()
    (torch / "version.py").write_text("__version__ = '2.14.1+cpu'\n")
    assert torch_versions.installed_beside(python) == (2, 14)
    assert registry.torch_for(None, tmp_path, python) == (2, 14)
    assert registry.torch_for((2, 12), tmp_path, python) == (2, 12)
