"""transformers' own BERT and Whisper: read without being imported, then run with random weights."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fixture_markers import ROOT, TARGETS

pytest.importorskip("transformers")

NO_RUN = """\
import json, sys
from tcready.cli import main
sys.argv = ["tcready", "check", "transformers.models.bert.modeling_bert::BertModel", "--no-run",
            "--output-format", "json", "-o", sys.argv[1]]
try:
    main()
except SystemExit as stop:
    code = stop.code
print(json.dumps({"code": code, "loaded": sorted({"torch", "transformers", "numpy"} & set(sys.modules))}))
"""


@pytest.mark.slow
def test_bert_is_read_without_being_imported(tmp_path: Path) -> None:
    out = tmp_path / "bert.json"
    done = subprocess.run(
        [sys.executable, "-c", NO_RUN, str(out)], cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    )
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["loaded"] == []
    report = json.loads(out.read_text(encoding="utf-8"))
    assert not report["skipped"]
    assert said["code"] in (0, 1)

    statistics = report["statistics"]
    assert statistics["calls_resolved"] > 50
    assert statistics["calls_resolved"] + statistics["calls_unresolved"] == statistics["calls"]
    assert statistics["calls_resolved"] > statistics["calls"] / 2
    reached = set(statistics["reached"])
    for part in ("BertEmbeddings", "BertLayer", "BertSelfAttention", "BertIntermediate", "BertOutput"):
        assert f"transformers/models/bert/modeling_bert.py::{part}.forward" in reached


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("tiny_bert", {"embeddings", "encoder", "encoder.layer.0.attention"}),
        pytest.param("tiny_whisper", {"encoder", "decoder", "encoder.layers.0.self_attn"}, marks=pytest.mark.release),
    ],
)
def test_a_tiny_model_gives_verdict_and_coverage(name: str, parts: set[str], tmp_path: Path) -> None:
    file = (TARGETS / f"{name}.py").relative_to(ROOT).as_posix()
    out = tmp_path / "report.json"
    command = [sys.executable, "-m", "tcready", "check", f"{file}::build", "--inputs", f"{file}::inputs"]
    done = subprocess.run(
        [*command, "--output-format", "json", "-o", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
    )
    assert done.returncode in (0, 1), done.stderr
    report: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    (target,) = report["targets"]
    assert target["verdict"] in ("ready", "ready_by_region", "not_ready")
    assert (target["verdict"] == "ready") == (not target["break_sites"] and not _harmful(target))
    assert target["coverage"]["ops_total"] > 20
    assert 0 < target["coverage"]["share"] <= 1
    assert parts <= {module["name"] for module in target["modules"]}


def _harmful(target: dict[str, Any]) -> list[Any]:
    """What keeps a target without break sites from being ready."""
    skipped = [frame for frame in target["skipped_frames"] if not frame["benign"]]
    return skipped + [recompile for recompile in target["recompiles"] if recompile["identical_call"]]
