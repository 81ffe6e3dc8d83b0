"""Convert counted dispatches to the reported shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.measure.dispatch_counts import Clock, Counts
from tcready.schema.run import BreakSite, CaseCoverage, Cost, Coverage


def coverage(counts: Counts, device: str) -> Coverage | None:
    """Return the coverage; None if the call dispatched nothing."""
    total, captured = counts.total.ops.total(), counts.captured.ops.total()
    spent = counts.total.seconds_in_all
    time_share = counts.captured.seconds_in_all / spent if spent else None
    if not total:
        return None
    clock = Clock(device).name
    if clock is None:
        return Coverage(total, captured, captured / total)
    shares = tuple(inside / whole for inside, whole in counts.calls if whole)
    return Coverage(
        total, captured, captured / total, time_share, spent, clock, timed_calls=counts.timed_calls, time_shares=shares
    )


def weight_by_case(found: Coverage | None, by_case: Sequence[tuple[Case, Counts]]) -> Coverage | None:
    """Return the coverage with that of each named case; its shares are weighted by the frequency of the cases."""
    if found is None or not any(case.name for case, _ in by_case):
        return found

    def over(of: Callable[[Counts], float]) -> float:
        return sum(case.weight * of(counts) for case, counts in by_case)

    shares = []
    for case, counts in by_case:
        total, captured = counts.total.ops.total(), counts.captured.ops.total()
        shares.append(CaseCoverage(case.name or "", case.weight, total, captured, captured / total if total else 0.0))
    spent = over(lambda counts: counts.total.seconds_in_all)
    return replace(
        found,
        share=over(lambda counts: counts.captured.ops.total()) / over(lambda counts: counts.total.ops.total()),
        time_share=over(lambda counts: counts.captured.seconds_in_all) / spent if spent else None,
        cases=tuple(shares),
    )


def with_cost(sites: tuple[BreakSite, ...], case: str | None, counts: Counts) -> tuple[BreakSite, ...]:
    """The sites, those of `case` with the operations that they caused to run outside of graphs in the counted call."""
    ops, seconds = counts.outside.ops, counts.outside.seconds
    timed = bool(counts.total.seconds)
    return tuple(
        replace(site, cost=Cost(ops[site.path, site.line], seconds[site.path, site.line] if timed else None))
        if site.case == case
        else site
        for site in sites
    )
