"""Decide which findings ask for a change, and which to fix first. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from tcready.schema.static import Finding
from tcready.schema.words import LEVELS, Status

WEIGHT: Mapping[Status, int] = MappingProxyType(
    {
        "confirmed": 0,
        "runtime_only": 1,
        "not_traced": 2,
        "predicted": 3,
        "not_reached": 4,
        "not_observed": 5,
    }
)
"""By what a run showed of it."""


def asks_for_change(finding: Finding) -> bool:
    return finding.effect != "intent" and finding.status != "not_observed"


def urgency(group: Sequence[Finding]) -> tuple[bool, bool, float, int, bool, int, int, str]:
    """What sorts findings of one kind: what raises comes first, then what compiles again at every call, whatever a call
    costs; then what costs most in a run, then what is worst and surest."""
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
    """Whether a run saw compiled code raise where eager code does not."""
    return finding.status in ("confirmed", "runtime_only") and finding.effect == "compile_error"


def _again_at_every_call(finding: Finding) -> bool:
    """Whether a run saw it compile again with the same inputs: at Dynamo's limit all of the function runs eagerly."""
    shown = finding.status in ("confirmed", "runtime_only")
    return shown and finding.effect == "recompile" and finding.level == LEVELS[-1]


def seconds(group: Iterable[Finding]) -> float:
    """Of a warm call, that run outside of graphs on account of these."""
    return sum(cost.get("seconds", 0.0) for cost in _at_lines(group))


def operations(group: Iterable[Finding]) -> int:
    """Those that run outside of graphs on account of these."""
    return sum(int(cost.get("operations", 0)) for cost in _at_lines(group))


def _at_lines(group: Iterable[Finding]) -> Iterable[Mapping[str, float]]:
    """Findings on one line share what the break there costs."""
    return {(finding.path, finding.line): finding.cost or {} for finding in group}.values()
