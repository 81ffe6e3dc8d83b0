"""The static pass finds what is marked in the fixture models, and nothing that is not. Needs no torch."""

from __future__ import annotations

from pathlib import Path

import fixture_markers
import pytest
from fixture_markers import MODELS, ROOT, Marker
from reading import PINNED_TEXT
from tcready import api, rules
from tcready.schema.report import Report

CONTROL_FLOW = frozenset({"TCR101", "TCR102", "TCR103", "TCR104", "TCR105", "TCR111", "TCR112"})
CARD = CONTROL_FLOW | {
    *("TCR201", "TCR202", "TCR203", "TCR204", "TCR205", "TCR206", "TCR207", "TCR208"),
    *("TCR301", "TCR302", "TCR303", "TCR311", "TCR312", "TCR313", "TCR321"),
    *("TCR401", "TCR402", "TCR403", "TCR404"),
}
"""The hazards that the fixtures must show, each in at least one model."""


def _found(report: Report) -> set[tuple[str, int, str]]:
    return {
        (finding.path, finding.line, finding.rule or "")
        for finding in report.findings
        if finding.origin == "own" and finding.confidence != "low"
    }


def _predicted(markers: frozenset[Marker]) -> set[tuple[str, int, str]]:
    return {(m.path, m.line, m.code) for m in markers if m.status != "runtime_only"}


@pytest.fixture(autouse=True)
def _at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("model", fixture_markers.models(), ids=lambda path: path.stem)
def test_predicts_what_is_marked_and_nothing_else(model: Path) -> None:
    report = api.check([str(model)], run=False, torch_version=PINNED_TEXT)
    assert not report.skipped
    assert _found(report) == _predicted(fixture_markers.markers_of(model))


def test_a_folder_gives_the_union_of_its_files() -> None:
    report = api.check([str(MODELS)], run=False, torch_version=PINNED_TEXT)
    expected = set().union(*(_predicted(fixture_markers.markers_of(model)) for model in fixture_markers.models()))
    assert _found(report) == expected


def test_statuses_without_a_run_are_predictions() -> None:
    report = api.check([str(MODELS)], run=False, torch_version=PINNED_TEXT)
    assert {finding.status for finding in report.findings} == {"predicted"}


def test_every_hazard_of_the_card_is_in_a_fixture() -> None:
    marked = {marker.code for model in fixture_markers.models() for marker in fixture_markers.markers_of(model)}
    assert marked >= CARD
    assert {rule.code for rule in rules.load()} >= CARD


def test_at_least_four_fixtures_are_clean_and_twelve_are_not() -> None:
    clean = [model for model in fixture_markers.models() if not fixture_markers.markers_of(model)]
    assert {model.stem.split("_")[0] for model in clean} == {"clean"}
    assert len(clean) >= 4
    assert len(fixture_markers.models()) - len(clean) >= 12


@pytest.mark.parametrize(
    "comment",
    ["# expect: TCR1", "# expect: TCR101 seen", "# expect: TCR101, TCR102", "# expects TCR101", "# expect TCR101"],
)
def test_a_misspelt_marker_is_refused(comment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixture_markers, "ROOT", tmp_path)
    model = tmp_path / "model.py"
    model.write_text(f"x = 1  {comment}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"model\.py:1: misspelt marker"):
        fixture_markers.markers_of(model)
