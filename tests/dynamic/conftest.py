"""Every test here runs torch: without it none is collected, and CI asks for it elsewhere (tests/conftest.py)."""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]
