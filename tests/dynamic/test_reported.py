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


@pytest.mark.parametrize(
    ("target", "line", "name", "level"),
    [
        ("attn_processor.py::Model", 41, "limit-of-parts", "error"),
        ("own_compiles.py::InPlace", 60, "limit-of-parts", "error"),
        ("own_compiles.py::Wrapped", 65, "recompile-of-parts", "note"),
        ("own_compiles.py::Forwards", 72, "recompile-of-parts", "note"),
        ("own_compiles.py::made", 78, "recompile-of-parts", "note"),
        ("own_compiles.py::TwoKinds", 86, "recompile-of-parts", "note"),
    ],
)
def test_parts_that_a_model_compiles_itself_are_judged(target: str, line: int, name: str, level: str) -> None:
    report = api.check([target], root=REPORTED, run=True)
    (only,) = report.targets
    (own,) = only.observation.own_compiles
    assert [(f.line, f.name, f.level) for f in report.findings] == [(line, name, level)]
    if name == "limit-of-parts":
        assert own.eager == own.parts[8:]
        assert own.isolated
        assert only.verdict == "ready_by_region"
        assert f"{len(own.eager)} of {len(own.parts)} parts" in only.verdict_reason
    else:
        assert (own.eager, own.compiled_again) == ((), 1)
        assert only.verdict == "ready"


@pytest.mark.parametrize(("name", "parts"), [("Equal", 10), ("Isolated", 10), ("Nested", 1)])
def test_parts_that_are_not_compiled_again_are_no_findings(name: str, parts: int) -> None:
    only, findings = checked(f"own_compiles.py::{name}")
    assert not findings
    assert [(len(own.parts), own.eager) for own in only.observation.own_compiles] == [(parts, ())]


def test_the_hook_that_returns_early_is_named() -> None:
    target, _ = checked("capture_hooks.py")
    cause = target.observation.parity_cause
    assert cause is not None
    assert cause.place is not None
    assert (cause.kind, cause.place.line) == ("compiling_check", 28)
