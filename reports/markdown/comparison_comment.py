"""A comparison of two reports, as Markdown for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from tcready.reports.bench.bench_view import time_interval
from tcready.reports.markdown.comment import code, plain
from tcready.reports.shared.anonymous_paths import file_name
from tcready.reports.shared.comparison_text import (
    BENCH_STATE,
    bench_verdict,
    by_how_much,
    count_changes,
    verdict,
    what,
    where,
)
from tcready.schema.comparison import BenchChange, Comparison


def render(comparison: Comparison) -> str:
    """Return the comment: tables of new and of fixed findings, and a line for each target."""
    return "\n".join(_lines(comparison)) + "\n"


def _lines(comparison: Comparison) -> Iterator[str]:
    yield "### tcready: what changed"
    yield ""
    names = f"{code(file_name(comparison.before))} → {code(file_name(comparison.after))}"
    yield f"{names}: {plain(count_changes(comparison))}."
    for kind, title in (("new", "New"), ("fixed", "Fixed")):
        rows = [change for change in comparison.findings if change.kind == kind]
        if rows:
            yield from ("", f"**{title}**", "", "| where | what | why |", "|---|---|---|")
        for change in rows:
            yield f"| {code(file_name(where(change)))} | {plain(what(change))} | {plain('; '.join(change.because))} |"
    yield ""
    for target in comparison.targets:
        yield f"- {code(target.target)}: {plain(verdict(target))}"
        for site in target.sites:
            place = code(f"{file_name(site.site.path)}:{site.site.line}")
            yield f"  - {site.kind} break site {place}: {plain(site.site.reason.partition(chr(10))[0])}"
    for target in comparison.targets:
        if target.bench is not None:
            yield from ("", f"**Speed of** {code(target.target)}: {plain(bench_verdict(target.bench))}")
            yield from _bench(target.bench)


def _bench(bench: BenchChange) -> Iterator[str]:
    """Yield each arm in each case before and after, and other differences."""
    if bench.arms:
        yield from ("", "| case | arm | before | after | | |", "|---|---|---|---|---|---|")
    for found in bench.arms:
        figures = [time_interval(found.before), time_interval(found.after)]
        cells = (found.case, found.arm, *figures, by_how_much(found), BENCH_STATE[found.state])
        yield f"| {' | '.join(map(plain, cells))} |"
    facts = [f"{d.name}: {d.before or 'none'} -> {d.after or 'none'}" for d in bench.differences]
    facts += [f"measured in one alone: {', '.join(bench.missing)}"] if bench.missing else []
    if facts:
        yield ""
    yield from (f"- {plain(fact)}" for fact in facts)
