"""The figures that docs/generate.py turns into the tables of the page of accuracy."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("saved_results", HERE / "benchmarks" / "saved_results.py")
assert spec is not None
assert spec.loader is not None
saved_results = importlib.util.module_from_spec(spec)
spec.loader.exec_module(saved_results)


def test_the_file_is_as_it_is_saved() -> None:
    text = saved_results.RESULTS.read_text("utf-8")
    assert saved_results.as_text(json.loads(text)) == text


def test_a_row_is_replaced_or_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = tmp_path / "accuracy.json"
    shutil.copy(saved_results.RESULTS, copied)
    monkeypatch.setattr(saved_results, "RESULTS", copied)
    before = json.loads(copied.read_text("utf-8"))["sweep"]["rows"]
    saved_results.save_row("sweep", ["training", "1.00", "0.50", "0.75"])
    saved_results.save_row("sweep", ["export", "1.00", "0.50", "0.75"])
    after = json.loads(copied.read_text("utf-8"))["sweep"]["rows"]
    assert after == [before[0], ["training", "1.00", "0.50", "0.75"], ["export", "1.00", "0.50", "0.75"]]
    with pytest.raises(ValueError, match="sweep has 4 columns, and 2 cells are given"):
        saved_results.save_row("sweep", ["export", "1.00"])
