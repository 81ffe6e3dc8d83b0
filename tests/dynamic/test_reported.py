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


@pytest.mark.parametrize("name", ["plateau_lr", "float_lr"])
def test_a_scheduler_is_no_optimizer(name: str) -> None:
    report = api.check([f"{name}.py::step"], root=REPORTED, run=True)
    assert [finding.message for finding in report.findings if finding.rule == "TCR408"] == [
        "`step` of an optimizer: torch ends the graph here on purpose, and the step is compiled by itself",
        "`step` of a learning rate scheduler: torch ends the graph here on purpose",
    ]
    assert report.targets[0].verdict == "ready"


@pytest.mark.parametrize(
    ("name", "recompiled"),
    [
        ("decorated", None),
        ("two_optimizers", None),
        ("with_float_lr", 36),
        ("with_tensor_lr", None),
        ("Trainer.update", 52),
    ],
)
def test_a_compiled_step_of_an_optimizer_is_ready(name: str, recompiled: int | None) -> None:
    """A number as the learning rate recompiles the step, at the line that calls it; a tensor does not."""
    report = api.check([f"optimizers.py::{name}"], inputs="optimizers.py::no_inputs", root=REPORTED, run=True)
    (target,) = report.targets
    assert target.verdict == "ready"
    assert all(site.by_torch for site in target.observation.break_sites)
    numbers = [finding for finding in report.findings if finding.name == "number-of-optimizer"]
    assert [finding.line for finding in numbers] == ([recompiled] if recompiled else [])
    assert all(finding.level == "warning" and "lr=torch.tensor" in finding.message for finding in numbers)
    assert {finding.level for finding in report.findings if finding.rule == "TCR408"} == {"note"}


def test_under_fullgraph_a_break_of_torch_is_an_error() -> None:
    report = api.check(["optimizers.py::whole_graph"], inputs="optimizers.py::no_inputs", root=REPORTED, run=True)
    assert report.targets[0].verdict == "not_ready"
    (finding,) = report.findings
    assert finding.level == "error"
    assert finding.raises_at is not None


def test_other_breaks_beside_an_optimizer_count() -> None:
    report = api.check(["optimizers.py::with_item"], inputs="optimizers.py::one_input", root=REPORTED, run=True)
    (target,) = report.targets
    assert target.verdict == "not_ready"
    assert [site.line for site in target.observation.break_sites if not site.by_torch] == [64]


def test_the_hook_that_returns_early_is_named() -> None:
    target, _ = checked("capture_hooks.py")
    cause = target.observation.parity_cause
    assert cause is not None
    assert cause.place is not None
    assert (cause.kind, cause.place.line) == ("compiling_check", 28)
