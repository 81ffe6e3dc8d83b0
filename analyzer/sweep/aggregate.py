"""The summary of a sweep: its rows, its break sites over all models, the changes since the last one. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tcready.schema.capture_failures import CaptureFailures
from tcready.schema.enums import BREAKING, OF_THE_MODEL, Mode, Origin
from tcready.schema.observation import Observation
from tcready.schema.report import Report, TargetReport
from tcready.schema.run import BreakSite, SkippedFrame
from tcready.schema.static import Finding
from tcready.schema.sweep import Cause, ChangeKind, Outcome, Sweep, SweptFix, SweptModel, SweptSite, SweptState
from tcready.sweep.cache_key import Ground

Place = tuple[str, int]
Read = tuple[str, Mode]
"""A target, and the mode in which it was read; the first if both."""


@dataclass(frozen=True)
class AggregateRow:
    """A target of the report, and the source of its result."""

    report: TargetReport
    device: str
    seconds: float | None
    stored: bool
    before: Outcome | None = None
    causes: tuple[Cause, ...] = ()
    table: str = ""
    interpreter: str = ""


def summarize(
    report: Report,
    rows: Sequence[AggregateRow],
    gone: Sequence[str] = (),
    *,
    has_last: bool = False,
    made: int = 0,
    taken: int = 0,
    seconds: float = 0.0,
) -> Sweep:
    """Return the summary of a sweep for the targets of `report`, each of which has a row, and for files that cannot
    be read."""
    found = _Found.of(report)
    models = [_model(row, found) for row in rows]
    models += [
        SweptModel(item.path, "infer", "", "", "", Outcome("unread", "unknown"), item.reason) for item in report.skipped
    ]
    sites = _sites(report, found)
    return Sweep(
        models=tuple(
            sorted(
                models,
                key=lambda each: (each.target, each.mode, each.device, each.python, each.torch, each.interpreter),
            )
        ),
        sites=tuple(sites),
        fixes=tuple(_fixes(sites, found)),
        gone=tuple(gone),
        has_last=has_last,
        made=made,
        taken=taken,
        seconds=seconds,
    )


def outcome(target: TargetReport, predicted: Mapping[Read, Sequence[Finding]]) -> Outcome:
    """Return the result that is compared between sweeps. `predicted` are the breaking findings of targets that were
    only read."""
    seen = target.observation
    own, third_party = _counted(
        (origin for _, origin in _places(seen))
        if target.was_run
        else ({(f.path, f.line): f.origin for f in predicted.get((target.target, target.mode), ())}).values()
    )
    share = target.coverage.share if target.coverage is not None else None
    return Outcome(_state(seen), target.verdict, share, own, third_party)


def causes(before: Ground, after: Ground) -> tuple[Cause, ...]:
    """Return the inputs of a result that changed."""
    found = [
        Cause("own", path, "" if path in before.files else "not there", "" if path in after.files else "not there")
        for path in sorted({*before.files, *after.files})
        if before.files.get(path) != after.files.get(path)
    ]
    for name in sorted({*before.distributions, *after.distributions}):
        then, now = before.distributions.get(name, "not there"), after.distributions.get(name, "not there")
        if then != now:
            found.append(Cause("dependency", name, then, now))
    plain: tuple[tuple[ChangeKind, str, str], ...] = (
        ("torch", before.torch, after.torch),
        ("python", before.python, after.python),
    )
    found += [Cause(kind, "", then, now) for kind, then, now in plain if then != now]
    if before.tcready != after.tcready:
        found.append(Cause("tcready", ""))
    found += [
        Cause("options", name, str(before.options.get(name)), str(after.options.get(name)))
        for name in sorted({*before.options, *after.options})
        if before.options.get(name) != after.options.get(name)
    ]
    return tuple(found)


def breaking(report: Report) -> dict[Read, tuple[Finding, ...]]:
    """Return the findings that are predicted to break each target."""
    by_print = {print_: f for f in report.findings for print_ in (f.fingerprint, *f.also)}
    found: dict[Read, tuple[Finding, ...]] = {}
    for target in report.predicted:
        names = (name for module in target.modules for name in module.breaks if name in by_print)
        distinct = {by_print[name].fingerprint: by_print[name] for name in names}
        found[target.target, target.modes[0]] = tuple(each for each in distinct.values() if each.effect in BREAKING)
    return found


def _state(seen: Observation) -> SweptState:
    if not seen.was_run:
        return "read"
    failed = next((stage for stage in seen.stages if stage.state == "fail"), None)
    if failed is not None and failed.reason == "no_inputs":
        return "inputs_unknown"
    captured = any(stage.stage == "capture" and stage.state == "pass" for stage in seen.stages)
    if captured or (failed is not None and failed.reason in OF_THE_MODEL):
        return "run"
    return "failed"


def _places(seen: Observation) -> Iterator[tuple[Place, Origin]]:
    """Return distinct lines at which a run broke or gave up a function."""
    troubles = CaptureFailures.of(seen)
    for item in troubles.breaks:
        yield (item.first.path, item.first.line), item.first.origin
    for frame in troubles.frames:
        yield (frame.path, frame.line), frame.origin


def _counted(origins: Iterable[Origin]) -> tuple[int, int]:
    every = list(origins)
    return every.count("own"), every.count("third_party")


@dataclass
class _Site:
    """One line, while targets are being processed."""

    symbol: str
    origin: Origin
    what: str
    message: str
    observed: bool
    targets: dict[str, None] = field(default_factory=dict)
    hits: int = 0
    operations: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class _Found:
    """The findings of a report, by place."""

    predicted: Mapping[Read, Sequence[Finding]]
    by_line: Mapping[Place, Sequence[Finding]]

    @classmethod
    def of(cls, report: Report) -> _Found:
        by_line: dict[Place, list[Finding]] = defaultdict(list)
        for finding in report.findings:
            if finding.effect in BREAKING:
                for line in range(finding.line, finding.end_line + 1):
                    by_line[finding.path, line].append(finding)
        return cls(breaking(report), by_line)

    def at(self, place: Place) -> Finding | None:
        """Return the finding on a line: one that a run showed comes first."""
        shown = ("confirmed", "runtime_only")
        return min(self.by_line.get(place, ()), key=lambda f: (f.status not in shown, f.column), default=None)


def _model(row: AggregateRow, found: _Found) -> SweptModel:
    target, seen = row.report, row.report.observation
    about = target.environment or {}
    state = _state(seen)
    failed = next((stage for stage in seen.stages if stage.state == "fail"), None)
    stopped = failed if state in ("failed", "inputs_unknown") else None
    seconds = [graph.compile_seconds for graph in seen.graphs if graph.compile_seconds is not None]
    return SweptModel(
        target=target.target,
        mode=target.mode,
        device=row.device,
        torch=str(about.get("torch") or ""),
        python=str(about.get("python") or ""),
        outcome=outcome(target, found.predicted),
        reason=f"{stopped.stage}: {stopped.detail}" if stopped is not None else target.verdict_reason,
        word=stopped.reason if stopped is not None else None,
        time_share=target.coverage.time_share if target.coverage is not None else None,
        compile_seconds=sum(seconds) if seconds else None,
        seconds=row.seconds,
        stored=row.stored,
        before=row.before,
        causes=row.causes,
        table=row.table,
        interpreter=row.interpreter,
    )


def _sites(report: Report, found: _Found) -> list[SweptSite]:
    sites: dict[Place, _Site] = {}

    def at(of: BreakSite | SkippedFrame | Finding, what: str, message: str, *, observed: bool = True) -> _Site:
        """Return the line of a break or a prediction of `target`, which counts there from now on."""
        place = (of.path, of.line)
        finding = found.at(place)
        if finding is not None:
            what, message = finding.rule or what, finding.message
        site = sites.setdefault(place, _Site(of.symbol, of.origin, what, message, observed))
        site.targets[target.target] = None
        return site

    for target in report.targets:
        if target.was_run:
            troubles = CaptureFailures.of(target.observation)
            for item in troubles.breaks:
                first = item.first
                site = at(first, first.gb_id or "", first.reason.partition("\n")[0])
                site.hits += item.hits
                for each in target.break_sites:
                    if (each.path, each.line) == (first.path, first.line) and each.cost is not None:
                        site.operations += each.cost.ops
                        site.seconds += each.cost.seconds or 0.0
            for frame in troubles.frames:
                at(frame, "", frame.reason.partition("\n")[0]).hits += 1
        else:
            for finding in found.predicted.get((target.target, target.mode), ()):
                at(finding, finding.rule or "", finding.message, observed=False)
    every = [_site(place, site, found.at(place)) for place, site in sites.items()]
    return sorted(every, key=lambda site: (-len(site.models), -site.seconds, site.path, site.line))


def _site(place: Place, site: _Site, finding: Finding | None) -> SweptSite:
    path, line = place
    return SweptSite(
        path=path,
        line=line,
        symbol=site.symbol,
        origin=site.origin,
        what=site.what,
        message=site.message,
        models=tuple(sorted(site.targets)),
        observed=site.observed,
        hits=site.hits,
        operations=site.operations,
        seconds=site.seconds,
        fingerprint=finding.fingerprint if finding is not None else "",
        fix=_fix(finding),
    )


def _fix(finding: Finding | None) -> str:
    if finding is None or finding.fix is None:
        return ""
    settings = ", ".join(_settings(finding))
    return settings or finding.fix.title


def _settings(finding: Finding) -> list[str]:
    """Return the settings with which Dynamo compiles the unmodified code."""
    given = finding.fix.settings if finding.fix is not None else {}
    return [f"torch._dynamo.config.{name} = {value!r}" for name, value in sorted(given.items())]


def _fixes(sites: Sequence[SweptSite], found: _Found) -> list[SweptFix]:
    """Return the changes that remove sites: a setting removes all that it should fix, a code change the one at its
    place."""
    groups: dict[str, list[SweptSite]] = defaultdict(list)
    for site in sites:
        finding = found.at((site.path, site.line))
        if finding is None or finding.fix is None:
            continue
        settings = _settings(finding)
        if settings:
            groups["; ".join(settings)].append(site)
        elif finding.fix.edits:
            groups[f"{site.what} at {site.path}:{site.line}: {finding.fix.title}"].append(site)
    every = [
        SweptFix(
            what,
            len(cured),
            tuple(sorted({name for site in cured for name in site.models})),
            sum(site.operations for site in cured),
            sum(site.seconds for site in cured),
        )
        for what, cured in groups.items()
    ]
    # of what is alike in all of these, the change for the first site of the table comes first
    return sorted(every, key=lambda fix: (-len(fix.models), -fix.seconds, -fix.sites))
