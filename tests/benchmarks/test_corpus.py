"""Small models from the names of classes, and what `benchmarks/corpus.py fix` records of those that break."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def corpus_fixes() -> ModuleType:
    sys.path.insert(0, str(HERE))  # its modules import each other
    try:
        import corpus_fixes
    finally:
        sys.path.remove(str(HERE))
    return corpus_fixes


def record(name: str, *outcomes: str, judged: str = "", **more: Any) -> dict[str, Any]:
    sites = [{"path": "p/m.py", "line": line, "outcome": how} for line, how in enumerate(outcomes, 1)]
    base = {"name": name, "recipe": {}, "sites": sites, "judged": judged, "step": "done", "seconds": {}, "limit": 60}
    return base | {"all_seconds": 3.0, **more}


def test_a_line_counts_as_fixed_if_every_class_that_shows_it_is_fixed(corpus_fixes: ModuleType) -> None:
    summary = corpus_fixes.summarize(
        [
            record("A", "edit", "setting", "no change", judged="changed "),
            record("B", "edit", "differs", judged="changed "),
            record("C", "edit", "gone with another", judged="changed "),
        ]
    )
    assert (summary.sites, summary.gone, summary.clean) == (7, 5, 1)
    assert summary.by_line == Counter({"edit": 1, "differs": 1, "no change": 1})


@pytest.mark.parametrize("judged", ["wrong output differs", "failed it cannot be called", ""])
def test_a_change_counts_for_nothing_unless_the_comparison_confirms_it(corpus_fixes: ModuleType, judged: str) -> None:
    summary = corpus_fixes.summarize([record("A", "edit", judged=judged)])
    assert summary.gone == 0
    assert summary.sites == 1
    assert summary.wrong == (("A",) if judged.startswith("wrong") else ())


def test_every_site_is_in_one_row(corpus_fixes: ModuleType) -> None:
    records = [
        record("A", "edit", "kept out", "one_side", "not_run", "gains nothing", judged="changed "),
        record("B", "setting", judged="wrong output"),
        record("C", "edit", judged="failed why"),
        record("D", failure="out of time") | {"sites": [{"path": "p/n.py", "line": 9}]},
    ]
    rows = corpus_fixes.rows_of(corpus_fixes.summarize(records))
    total, *parts = [(int(row[1].strip("*")), int(row[2].strip("*"))) for row in rows if not row[0].startswith("—")]
    assert total == (8, 6)
    assert (sum(each for each, _ in parts), sum(each for _, each in parts)) == total


def test_a_record_that_ended_counts_more_than_one_that_ran_out_of_time(
    corpus_fixes: ModuleType, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    late = record("A", failure="out of time")
    out.write_text("".join(json.dumps(each) + "\n" for each in (late, record("A", "edit"), late)), "utf-8")
    assert "failure" not in corpus_fixes.read_records([out])["A"]


BUILDING = """\
import json, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import torch, zoo_transformers
found = {}
for name in sys.argv[2:]:
    recipe = zoo_transformers.find_recipe(f"transformers.models.{name}")
    torch.manual_seed(0)
    model, args, kwargs = zoo_transformers.build(**recipe)
    model(*args, **kwargs)
    found[name.partition("::")[2]] = [recipe["kind"], sum(each.numel() for each in model.parameters())]
print(json.dumps(found))
"""


@pytest.mark.torch
def test_a_small_model_and_inputs_are_made_from_the_name_of_a_class() -> None:
    pytest.importorskip("transformers")
    kinds = {
        "bert.modeling_bert::BertModel": "text",
        "vit.modeling_vit::ViTModel": "image plain",
        "wav2vec2.modeling_wav2vec2::Wav2Vec2Model": "audio wave",
        "paligemma.modeling_paligemma::PaliGemmaModel": "image plain, text",
        "qwen3_vl.modeling_qwen3_vl::Qwen3VLModel": "image patches, text",
    }
    done = subprocess.run(
        [sys.executable, "-c", BUILDING, str(HERE), *kinds], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert {name: kind for name, (kind, _) in found.items()} == {
        name.partition("::")[2]: kind for name, kind in kinds.items()
    }
    assert all(size < 20_000_000 for _, size in found.values())


def run_fix(folder: Path, *names: str) -> tuple[str, list[dict[str, Any]]]:
    """Run `corpus.py fix` over classes of the installed transformers that a sweep says break."""
    transformers = pytest.importorskip("transformers")
    results, out = folder / "results.jsonl", folder / "out.jsonl"
    lines = [{"name": each, "mode": "eval", "breaks": True} for each in names]
    lines.append({"name": "BertModel", "mode": "eval", "breaks": False})
    results.write_text("".join(json.dumps(each) + "\n" for each in lines), "utf-8")
    command = [
        sys.executable, str(HERE / "corpus.py"), "fix", str(results), "--out", str(out), "--limit", "800",
        "--site", str(Path(transformers.__file__).parents[1]), "--jobs", "2",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return done.stdout, [json.loads(line) for line in out.read_text("utf-8").splitlines()]


@pytest.mark.torch
@pytest.mark.slow
def test_a_class_is_recorded_and_not_run_again(tmp_path: Path) -> None:
    first, records = run_fix(tmp_path, "ViTModel", "GotNoSuchModel")
    assert "GotNoSuchModel: no modeling file defines it" in first
    assert [each["name"] for each in records] == ["ViTModel"]
    assert records[0]["sites"] == []
    assert records[0]["step"] == "done", records[0]
    assert "failure" not in records[0]

    again, same = run_fix(tmp_path, "ViTModel", "GotNoSuchModel")
    assert same == records
    assert "ViTModel" in first
    assert "ViTModel" not in again


@pytest.mark.torch
@pytest.mark.release
def test_a_class_that_breaks_is_fixed_and_compared(tmp_path: Path) -> None:
    _, [found] = run_fix(tmp_path, "FlaubertModel")
    assert [(each["gb_id"], each["outcome"]) for each in found["sites"]] == [("GB0124", "setting")]
    assert found["breaks"] == [1, 0]
    assert found["judged"].split() == ["changed"]
