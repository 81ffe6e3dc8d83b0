"""Compare two reports: what is fixed, what is new, and possible reasons. Pure."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from tcready.bench.regression import words_of
from tcready.bench.repeat_comparison import again, noise_of
from tcready.portable.target import Target
from tcready.schema.comparison import (
    ArmChange,
    BenchChange,
    Comparison,
    Difference,
    FindingChange,
    SiteChange,
    TargetChange,
)
from tcready.schema.enums import LEVELS, FindingKind, Level, StageName, lines_of
from tcready.schema.report import Report, TargetReport
from tcready.schema.static import Finding

if TYPE_CHECKING:
    from tcready.schema.bench import ArmBench, Bench
    from tcready.schema.comparison import BenchState
    from tcready.schema.run import BreakSite

_FAILING: frozenset[StageName] = frozenset({"capture", "backend", "parity"})
"""Stages that make a check fail without a finding."""
_FEW = 3
_MACHINE = frozenset({"cpu", "gpu", "device", "cores", "threads"})
"""Entries of a stack that identify a machine: if one of them differs, two benches are not comparable."""
_MOMENT = "load"
"""The word in entries for how much others used the machine: they differ between any two runs."""


def compare(before: Report, after: Report, names: tuple[str, str] = ("before", "after")) -> Comparison:
    """Return what changed from `before` to `after`.

    Findings are equal if their fingerprints are, even on other lines. They are in the order of the files; fixed ones
    have their earlier line. A finding that is missing in `after` is fixed only if `after` could have found it: its file
    was read in the same way, its target is included, and what only a run shows was run again in the same mode.
    """
    own, other = _files(before, after)
    about = tuple(_differing(*_made(before, after)))
    pairs = tuple(_pairs(before.targets, after.targets))
    where = dict.fromkeys(
        difference for one, two in pairs if one and two for difference in _about(one, two) if _matters(difference.name)
    )
    facts = _Facts(before, after, own, other, (*about, *where))
    alike = _alike(before, after)
    changes = (*_findings(before, after, facts, alike), *_missing(before, after, alike))
    return Comparison(
        before=names[0],
        after=names[1],
        findings=tuple(sorted(changes, key=lambda change: _order(change.finding))),
        targets=tuple(_target(one, two, facts) for one, two in pairs),
        own_files=own,
        other_files=other,
        differences=about,
    )


def compare_versions(before: Report, after: Report, names: tuple[str, str]) -> Comparison:
    """Compare reports on one source read for two versions of torch. The version is the reason and is not repeated."""
    read = [
        replace(report, readings=tuple(replace(reading, torch="") for reading in report.readings))
        for report in (before, after)
    ]
    compared = compare(read[0], read[1], names)
    return replace(compared, findings=tuple(replace(change, because=()) for change in compared.findings))


def _made(before: Report, after: Report) -> tuple[dict[str, str], dict[str, str]]:
    """Return the maker of each report, and how it read the sources if both have that."""
    made = ({"tcready": before.tool.version}, {"tcready": after.tool.version})
    if before.readings and after.readings:
        for values, report in zip(made, (before, after), strict=True):
            for name in ("mode", "low", "plain_call", "torch"):
                read = sorted({str(getattr(reading, name)) for reading in report.readings})
                values[f"read for {name}" if name == "torch" else name] = ", ".join(read)
    return made


def exit_code(comparison: Comparison, *, fail_on: Level = "warning", third_party: bool = False) -> int:
    """Return 1 if a finding at or above `fail_on` is new, or a target newly fails to compile; else 0.

    Findings in installed packages count only with `third_party`.
    """
    weight = LEVELS.index(fail_on)
    new = any(
        change.kind == "new"
        and LEVELS.index(change.finding.level) >= weight
        and (third_party or change.finding.origin == "own")
        for change in comparison.findings
    )
    # A stage that ended for another reason than the model, out of time or memory, leaves the verdict open.
    broken = (t for t in comparison.targets if t.after != "unknown" and not _FAILING.isdisjoint(t.failed))
    return int(new or any(broken))


def _order(found: Finding) -> tuple[str, int, int, str]:
    return found.path, found.line, found.column, found.fingerprint


def _prints(found: Finding, alike: Mapping[str, str] = MappingProxyType({})) -> tuple[str, ...]:
    """Return the fingerprints of a finding; for the later report, mapped to those of the earlier one by `_alike`."""
    return tuple(alike.get(each, each) for each in (found.fingerprint, *found.also))


def _alike(before: Report, after: Report) -> dict[str, str]:
    """Match identical findings if their number changed: return the earlier fingerprint for each later one; empty for a
    new one.

    Identical findings are numbered from the top of a file: if the first is gone, each of the others takes the
    fingerprint of the one above it. They are matched by the lines that the two texts have in common, else by their
    order.
    """
    earlier, later = map(_by_kind, (before, after))
    texts = [{source.path: source.text for source in report.sources if source.text} for report in (before, after)]
    same: dict[str, str] = {}
    common: dict[str, dict[int, int]] = {}
    for (path, kind), now in later.items():
        then = earlier.get((path, kind), [])
        if len(now) == len(then) or not then or not all(path in each for each in texts):
            continue
        if path not in common:
            common[path] = _common_lines(*(each[path] for each in texts))
        left = [*then]
        for found in now:
            match = next((each for each in left if each.line == common[path].get(found.line)), None)
            same[found.fingerprint] = match.fingerprint if match is not None else ""
            left = [each for each in left if each is not match]
        others = [found.fingerprint for found in now if not same[found.fingerprint]]
        same |= {name: found.fingerprint for name, found in zip(others, left, strict=False)}
    return same


def _by_kind(report: Report) -> dict[tuple[str, str], list[Finding]]:
    """Group findings by file and by the part of the fingerprint that identical findings share."""
    found: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for each in report.findings:
        found[each.path, each.fingerprint.partition("-")[0]].append(each)
    return found


def _common_lines(before: str, after: str) -> dict[int, int]:
    """Map lines of the later text that are in the earlier one to their earlier line numbers, 1-based."""
    from difflib import SequenceMatcher

    blocks = SequenceMatcher(None, lines_of(before), lines_of(after), autojunk=False).get_matching_blocks()
    return {block.b + 1 + i: block.a + 1 + i for block in blocks for i in range(block.size)}


def _findings(before: Report, after: Report, facts: _Facts, alike: Mapping[str, str]) -> Iterator[FindingChange]:
    """Return the findings of the later report."""
    known = {print_: found for found in before.findings for print_ in reversed(_prints(found))}
    for found in after.findings:
        if not known.keys() >= {*_prints(found, alike)}:
            hid = not set(before.hidden).isdisjoint(_prints(found))
            why = ("the earlier report hides it: a noqa comment, or the choice of rules",) if hid else ()
            yield FindingChange("new", found, because=(*why, *facts.about(found.path)))
            continue
        then = known[alike.get(found.fingerprint, found.fingerprint)]
        kind: FindingKind = "unchanged" if then.line == found.line else "moved"
        yield FindingChange(kind, found, then.line, then.status)


def _missing(before: Report, after: Report, alike: Mapping[str, str]) -> Iterator[FindingChange]:
    """Return the findings that only the earlier report has."""
    there = {print_ for found in after.findings for print_ in _prints(found, alike)}
    read = {source.path for source in after.sources}
    aims = _Aims(before, after)
    for found in before.findings:
        if not there.isdisjoint(_prints(found)):
            continue
        why: str | None = None
        if after.narrowed is not None:
            why = "the later report leaves findings out on purpose"
        elif not set(after.hidden).isdisjoint(_prints(found)):
            why = "the later report hides it: a noqa comment, or the choice of rules"
        elif found.rule is None:
            why = aims.not_run(found)
        elif found.path not in read:
            why = f"{found.path} is not in the later report"
        else:
            why = _otherwise(found, before, after) or aims.left(found)
        kind: FindingKind = "not_compared" if why else "fixed"
        yield FindingChange(kind, found, found.line, found.status, (why,) if why else ())


def _otherwise(found: Finding, before: Report, after: Report) -> str | None:
    """Return how the later report read the sources differently, if that may be why it misses a finding."""
    reasons = (now.differs(then, found.modes) for then in before.readings for now in after.readings)
    return next((why for why in reasons if why is not None), None)


class _Aims:
    """The targets that the reports cover and ran, as far as findings depend on them."""

    def __init__(self, before: Report, after: Report) -> None:
        self._then, self._now = _aimed(before), _aimed(after)
        self._ran = [
            {(target.target, target.mode) for target in report.targets if _captured(target)}
            for report in (before, after)
        ]
        self._telling: dict[str, set[str]] = defaultdict(set)
        for aim in before.predicted:
            for module in aim.modules:
                for print_ in module.breaks:
                    self._telling[print_].add(aim.target)

    def not_run(self, found: Finding) -> str | None:
        """Return a reason why a finding of a run is missing: not every such run was repeated."""
        then, now = self._ran
        again = {target for target, _ in now}
        wanted = {
            (entry.target, mode)
            for entry in found.targets
            for target, mode in then
            if target == entry.target and entry.mode in (None, mode)
        }
        if not all(entry.target in again for entry in found.targets):
            return "only a run shows it, and its target was not run again"
        missed = sorted(mode for _, mode in wanted - now)
        return f"only a run with --mode {missed[0]} shows it, and none was made again" if missed else None

    def left(self, found: Finding) -> str | None:
        """Return a reason why a finding of the source is missing: no target that leads there is in the later report."""
        owners = {target for print_ in _prints(found) for target in self._telling[print_]}
        if not owners:
            by_name = f"{found.path}::{found.symbol.partition('.')[0]}"
            in_file = {target for target in self._then if Target.place_in(target) == found.path}
            owners = {by_name} & in_file or in_file
        if not owners or not owners.isdisjoint(self._now):
            return None
        return f"{_listed(sorted(owners))} is not in the later report"


def _aimed(report: Report) -> set[str]:
    return {target.target for target in report.targets} | {target.target for target in report.predicted}


# What may be why


class _Facts:
    """Differences between the reports that may explain a new finding."""

    def __init__(
        self, before: Report, after: Report, own: Sequence[str], other: Sequence[str], differences: Sequence[Difference]
    ) -> None:
        self._before, self._after = _digests(before), _digests(after)
        self._own, self._other = own, other
        self._differences = differences

    def about(self, path: str) -> tuple[str, ...]:
        """Return why something is new in the file `path`: the file changed, or else what other changes there are."""
        then, now = self._before.get(path), self._after.get(path)
        if then is None:
            facts = [f"{path} is not in the earlier report"]
        elif now is not None and now != then:
            facts = [f"{path} changed"]
        else:
            facts = [f"{path} did not change"]
            if self._own:
                facts.append(f"your code changed in {_listed(self._own)}")
        facts += [f"{d.name}: {d.before or 'none'} before, {d.after or 'none'} now" for d in self._differences]
        if path not in self._other and self._other:
            facts.append(f"installed code changed in {_listed(self._other)}")
        return tuple(facts)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _FEW} more files" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more


def _digests(report: Report) -> dict[str, str]:
    """Return the SHA-256 of every file in a report: when it was run, else when it was read."""
    found = {source.path: source.sha256 for source in report.sources}
    return found | {path: digest for target in report.targets for path, digest in target.observation.digests}


def _files(before: Report, after: Report) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return files that differ: the user's, and others. A file that only one report has may not have been read by
    the other."""
    own = {found.path for report in (before, after) for found in report.findings if found.origin == "own"}
    own |= {Target.place_in(target.target) for report in (before, after) for target in report.targets}
    own |= {source.path for report in (before, after) for source in report.sources}
    own -= {f.path for report in (before, after) for f in report.findings if f.origin == "third_party"}
    then, now = _digests(before), _digests(after)
    differing = sorted(path for path in then.keys() & now.keys() if then[path] != now[path])
    return (tuple(path for path in differing if path in own), tuple(path for path in differing if path not in own))


# Targets


def _ran(target: TargetReport) -> bool:
    return target.environment is not None


def _captured(target: TargetReport) -> bool:
    return any(stage.stage == "capture" and stage.state != "not_run" for stage in target.stages)


def _pairs(
    before: Iterable[TargetReport], after: Iterable[TargetReport]
) -> Iterator[tuple[TargetReport | None, TargetReport | None]]:
    """Pair each target of the later report with its earlier one, first on the same device, then the rest."""
    waiting: dict[tuple[str, str], list[TargetReport]] = defaultdict(list)
    for target in before:
        waiting[target.target, target.mode].append(target)
    for target in after:
        candidates = waiting[target.target, target.mode]
        best = max(candidates, key=lambda one: _device(one) == _device(target), default=None)
        if best is not None:
            candidates.remove(best)
        yield best, target
    for one in itertools.chain.from_iterable(waiting.values()):
        yield one, None


def _device(target: TargetReport) -> object:
    return (target.environment or {}).get("device")


def _target(before: TargetReport | None, after: TargetReport | None, facts: _Facts) -> TargetChange:
    some = after or before
    assert some is not None
    ran = before is not None and after is not None and _captured(before) and _captured(after)
    return TargetChange(
        target=some.target,
        mode=some.mode,
        before=before.verdict if before else None,
        after=after.verdict if after else None,
        coverage_before=before.coverage.share if before and before.coverage else None,
        coverage_after=after.coverage.share if after and after.coverage else None,
        ran=ran,
        failed=_failed(before, after),
        sites=_sites(before, after, facts) if ran else (),
        differences=tuple(_about(before, after)) if before and after else (),
        bench=compare_benches(*(each.observation.bench if each else None for each in (before, after))),
    )


def _failed(before: TargetReport | None, after: TargetReport | None) -> tuple[StageName, ...]:
    then = {stage.stage for stage in (before.stages if before else ()) if stage.state == "fail"}
    return tuple(
        stage.stage for stage in (after.stages if after else ()) if stage.state == "fail" and stage.stage not in then
    )


def _sites(before: TargetReport | None, after: TargetReport | None, facts: _Facts) -> tuple[SiteChange, ...]:
    then, now = (_numbered(target.break_sites if target else ()) for target in (before, after))
    return (
        *(SiteChange("new", now[key], facts.about(now[key].path)) for key in now if key not in then),
        *(SiteChange("fixed", then[key]) for key in then if key not in now),
    )


def _numbered(sites: Iterable[BreakSite]) -> dict[tuple[str, str, str, int], BreakSite]:
    """Number the distinct sites by everything except their lines; equal ones in their order."""
    lines: dict[tuple[str, str, str], dict[int, BreakSite]] = defaultdict(dict)
    for site in sites:
        why = site.gb_id or site.reason.partition("\n")[0]
        lines[site.path, site.symbol, why].setdefault(site.line, site)
    return {
        (*key, number): by_line[line] for key, by_line in lines.items() for number, line in enumerate(sorted(by_line))
    }


# Benches


def compare_benches(before: Bench | None, after: Bench | None) -> BenchChange | None:
    """Return what changed between two benches beyond noise; None if neither exists.

    Arms of another machine are not compared. Another torch, driver or commit is what the comparison is for: it is
    named.
    """
    if before is None or after is None:
        verdicts = (before.verdict if before else None, after.verdict if after else None)
        return BenchChange(*verdicts) if any(verdicts) else None
    stack = tuple(_differing(dict(before.stack), dict(after.stack)))
    machine = tuple(difference for difference in stack if difference.name in _MACHINE)
    then, now = _timed(before), _timed(after)
    noise = noise_of(before, after)
    return BenchChange(
        before=before.verdict,
        after=after.verdict,
        arms=tuple(_change(key, then[key], now[key], noise, not machine) for key in now if key in then),
        missing=tuple(f"{arm} in {case}" for case, arm in (*then, *now) if (case, arm) not in then.keys() & now.keys()),
        machine=machine,
        differences=tuple(each for each in stack if each not in machine and _MOMENT not in words_of(each.name)),
    )


def _timed(bench: Bench) -> dict[tuple[str, str], ArmBench]:
    """Return the arms that were timed, by case and arm."""
    return {(case.case, arm.arm): arm for case in bench.cases for arm in case.arms if arm.seconds is not None}


def _change(key: tuple[str, str], before: ArmBench, after: ArmBench, noise: float, here: bool) -> ArmChange:
    """Return how an arm changed. `here`: both benches are of one machine."""
    found = again(before, after, noise)
    state: BenchState = "within_noise"
    if not here:
        state = "not_comparable"
    elif found.differs:
        state = "slower" if found.slower else "faster"
    elif found.ratio is not None and found.why_not:
        state = "not_judged"
    assert before.seconds is not None
    assert after.seconds is not None
    return ArmChange(*key, before.seconds, after.seconds, state)


def _about(before: TargetReport, after: TargetReport) -> Iterator[Difference]:
    """Return how the runs differ: versions, device, dtype, machine."""
    if _ran(before) and _ran(after):
        yield from _differing(_flat(before.environment or {}), _flat(after.environment or {}))


def _matters(name: str) -> bool:
    """Return True if the entry affects what Dynamo does: not the machine's name, its cores or its driver."""
    return name.split(".")[0] in ("python", "torch", "packages", "device", "dtype", "autocast", "dynamo", "cuda")


def _flat(environment: Mapping[str, object]) -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in environment.items():
        inner = value if isinstance(value, Mapping) else {"": value}
        flat |= {f"{name}.{key}" if key else name: str(each) for key, each in inner.items() if each is not None}
    return flat


def _differing(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Difference]:
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield Difference(name, before.get(name), after.get(name))
