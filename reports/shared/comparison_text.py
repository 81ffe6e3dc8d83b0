"""A comparison of two reports for a terminal: new findings first, then fixed ones, then each target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tcready.reports.bench.bench_view import BENCH_WORD, relative, time_interval
from tcready.reports.shared.phrases import percent
from tcready.reports.shared.wording import VERDICT_WORD, code_of, visible
from tcready.schema.comparison import ArmChange, BenchChange, BenchState, Comparison, FindingChange, TargetChange
from tcready.schema.notebook_cells import path_in

_TITLES = {"new": "NEW", "fixed": "FIXED", "moved": "MOVED", "not_compared": "NOT COMPARED"}

BENCH_STATE: dict[BenchState, str] = {
    "faster": "faster",
    "slower": "slower",
    "within_noise": "within noise",
    "not_judged": "not judged: timed in one process",
    "not_comparable": "not comparable",
}


def render(comparison: Comparison) -> str:
    """Return the comparison as plain text with a trailing newline. Unchanged findings are counted."""
    return "".join(f"{visible(line)}\n" for line in _lines(comparison))


def count_changes(comparison: Comparison) -> str:
    """Format `1 new, 2 fixed, 0 moved, 3 unchanged findings`."""
    counts = Counter(change.kind for change in comparison.findings)
    rest = f", {counts['not_compared']} not compared" if counts["not_compared"] else ""
    return ", ".join(f"{counts[kind]} {kind}" for kind in ("new", "fixed", "moved", "unchanged")) + rest


def what(change: FindingChange) -> str:
    """Format `TCR101 error: message`, with the status if it changed."""
    found = change.finding
    text = f"{code_of(found)} {found.level}: {found.message}"
    if change.kind in ("moved", "unchanged") and change.before_status not in (None, found.status):
        before = str(change.before_status).replace("_", " ")
        text += f" ({before} before, {found.status.replace('_', ' ')} now)"
    return text


def where(change: FindingChange) -> str:
    """Format `path:line`, and the previous line if it moved."""
    moved = f" (was {change.before_line})" if change.kind == "moved" else ""
    cell = change.finding.cell
    place = (
        f"{path_in(change.finding.path, cell)}:{cell.line}" if cell else f"{change.finding.path}:{change.finding.line}"
    )
    return place + moved


def verdict(target: TargetChange) -> str:
    """Return verdict and share of operations in graphs, before and after."""
    was, now = (VERDICT_WORD[each] if each else "not in it" for each in (target.before, target.after))
    text = was if was == now else f"{was} -> {now}"
    shares = [
        percent(share) if share is not None else "not measured"
        for share in (target.coverage_before, target.coverage_after)
    ]
    if target.coverage_before is not None or target.coverage_after is not None:
        text += f"; in graphs {shares[0]}" + (f" -> {shares[1]}" if shares[0] != shares[1] else "")
    for stage in target.failed:
        text += f"; {stage} fails now"
    return text


def bench_verdict(bench: BenchChange) -> str:
    """Format `real gain -> no gain`; why nothing is compared, if it is not."""
    was, now = (BENCH_WORD[each] if each else "not measured" for each in (bench.before, bench.after))
    text = was if was == now else f"{was} -> {now}"
    if bench.machine:
        other = ", ".join(f"{d.name} {d.before or 'none'} -> {d.after or 'none'}" for d in bench.machine)
        text += f"; not comparable: {other}"
    return text


def by_how_much(found: ArmChange) -> str:
    """Format `-11 %` of the time of a call; empty if that is not informative."""
    if found.state == "not_comparable" or not found.before.median:
        return ""
    return relative(found.after.median, found.before.median)


def _arm(found: ArmChange) -> str:
    """Format `default in prefill: faster: 1.92 ms (1.90-1.95) -> 1.71 ms (1.70-1.73), -11 %`."""
    by = by_how_much(found)
    figures = f"{time_interval(found.before)} -> {time_interval(found.after)}{', ' if by else ''}{by}"
    return f"{found.arm} in {found.case}: {BENCH_STATE[found.state]}: {figures}"


def _bench(bench: BenchChange) -> Iterator[str]:
    yield f"    speed: {bench_verdict(bench)}"
    yield from (f"        {_arm(found)}" for found in bench.arms)
    if bench.missing:
        yield f"        measured in one alone: {', '.join(bench.missing)}"
    yield from (f"        {d.name}: {d.before or 'none'} -> {d.after or 'none'}" for d in bench.differences)


def _lines(comparison: Comparison) -> Iterator[str]:
    yield f"{comparison.before} -> {comparison.after}: {count_changes(comparison)}"
    for kind, title in _TITLES.items():
        for change in comparison.findings:
            if change.kind == kind:
                yield f"{title} {where(change)}: {what(change)}"
                yield from (f"    {fact}" for fact in change.because)
    for change in comparison.findings:
        if change.kind == "unchanged" and change.before_status not in (None, change.finding.status):
            yield f"UNCHANGED {where(change)}: {what(change)}"
    for target in comparison.targets:
        if not {target.before, target.after} - {None, "unknown"}:
            continue  # neither was run: nothing to compare
        yield f"TARGET {target.target} ({target.mode}): {verdict(target)}"
        if target.before and target.after and not target.ran:
            yield "    break sites were not compared: it was not run in both"
        for site in target.sites:
            place = f"{site.site.path}:{site.site.line}"
            yield f"    {site.kind} break site {place}: {site.site.reason.partition(chr(10))[0]}"
            yield from (f"        {fact}" for fact in site.because)
        if target.bench is not None:
            yield from _bench(target.bench)
        for d in target.differences:
            yield f"    {d.name}: {d.before or 'none'} -> {d.after or 'none'}"
    for title, files in (("your files", comparison.own_files), ("installed files", comparison.other_files)):
        if files:
            yield f"{title} that differ: {', '.join(files)}"
    for d in comparison.differences:
        yield f"{d.name}: {d.before or 'none'} -> {d.after or 'none'}"
