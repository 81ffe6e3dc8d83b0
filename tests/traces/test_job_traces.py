"""Traces that torch wrote of plain scripts, held against direct runs of the same models; no torch is needed here.

`benchmarks/job_traces.py` makes both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fixture_markers import ROOT
from tcready import api
from tcready.schema.observation import Observation
from tcready.traces import read

TRACES = ROOT / "fixtures" / "traces"
MODELS = sorted(path.name for path in TRACES.iterdir() if path.is_dir())


@cache
def traced(name: str) -> Observation:
    (seen,) = read([str(TRACES / name)], ROOT / "fixtures").observations
    return seen


def direct(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((TRACES / name / "seen.json").read_text())
    return found


def test_there_are_three_with_breaks_and_recompilations() -> None:
    assert len(MODELS) == 3
    assert all(direct(name)["break_sites"] for name in MODELS)
    assert any(direct(name)["recompiles"] for name in MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_a_trace_gives_the_break_sites_of_a_direct_run(name: str) -> None:
    def of(site: dict[str, Any]) -> tuple[Any, ...]:
        return (site["path"], site["line"], site["symbol"], site["gb_id"], tuple(site["gb_ids"]), site["action"])

    seen = traced(name)
    assert seen.target == f"models/{name}.py::Model"
    sites = [(s.path, s.line, s.symbol, s.gb_id, s.gb_ids, s.action) for s in seen.break_sites]
    assert sorted(sites) == sorted(map(of, direct(name)["break_sites"]))
    reasons = {(site["path"], site["line"]): site["reason"] for site in direct(name)["break_sites"]}
    assert {(s.path, s.line): s.reason for s in seen.break_sites} == reasons
    given_up = {
        (f["path"], f["line"], f["symbol"], f["reason"]) for f in direct(name)["skipped_frames"] if not f["benign"]
    }
    assert {(f.path, f.line, f.symbol, f.reason) for f in seen.skipped_frames if not f.benign} == given_up


@pytest.mark.parametrize("name", MODELS)
def test_a_trace_gives_the_recompilations_of_a_direct_run(name: str) -> None:
    """With the first guard that failed of each version: a run asks them all. What a counter of the module stood at differs,
    since a run calls the model eagerly before."""

    def plain(reasons: Iterable[str]) -> set[str]:
        return {re.sub(r"^\S+: |\d+", "", reason) for reason in reasons}

    there = {(r["path"], r["line"], r["symbol"]): r for r in direct(name)["recompiles"]}
    here = {(r.path, r.line, r.symbol): r for r in traced(name).recompiles}
    assert here.keys() == there.keys()
    for place, event in here.items():
        assert event.reasons
        assert plain(event.reasons) <= plain(there[place]["reasons"])
        assert {(f.path, f.line) for f in event.lines} <= {(f["path"], f["line"]) for f in there[place]["lines"]}


@pytest.mark.parametrize("name", MODELS)
def test_a_trace_gives_the_graphs_of_a_direct_run_and_what_compiling_them_took(name: str) -> None:
    seen = traced(name)
    there = {(g["compile_id"], g["symbol"], g["line"]): g for g in direct(name)["graphs"]}
    here = {(g.compile_id, g.symbol, g.line): g for g in seen.graphs}
    assert there.keys() <= here.keys()
    assert {key: here[key].ops for key in there} == {key: graph["ops"] for key, graph in there.items()}
    assert all(graph.compile_seconds for graph in seen.graphs)
    assert seen.trace is not None
    by_function = {(time.path, time.symbol): time for time in seen.trace.compile_times}
    for graph in there.values():
        time = by_function[graph["path"], graph["symbol"]]
        phases = dict(time.phases)
        # The job compiled with Inductor, the run with a backend that takes the graph as it is.
        assert time.seconds >= phases["dynamo"] > 0
        assert phases["inductor"] > 0
        assert graph["compile_seconds"] > 0
    run = sum(graph["compile_seconds"] for graph in there.values())
    assert 0.2 < dict(seen.trace.phases)["dynamo"] / run < 5


@pytest.mark.parametrize("name", MODELS)
def test_no_folder_of_a_machine_is_in_a_stored_trace(name: str) -> None:
    import gzip

    (file,) = (TRACES / name).glob("*.gz")
    text = gzip.decompress(file.read_bytes()).decode()
    for word in ("/root", "/home", "/work", "/tmp/", "/usr", "site-packages/pip"):
        assert word not in text, word
    assert file.stat().st_size < 100_000


def test_the_report_confirms_what_the_source_predicts(tmp_path: Path) -> None:
    report = api.check_trace(str(TRACES / "vq_logging"), root=ROOT / "fixtures")
    (target,) = [target for target in report.targets if target.was_run]
    assert target.target == "models/vq_logging.py::Model"
    assert target.verdict == "not_ready"
    predicted = [finding for finding in report.findings if finding.rule in ("TCR206", "TCR301", "TCR302", "TCR201")]
    assert {finding.status for finding in predicted} == {"confirmed"}
    page = api.render(report, "html")
    assert "Time of compiling, by function" in page
