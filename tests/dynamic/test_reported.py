"""Models from public bug reports: what a run says of each (fixtures/reported)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tcready import api
from tcready.schema.report import TargetReport
from tcready.schema.static import Finding

pytestmark = [pytest.mark.torch, pytest.mark.slow]
REPORTED = Path(__file__).parent.parent.parent / "fixtures/reported"


def checked(target: str) -> tuple[TargetReport, dict[str, Finding]]:
    """Return the only target, and its findings by code."""
    report = api.check([target], root=REPORTED, run=True)
    (only,) = report.targets
    return only, {finding.rule: finding for finding in report.findings}


def test_a_recompile_proves_the_counter_and_not_a_test_of_a_size() -> None:
    _, findings = checked("kv_length.py")
    counter, test = findings["TCR311"], findings["TCR502"]
    assert (counter.level, counter.status) == ("error", "confirmed")
    assert (test.level, test.status) == ("note", "predicted")


def test_a_scheduler_is_no_optimizer() -> None:
    report = api.check(["plateau_lr.py::step"], root=REPORTED, run=True)
    assert [finding.message for finding in report.findings] == [
        "`step` of an optimizer in compiled code: the graph ends here",
        "`step` of a learning rate scheduler in compiled code: the graph ends here",
    ]


def test_the_hook_that_returns_early_is_named() -> None:
    target, _ = checked("capture_hooks.py")
    cause = target.observation.parity_cause
    assert cause is not None
    assert cause.place is not None
    assert (cause.kind, cause.place.line) == ("compiling_check", 28)
