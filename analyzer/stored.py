"""Reports and observations that were written before: read back, and several put together. Pure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from html.parser import HTMLParser
from typing import Any

from tcready.merge import merge, was_run
from tcready.schema import (
    SCHEMA_VERSION,
    Finding,
    Observation,
    Report,
    SourceText,
    StaticResult,
    StaticTarget,
    TargetReport,
    TcreadyError,
    from_json,
)

EMBEDDED = "tcready-report"
"""The id of the script element that holds a page's report."""
_RUN = "Dynamo: "
"""How a line of evidence begins that a run gave."""


def parsed(text: str, named: str) -> Report | Observation:
    """What a JSON report, an HTML page of one, or the travelling worker's file holds.

    Raises TcreadyError, with `named`, where it is none of these or of a newer tcready.
    """
    if text.lstrip("\ufeff \t\r\n").startswith("<"):
        page = _Page()
        page.feed(text)
        page.close()
        text = "".join(page.found)
        if not text:
            raise TcreadyError(f"{named} is an HTML page without a whole tcready report in it")
    try:
        data = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise TcreadyError(f"{named} is no whole JSON: {error}") from None
    return told(data, named)


def told(data: Any, named: str) -> Report | Observation:
    """The value that plain JSON data holds; raises as `parsed` does."""
    kind: type[Report] | type[Observation] | None = None
    if isinstance(data, dict):
        version = data.get("schema_version")
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise TcreadyError(f"{named} is of a newer tcready (schema {version}): update this one")
        kind = Report if {"findings", "targets"} <= data.keys() else None
        kind = Observation if {"stages", "target"} <= data.keys() else kind
    if kind is None:
        raise TcreadyError(f"{named} is neither a report of tcready nor what its worker wrote")
    try:
        return from_json(kind, data)
    except TcreadyError as error:
        raise TcreadyError(f"{named}: {error}") from None


class _Page(HTMLParser):
    """Collects what the script element that holds the report says."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "script" and ("id", EMBEDDED) in attrs

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.found.append(data)


def together(reports: Sequence[tuple[str, Report]], runs: Sequence[Observation]) -> Report:
    """One report of several, each with its name, and of further runs, judged as if all had been made at once.

    Where two hold different texts of a file, the first is shown, and a warning says so. Raises TcreadyError where there
    is nothing.
    """
    if not reports:
        raise TcreadyError("there is no report to put runs into")
    if len(reports) == 1 and not runs:
        return reports[0][1]
    given = [report for _, report in reports]
    known = [target for report in given for target in report.targets if was_run(target)]
    told_runs: list[tuple[Observation, TargetReport | None]] = []
    for seen, target in (*((_observation(t), t) for t in known), *((run, None) for run in runs)):
        if all(_core(seen) != _core(other) for other, _ in told_runs):
            told_runs.append((seen, target))
    sources, unlike = _sources(reports)
    claims: dict[tuple[str, int, int, str], Finding] = {}
    predicted: dict[str, StaticTarget] = {}
    for report in given:
        for found in _claims(report):
            claims.setdefault(_place(found), found)
        for aim in report.predicted:
            predicted.setdefault(aim.target, aim)
    static = StaticResult(
        findings=tuple(claims[place] for place in sorted(claims)),
        targets=tuple(predicted.values()),
        sources=sources,
        skipped=tuple({item.path: item for report in given for item in report.skipped}.values()),
        warnings=tuple(dict.fromkeys((*(w for report in given for w in report.warnings), *unlike))),
        statistics=_statistics(given),
    )
    rules = {rule.code: rule for report in given for rule in report.rules}
    merged = merge(static, [seen for seen, _ in told_runs], tuple(rules.values()), given[0].tool)
    judged = len(told_runs)  # runs come first, in their order
    targets = (_with(new, old) for new, (_, old) in zip(merged.targets, told_runs, strict=False))
    checkouts = {report.checkout for report in given if report.checkout is not None}
    spoken = {target.target for target in merged.targets}
    alone = {t.target: t for report in given if not report.predicted for t in report.targets}
    return dataclasses.replace(
        merged,
        targets=(
            *targets,
            *merged.targets[judged:],
            *(target for name, target in alone.items() if name not in spoken),
        ),
        checkout=checkouts.pop() if len(checkouts) == 1 else None,
        readings=tuple(dict.fromkeys(reading for report in given for reading in report.readings)),
        hidden=tuple(sorted({print_ for report in given for print_ in report.hidden})),
    )


def _place(found: Finding) -> tuple[str, int, int, str]:
    return found.path, found.line, found.column, found.rule or ""


def _claims(report: Report) -> Iterable[Finding]:
    """What the source alone predicts, without what runs said of it. What a run raised in weight stays raised."""
    for found in report.findings:
        if found.rule is not None:
            yield dataclasses.replace(
                found,
                status="predicted",
                targets=(),
                cost=None,
                evidence=tuple(line for line in found.evidence if not line.startswith(_RUN)),
                break_effect=dataclasses.replace(found.break_effect, seen=())
                if found.break_effect is not None
                else None,
            )


def _observation(target: TargetReport) -> Observation:
    """The run that a target of a report tells of."""
    names = {field.name for field in dataclasses.fields(TargetReport)}
    fields = [field.name for field in dataclasses.fields(Observation) if field.name in names]
    return Observation(**{name: getattr(target, name) for name in fields})


def _core(seen: Observation) -> Observation:
    """What a report keeps of a run: two that are equal in it are one run."""
    stages = tuple(s for s in seen.stages if s.detail or s.state != "not_run")
    return dataclasses.replace(seen, stages=stages, sources=(), warnings=())


def _with(new: TargetReport, old: TargetReport | None) -> TargetReport:
    """A target judged again, with what was measured of it after it was judged first."""
    if old is None:
        return new
    settled = {region.name: region for region in old.regions if region.state != "predicted"}
    regions = tuple(settled.get(region.name, region) for region in new.regions)
    return dataclasses.replace(new, regions=regions, parity=old.parity, bench=old.bench)


def _sources(reports: Sequence[tuple[str, Report]]) -> tuple[tuple[SourceText, ...], list[str]]:
    held: dict[str, tuple[str, SourceText]] = {}
    unlike = []
    for name, report in reports:
        for source in report.sources:
            first, other = held.setdefault(source.path, (name, source))
            if other.sha256 != source.sha256:
                unlike.append(
                    f"{source.path} is not the same in {first} and {name}: its lines may have moved"
                )
        if report.narrowed is not None:
            unlike.append(f"{name} leaves findings out: it was made with a baseline or --diff-base")
    return tuple(held[path][1] for path in sorted(held)), unlike


def _statistics(reports: Sequence[Report]) -> dict[str, Any]:
    """Of one report as they are; of several, sums: what two of them read counts twice."""
    given = [report.statistics for report in reports if report.statistics]
    if len(given) == 1:
        return dict(given[0])
    summed: dict[str, Any] = {}
    for name in sorted({name for statistics in given for name in statistics}):
        values = [statistics[name] for statistics in given if name in statistics]
        if all(isinstance(value, list | tuple) for value in values):
            summed[name] = sorted({str(item) for value in values for item in value})
        elif all(isinstance(value, int | float) for value in values):
            summed[name] = sum(values)
    return summed
