"""Claims by version of torch: what the static pass says for a version is what that version was seen to do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from reading import RULES
from tcready.schema.enums import BREAKING
from tcready.static.library import torch_tables
from tcready.static.library.torch_versions import Version, with_tables
from version_samples import FOLDER, SHOWN, VersionSample, deviation, findings, samples, shown_by

DEVIATIONS = json.loads((FOLDER / "deviations.json").read_text("utf-8"))
UNTOLD = {
    f"{section}: {row}"
    for section, rows in json.loads((FOLDER / "untold.json").read_text("utf-8"))["untold"].items()
    for row in rows
}
EXACT = {(2, 13): 0.97, (2, 14): 0.97, (2, 15): 0.97, (2, 12): 0.94, (2, 11): 0.93}
"""The least share of samples of which the static pass says just what a version did."""
SAMPLES = tuple(samples())


def version_text(version: Version) -> str:
    return "{}.{}".format(*version)


@pytest.mark.slow
@pytest.mark.parametrize("version", with_tables(), ids=version_text)
def test_what_is_told_for_a_version_is_what_it_showed(version: Version, tmp_path: Path) -> None:
    recorded = [sample for sample in SAMPLES if shown_by(sample.name, version) is not None]
    assert len(recorded) > 900
    found = {s.name: why for s in recorded if (why := deviation(s, version, tmp_path))}
    listed = {name for name, each in DEVIATIONS.items() if version_text(version) in each["torch"]}
    assert {name: why for name, why in found.items() if name not in UNTOLD | listed} == {}
    assert listed <= found.keys(), "these are told rightly now: take them out of deviations.json"
    assert len(found) <= (1 - EXACT[version]) * len(recorded)


def test_deviations_have_reasons() -> None:
    names = {sample.name for sample in SAMPLES}
    for name, each in DEVIATIONS.items():
        assert name in names
        assert name not in UNTOLD
        assert set(each) == {"torch", "why"}
        assert len(each["why"]) > 20


def test_every_sample_was_run_with_every_version() -> None:
    assert set(SHOWN["torch"]) == {version_text(version) for version in with_tables()}
    missing = [s.name for s in SAMPLES if any(shown_by(s.name, version) is None for version in with_tables())]
    assert missing == []


@pytest.mark.slow
def test_the_table_of_claims_is_derived_from_what_was_shown() -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "claims.py"
    shown = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stdout + shown.stderr


def test_claims_are_of_rules_and_versions_that_exist() -> None:
    versions = {version_text(version) for version in with_tables()}
    for code, forms in torch_tables.claims_by_version().items():
        assert code in {rule.code for rule in RULES}
        for holds in forms.values():
            assert set(holds) < versions


@pytest.mark.slow
def test_predicted_ids_are_those_that_were_shown(tmp_path: Path) -> None:
    """What a version showed on a line that a rule tells has an id that the rule names."""
    version = with_tables()[-1]
    others = []
    for sample in (each for each in SAMPLES if each.rule is not None):
        shown = shown_by(sample.name, version)
        if shown is None or not shown.get("breaks"):
            continue
        told = {f.line: f.gb_ids for f in findings(sample, version, tmp_path) if f.effect in BREAKING}
        others += [
            (sample.name, line, gb)
            for line, gb in shown["breaks"]
            if line in told and gb != "-" and gb not in told[line] and not _has_another(shown, line, told[line])
        ]
    assert others == []


def _has_another(shown: Any, line: int, ids: tuple[str, ...]) -> bool:
    """Whether another break of the line has one of the ids: some come of the first."""
    return any(gb in ids for each, gb in shown["breaks"] if each == line)


@pytest.mark.torch
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name.replace(" ", "-"))
@pytest.mark.sampled(12)
def test_this_torch_shows_what_is_recorded_of_it(sample: VersionSample, tmp_path: Path) -> None:
    import torch
    from construct_runs import shown_now

    major, minor = torch.__version__.split(".")[:2]
    recorded = shown_by(sample.name, (int(major), int(minor)))
    if recorded is None:
        pytest.skip(f"nothing is recorded of torch {major}.{minor}")
    now = shown_now(sample.name, tmp_path / "sample.py")
    assert now == {key: recorded[key] for key in now}
