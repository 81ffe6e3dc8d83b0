"""Combine several reports, and runs made elsewhere, into one: everything that they were made from is merged again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tcready.merge.findings import claim_of
from tcready.merge.target_reports import as_stored
from tcready.merge.whole_report import merge
from tcready.schema.enums import Mode, TcreadyError
from tcready.schema.observation import Observation, device_kind
from tcready.schema.report import Report
from tcready.schema.static import Finding, RuleText, SourceText, StaticResult, StaticTarget

if TYPE_CHECKING:
    from tcready.schema.sweep import Sweep, SweptModel


def combine_reports(
    reports: Sequence[tuple[str, Report]], runs: Sequence[Observation], advice: Mapping[str, RuleText]
) -> Report:
    """Combine several named reports and further runs into one report, as if all had been made at once.

    If two have different texts of a file, the first is shown, and a warning says so. Raises TcreadyError if there is no
    report.
    """
    if not reports:
        raise TcreadyError("there is no report to put runs into")
    if len(reports) == 1 and not runs:
        return reports[0][1]
    given = [report for _, report in reports]
    sources, unlike = _sources(reports)
    static = StaticResult(
        findings=_claims(finding for report in given for finding in report.findings),
        targets=_predicted(given),
        sources=sources,
        skipped=tuple({item.path: item for report in given for item in report.skipped}.values()),
        warnings=tuple(dict.fromkeys((*(w for report in given for w in _warnings(report)), *unlike))),
        statistics=_statistics(given),
        unused=tuple(dict.fromkeys(noqa for report in given for noqa in report.unused)),
        hidden=_claims(finding for report in given for finding in report.silenced),
    )
    rules = {rule.code: rule for report in given for rule in report.rules}
    merged = merge(static, _runs(given, runs), rules, given[0].tool, advice)
    checkouts = {report.checkout for report in given if report.checkout is not None}
    known = {target.target for target in merged.targets}
    older = {t.target: t for report in given if not report.predicted for t in report.targets}
    return dataclasses.replace(
        merged,
        targets=(*merged.targets, *(target for name, target in older.items() if name not in known)),
        checkout=checkouts.pop() if len(checkouts) == 1 else None,
        readings=tuple(dict.fromkeys(reading for report in given for reading in report.readings)),
        hidden=tuple(sorted({*merged.hidden, *_hidden_before(given)})),
        sweep=_benched(given, runs),
    )


def _benched(reports: Sequence[Report], runs: Sequence[Observation]) -> Sweep | None:
    """Return the sweep of one of the reports, with the gains that the others measured for its models. Return None if
    there are several, or if the others contain anything else, which the tables of a sweep would not show."""
    sweeps = [report.sweep for report in reports if report.sweep is not None]
    others = [report for report in reports if report.sweep is None]
    benches = [seen for report in others for seen in (t.observation for t in report.targets) if seen.was_run]
    benches += runs
    if len(sweeps) != 1 or not {seen.target for seen in benches} <= {row.target for row in sweeps[0].models}:
        return None
    if any(seen.bench is None for seen in benches):
        return None
    return dataclasses.replace(
        sweeps[0], models=tuple(dataclasses.replace(row, gain=_gain(row, benches)) for row in sweeps[0].models)
    )


def _gain(row: SweptModel, benches: Sequence[Observation]) -> float | None:
    """Return the result of the last bench of a model in the mode of its row, and on its device if it has one."""
    gain = row.gain
    for seen in benches:
        device = device_kind(seen)
        alike = (seen.target, seen.mode) == (row.target, row.mode)
        if alike and seen.bench is not None and row.device.partition(":")[0] in ("", "auto", device):
            gain = seen.bench.gain
    return gain


def _runs(reports: Sequence[Report], runs: Sequence[Observation]) -> tuple[Observation, ...]:
    """Return every run in a report, and the further ones, without duplicates."""
    known = (target.observation for report in reports for target in report.targets if target.was_run)
    distinct: list[Observation] = []
    for seen in (*known, *map(as_stored, runs)):
        if seen not in distinct:
            distinct.append(seen)
    return tuple(distinct)


def _claims(findings: Iterator[Finding]) -> tuple[Finding, ...]:
    """Return the predictions from the source alone, one finding for each place and rule."""
    claims: dict[tuple[str, int, int, str], Finding] = {}
    for found in findings:
        if found.rule is not None:
            claims.setdefault((found.path, found.line, found.column, found.rule), claim_of(found))
    return tuple(claims[place] for place in sorted(claims))


def _predicted(reports: Sequence[Report]) -> tuple[StaticTarget, ...]:
    """Return the predictions of the first report that has a target in these modes."""
    known: dict[tuple[str, tuple[Mode, ...]], StaticTarget] = {}
    for report in reports:
        for target in report.predicted:
            known.setdefault((target.target, target.modes), target)
    return tuple(known.values())


def _warnings(report: Report) -> tuple[str, ...]:
    """Return the warnings about the sources; older reports do not separate them from those about runs."""
    return report.warnings if report.static_warnings is None else report.static_warnings


def _hidden_before(reports: Sequence[Report]) -> Iterator[str]:
    """Return the hidden findings of older reports, which have only their fingerprints."""
    for report in reports:
        if not report.silenced:
            yield from report.hidden


def _sources(reports: Sequence[tuple[str, Report]]) -> tuple[tuple[SourceText, ...], list[str]]:
    """Return the files of all reports, and warnings about them. If two reports read a file differently, its text is
    dropped, because it would be shown with the findings of both."""
    known: dict[str, tuple[str, SourceText]] = {}
    unlike = []
    for name, report in reports:
        for source in report.sources:
            first, other = known.setdefault(source.path, (name, source))
            if other.sha256 != source.sha256:
                unlike.append(
                    f"{source.path} is not the same in {first} and {name}: its lines may have moved, and none is shown"
                )
                known[source.path] = first, dataclasses.replace(other, text="")
        if report.narrowed is not None:
            unlike.append(f"{name} leaves findings out: it was made with a baseline or --diff-base")
    return tuple(known[path][1] for path in sorted(known)), unlike


def _statistics(reports: Sequence[Report]) -> dict[str, Any]:
    """Return the statistics of a single report, or the sums over several: files that two of them read count twice."""
    given = [report.statistics for report in reports if report.statistics]
    if len(given) == 1:
        return dict(given[0])
    summed: dict[str, Any] = {}
    for name in sorted({name for statistics in given for name in statistics}):
        values = [statistics[name] for statistics in given if name in statistics]
        if name == "unresolved":
            summed[name] = _constructs(row for value in values for row in value)
        elif all(isinstance(value, list | tuple) for value in values):
            summed[name] = sorted({str(item) for value in values for item in value})
        elif all(isinstance(value, int | float) for value in values):
            summed[name] = sum(values)
    return summed


def _constructs(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the combined counts of constructs that were not understood, most frequent first, each at its first
    place."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        known = found.setdefault(row["construct"], {**row, "count": 0})
        first = min((known["path"], known["line"]), (row["path"], row["line"]))
        known |= {"count": known["count"] + row["count"], "path": first[0], "line": first[1]}
    return sorted(found.values(), key=lambda row: (-row["count"], row["construct"]))
