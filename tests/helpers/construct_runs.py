"""What the torch of this interpreter shows of a sample, as `fixtures/constructs/shown.json` holds it."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import constructs


@cache
def _programs() -> dict[str, dict[str, Any]]:
    return {sample["name"]: sample["program"] for sample in constructs.exported()}


def shown_now(name: str, path: Path) -> dict[str, Any]:
    """Runs a sample; skips the test if it needs a package that is not installed."""
    found = constructs.shown(_programs()[name], path)
    if found.get("raises", "").startswith("ModuleNotFoundError"):
        pytest.skip(found["raises"])
    return constructs.packed(found)
