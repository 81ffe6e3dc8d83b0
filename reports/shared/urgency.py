"""Decide which findings require a change, and in which order to fix them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from tcready.schema.enums import LEVELS, Status
from tcready.schema.static import Finding

WEIGHT: Mapping[Status, int] = MappingProxyType(
    {"confirmed": 0, "runtime_only": 1, "not_traced": 2, "predicted": 3, "not_reached": 4, "not_observed": 5}
)
"""Weights by the result of a run."""


def needs_change(finding: Finding) -> bool:
    return finding.effect != "intent" and finding.status != "not_observed"


def urgency(group: Sequence[Finding]) -> tuple[bool, bool, float, int, bool, int, int, str]:
    """Return the sort key of findings of one kind: those that raise come first, then those that recompile at every
    call, whatever a call costs; then those that cost most in a run, then the most severe and certain ones."""
    return (
        not any(map(_raises, group)),
        not any(map(_again_at_every_call, group)),
        -seconds(group),
        -operations(group),
        all(finding.level != LEVELS[-1] for finding in group),
        min(WEIGHT[finding.status] for finding in group),
        -len(group),
        group[0].rule or "",
    )


def _raises(finding: Finding) -> bool:
    """Return True if compiled code raised in a run and eager code does not."""
    return finding.status in ("confirmed", "runtime_only") and finding.effect == "compile_error"


def _again_at_every_call(finding: Finding) -> bool:
    """Return True if it recompiled in a run with the same inputs: at Dynamo's limit the whole function runs eagerly."""
    shown = finding.status in ("confirmed", "runtime_only")
    return shown and finding.effect == "recompile" and finding.level == LEVELS[-1]


def seconds(group: Iterable[Finding]) -> float:
    """Return the seconds of a warm call that these cause outside of graphs."""
    return sum(cost.get("seconds", 0.0) for cost in _at_lines(group))


def operations(group: Iterable[Finding]) -> int:
    """Return the operations that these cause outside of graphs."""
    return sum(int(cost.get("operations", 0)) for cost in _at_lines(group))


def _at_lines(group: Iterable[Finding]) -> Iterable[Mapping[str, float]]:
    """Group findings by line: those on one line share the cost of the break there."""
    return {(finding.path, finding.line): finding.cost or {} for finding in group}.values()
