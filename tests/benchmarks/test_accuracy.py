"""The static pass against what Dynamo did with real models: a fixed slice of records, with a floor."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import pytest

HERE = Path(__file__).resolve().parents[2]
RECORDS = HERE / "fixtures" / "accuracy" / "records.jsonl"
spec = importlib.util.spec_from_file_location("benchmarks_accuracy", HERE / "benchmarks" / "accuracy.py")
assert spec is not None
assert spec.loader is not None
accuracy = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = accuracy  # where dataclasses look
spec.loader.exec_module(accuracy)
RECORDED_WITH = "5.23.0"
"""The transformers whose lines the records speak of."""


@pytest.fixture(scope="module")
def site() -> Path:
    """The folder that holds the transformers of the records."""
    spec = importlib.util.find_spec("transformers")
    found = importlib.metadata.version("transformers") if spec else None
    if found != RECORDED_WITH:
        assert not os.environ.get("CI"), f"constraints.txt must pin transformers {RECORDED_WITH}"
        pytest.skip(f"transformers {found} is installed, the records are of {RECORDED_WITH}")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent.parent


def score(site: Path, records: Sequence[str], *floor: str) -> subprocess.CompletedProcess[str]:
    command = [
        *(sys.executable, "benchmarks/accuracy.py", "-", "--site", str(site), "--jobs", "1", "--list"),
        *("--floor", *floor),
    ]
    return subprocess.run(command, cwd=HERE, input="\n".join(records), capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_floor_holds(site: Path) -> None:
    """Site recall, precision on lines that ran, verdicts: below what was measured, above what would be a loss. Every third
    record: benchmarks/accuracy.py has the time for all."""
    done = score(site, RECORDS.read_text("utf-8").splitlines()[::3], "0.90", "0.95", "0.94")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed: 0" in done.stdout


@pytest.mark.slow
def test_a_floor_can_be_missed(site: Path) -> None:
    """The command does fail when the score is too low."""
    records = [line for line in RECORDS.read_text("utf-8").splitlines() if '"break_sites": []' not in line]
    done = score(site, records[:2], "1.1", "0", "0")
    assert done.returncode == 1
    assert "below the floor" in done.stderr


def test_what_dynamo_gave_up_is_not_judged(tmp_path: Path) -> None:
    """Behind a break that gives up the rest of a function nothing was traced, nor behind an error of the compiled call; a
    break that splits the function leaves the rest to be judged."""
    (tmp_path / "m.py").write_text(
        dedent("""\
            def f(x):
                x += 1
                x.item()
                x += 2
                return x


            def g(x):
                return x
        """)
    )

    def traced(action: str, error: str | None = None) -> set[int]:
        record = {
            "break_sites": [{"path": "m.py", "line": 3, "actions": [action]}],
            "skipped_frames": [],
            "executed": {"m.py": "2-5,9"},
            "compile_error": error,
        }
        return accuracy.traced_lines(record, str(tmp_path)).get("m.py", set())

    assert traced("resume") == {2, 3, 4, 5, 9}
    assert traced("skip_rest") == {2, 3, 9}
    assert traced("resume", "RuntimeError: when making fake tensor call") == set()


def test_the_interval_is_by_package() -> None:
    """A package with many sites weighs in the sum, not in the mean; what is left out moves the sum."""
    big, small = accuracy.Tally(((90, 100), (9, 10), (5, 5))), accuracy.Tally(((0, 2), (0, 0), (0, 1)))
    tallies = {"big": big, "small": small}
    assert accuracy.pooled([big, small], 0) == 90 / 102
    assert accuracy.mean([big, small], 0) == (0.9 + 0.0) / 2
    assert accuracy.mean([big, small], 1) == 0.9, "a package without anything to judge says nothing"
    assert accuracy.interval([big, small], accuracy.mean, 0) == (0.0, 0.9)
    assert accuracy.interval([big, big], accuracy.mean, 0) == (0.9, 0.9)
    assert accuracy.left_out(tallies, 0) == ((0.0, "big"), (0.9, "small"))
    assert accuracy.left_out({"big": big}, 0) is None
    assert [line.count("|") for line in accuracy.markdown(tallies)] == [6] * 7
    assert accuracy.interval([], accuracy.pooled, 0) is None
    assert len(list(accuracy.summary({}))) == 2
