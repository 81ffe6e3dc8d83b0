"""Real Dynamo, a process a model: each marked status is what the run shows, and nothing else shows."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fixture_markers
import pytest
from commands import run
from fixture_markers import ROOT
from jsonschema import Draft202012Validator

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCHEMAS = [
    Draft202012Validator(json.loads(path.read_text("utf-8")))
    for path in (ROOT / "docs" / "schema" / "report.schema.json", ROOT / "fixtures" / "report.schema.json")
]

CONVENTIONS = {"moe_router": "get_inputs", "warned_attention": "get_example_inputs", "nan_guard": "example_input_array"}
"""What gives the inputs of some models, and is named with their run."""


@dataclass(frozen=True)
class Run:
    exit_code: int
    report: dict[str, Any]


def _check(model: Path, out: Path) -> Run:
    """`tcready check` of one file."""
    code = run("check", model.relative_to(ROOT).as_posix(), "--output-format", "json", "-o", str(out))
    return Run(code, json.loads(out.read_text(encoding="utf-8")))


def _target_run(run: Run) -> dict[str, Any]:
    """The target that was run; modules of the file that it does not use are targets too, read alone."""
    (target,) = [each for each in run.report["targets"] if each["environment"]]
    return dict(target)


def _can_run(model: Path) -> bool:
    """Whether what the model needs beside torch is here: a C++ compiler, for the one that compiles."""
    return model.stem != "inline_cpp_extension" or shutil.which(os.environ.get("CXX", "c++")) is not None


COMPILES_CPP = "inline_cpp_extension"
"""It builds an extension in C++ as it is imported, which takes most of a minute."""
OF_ONE_TORCH = frozenset({"ema_tracker", "vq_logging"})
"""Other versions of torch do something else with these."""


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(
            model,
            id=model.stem,
            marks=[
                *([pytest.mark.release] if number % 2 or model.stem == COMPILES_CPP else []),
                *([pytest.mark.pinned] if model.stem in OF_ONE_TORCH else []),
            ],
        )
        for number, model in enumerate(fixture_markers.models())
    ],
)
@pytest.mark.sampled(2)
def test_the_run_shows_what_is_marked_and_nothing_else(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not _can_run(model):
        pytest.skip("no C++ compiler here")
    monkeypatch.chdir(ROOT)
    made = _check(model, tmp_path / "report.json")
    for schema in SCHEMAS:
        schema.validate(made.report)
    markers = fixture_markers.markers_of(model)
    shown = set()
    for finding in made.report["findings"]:
        if finding["origin"] == "own" and finding["confidence"] != "low":
            place = (finding["path"], finding["line"])
            predicted = finding["status"] != "runtime_only"
            codes = [finding["rule"]] if predicted else finding["gb_ids"] or [finding["effect"]]
            shown |= {(*place, code, finding["status"]) for code in codes}
    assert shown == {(m.path, m.line, m.code, m.status) for m in markers}

    _assert_frames_were_predicted(made)
    target = _target_run(made)
    stages = {stage["stage"]: stage for stage in target["stages"]}
    assert stages["capture"]["state"] == "pass", stages
    assert target["coverage"] is not None
    assert CONVENTIONS.get(model.stem, "") in target["convention"]
    assert made.exit_code == (1 if markers else 0)
    if any(marker.status in ("confirmed", "runtime_only") for marker in markers):
        assert target["verdict"] in ("ready_by_region", "not_ready")
    else:
        assert target["verdict"] == "ready"
        assert target["coverage"]["share"] == 1.0
        assert not target["break_sites"]


def _assert_frames_were_predicted(run: Run) -> None:
    """Every function that a confirmed break split or cost was predicted to be, and none else.

    A caller meets the first break of what it calls: one that is predicted for a later break, too, is in the record
    of that one alone.
    """
    shapes = [f["shape"] for f in run.report["findings"] if f["status"] == "confirmed" and f["shape"]]
    met = {_place(frame) for shape in shapes for frame in shape["seen"]}
    for shape in shapes:
        told = {
            _place(frame): frame["fate"]
            for frame in (*shape["above"], shape["frame"])
            if frame["fate"] != "not_compiled"
        }
        seen = {_place(frame): frame["fate"] for frame in shape["seen"]}
        assert seen.items() <= told.items()
        assert _place(shape["frame"]) in seen
        assert told.keys() <= met


def _place(frame: dict[str, Any]) -> tuple[str, int]:
    return frame["path"], frame["line"]


def test_what_explain_leaves_out_is_in_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop over `nn.Linear` that prints: explain counts 0 graphs and -1 breaks, and gives no reason."""
    monkeypatch.chdir(ROOT)
    model = fixture_markers.MODELS / "linear_loop_prints.py"
    target = _target_run(_check(model, tmp_path / "report.json"))
    assert target["explain"]["graph_count"] == 0
    assert target["explain"]["graph_break_count"] == -1
    assert target["explain"]["reasons"] == []
    (marker,) = fixture_markers.markers_of(model)
    assert {(site["path"], site["line"]) for site in target["break_sites"]} == {(marker.path, marker.line)}
    assert [frame["benign"] for frame in target["skipped_frames"] if frame["symbol"].endswith("forward")] == [False]
    assert target["coverage"]["share"] == 0.0
    assert target["coverage"]["ops_total"] > 0
