"""Every test here runs torch: without it none is collected, and CI asks for it elsewhere (tests/conftest.py)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """What Inductor makes once on a machine, for all tests that ask for it, in all processes: it locks its files."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "tools"
    folder.mkdir(exist_ok=True)
    return folder
