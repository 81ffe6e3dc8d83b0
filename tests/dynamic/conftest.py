"""Every test here runs torch: without it none is collected, and CI asks for it elsewhere (tests/conftest.py)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Inductor makes once on a machine, for all tests that ask for it."""
    return tmp_path_factory.mktemp("tools")
